package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/fencegate/fencegate/lease"
)

// What the private gateway has; the same as the defaults of demoCmd's flags.
const (
	demoRow    = "wallets/42"
	demoColumn = "balance"
	demoBucket = "reports"
)

type demoCmd struct {
	URL    string        `name:"url" env:"FENCEGATE_DEMO_URL" placeholder:"URL" help:"Play the fenced part against this gateway instead of a private one."`
	Auth   string        `name:"auth" env:"FENCEGATE_AUTH_TOKEN" placeholder:"TOKEN" help:"Bearer token for --url."`
	Row    string        `env:"FENCEGATE_DEMO_ROW" default:"wallets/42" help:"Row to play with, as below /v1/rows. It must exist; its column is set back at the end."`
	Column string        `env:"FENCEGATE_DEMO_COLUMN" default:"balance" help:"Column of the row, holding a whole number."`
	Bucket string        `env:"FENCEGATE_DEMO_BUCKET" default:"reports" help:"Bucket to play with. The demo writes the object fencegate-demo.txt and deletes it at the end."`
	TTL    time.Duration `env:"FENCEGATE_DEMO_TTL" default:"1s" help:"Time to live of the leases; each pause outlasts it."`
}

// Help is shown below the flags of fencegate demo.
func (demoCmd) Help() string {
	return `Two workers, each a process of its own, take turns under a lease. The first is stopped with SIGSTOP past the
lease's time to live, as a long garbage collection, a full swap or a frozen machine would; the second takes over and
writes; the first is continued and writes what it had concluded before. Exit code 0 means that everything happened as it
should: the late write lost the update without fencing and was refused with it.`
}

// Run plays all scenes.
func (c *demoCmd) Run(std *streams, rc *runContext) error {
	if c.TTL < lease.MinTTL {
		return fmt.Errorf("--ttl must be at least %v", lease.MinTTL)
	}
	if c.URL == "" && (c.Row != demoRow || c.Column != demoColumn || c.Bucket != demoBucket) {
		return errors.New("--row, --column and --bucket go with --url: the private gateway has its own")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	st := &stage{out: std.out, self: self, ttl: c.TTL}
	if c.URL != "" {
		st.api = newAPI(c.URL, c.Auth)
		return c.play(rc, st, false)
	}
	dir, err := os.MkdirTemp("", "fencegate-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Fprintln(std.out, "Starting a private PostgreSQL, Redis and gateway …")
	return c.private(rc, st, dir)
}

// private plays against a gateway of its own, below dir.
func (c *demoCmd) private(rc *runContext, st *stage, dir string) (err error) {
	dev := &devCmd{Data: filepath.Join(dir, "data")} // the limits are the packages' own defaults
	l, err := listenLoopback(rc, "--listen", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	env, err := startDev(rc, dev, devFront{}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, env.Close()) }()
	ctx, stop := context.WithCancelCause(rc)
	defer stop(nil)
	env.watch(func(err error) { stop(fmt.Errorf("a private server has ended: %w", err)) })

	ready := make(chan string, 1)
	served := make(chan error, 1)
	go func() {
		served <- newServer(env.assembly, l, dev.limitFlags, atOnce()).run(ctx, func(url string) { ready <- url })
	}()
	select {
	case err := <-served:
		return err
	case url := <-ready:
		st.api = newAPI(url, "")
	}
	st.databaseURL, st.dir = env.databaseURL, dir
	played := c.play(&runContext{ctx}, st, true)
	stop(nil)
	return errors.Join(played, <-served)
}

// play runs the scenes and tells how they ended.
func (c *demoCmd) play(ctx context.Context, st *stage, unfenced bool) error {
	row := target{path: "rows/" + c.Row, column: c.Column, name: c.Column}
	object := target{path: "objects/" + url.PathEscape(c.Bucket) + "/fencegate-demo.txt", name: "report"}
	var err error
	for _, t := range []*target{&row, &object} {
		if t.lease, err = st.leaseOf(ctx, t.path); err != nil {
			return err
		}
	}
	var scenes []scene
	if unfenced {
		scenes = append(scenes,
			scene{title: "A row, without fencing: a lease alone", target: target{column: c.Column, name: c.Column, lease: row.lease}, lost: true},
			scene{title: "An object, without fencing: a lease alone", target: target{file: filepath.Join(st.dir, "report.txt"), name: "report", lease: object.lease}, lost: true})
	}
	scenes = append(scenes,
		scene{title: "The same row through fencegate", target: row},
		scene{title: "The same row, and the successor has not written yet", target: row, early: true},
		scene{title: "An object through fencegate", target: object},
		scene{title: "The same object, and the successor has not written yet", target: object, early: true})
	for i, s := range scenes {
		fmt.Fprintf(st.out, "\n%d. %s\n\n", i+1, s.title)
		if err := st.play(ctx, s); err != nil {
			return fmt.Errorf("scene %d did not go as it should: %w", i+1, err)
		}
	}
	if err := st.remove(ctx, object); err != nil {
		return err
	}
	closing := "Every late write was refused, and nothing was lost."
	if unfenced {
		closing = "Without fencing the late write of a paused worker destroyed its successor's, twice.\nWith fencegate " +
			"every late write was refused, even before the successor's first write, and nothing was lost."
	}
	fmt.Fprintf(st.out, "\n%s\n", closing)
	return nil
}

// leaseOf asks the gateway which lease protects a resource.
func (st *stage) leaseOf(ctx context.Context, path string) (string, error) {
	ans, err := st.api.call(ctx, http.MethodGet, "/v1/marks/"+path, nil)
	if err != nil {
		return "", fmt.Errorf("the gateway at %s does not answer: %w", st.api.url, err)
	}
	if err := ans.err("look at " + path); err != nil {
		return "", err
	}
	return ans.header.Get("X-Fence-Lease"), nil
}

// remove deletes the demo's object, fenced as any write.
func (st *stage) remove(ctx context.Context, t target) error {
	g, err := st.api.acquire(ctx, t.lease, "demo", 10*time.Second, 10*time.Second)
	if err != nil {
		return err
	}
	ans, err := st.api.call(ctx, http.MethodDelete, "/v1/"+t.path, nil, "X-Fence-Token", fmt.Sprint(g.Token))
	if err == nil {
		err = ans.err("delete " + t.path)
	}
	return errors.Join(err, st.api.release(ctx, t.lease, g))
}
