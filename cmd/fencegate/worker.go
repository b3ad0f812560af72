package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// workerCmd is one worker of the demo, a process of its own so that it can be stopped for real. It takes the lease,
// reads the resource, waits for a line on standard input (its "work", during which it is stopped), and writes what it
// concluded from what it read. It tells each step as a line of JSON.
type workerCmd struct {
	URL      string        `env:"FENCEGATE_URL" required:""`
	Auth     string        `env:"FENCEGATE_AUTH_TOKEN"`
	Database string        `env:"FENCEGATE_DATABASE_URL" help:"For the unfenced row."`
	Holder   string        `required:""`
	Lease    string        `required:"" help:"Name of the lease, percent-encoded."`
	Path     string        `help:"Resource below /v1; empty for an unfenced write."`
	Row      string        `help:"Column of a row to subtract from; empty for an object."`
	File     string        `help:"Plain file of the unfenced object."`
	Take     int64         `default:"0" help:"What to subtract from the column."`
	Text     string        `help:"What to write to the object."`
	TTL      time.Duration `default:"1s"`
	Wait     time.Duration `default:"20s"`
}

// step is one line that a worker tells: granted, read, accepted, refused.
type step struct {
	Event  string `json:"event"`
	Token  int64  `json:"token,omitempty"`
	Value  string `json:"value,omitempty"`
	Code   string `json:"code,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// Run works once.
func (c *workerCmd) Run(std *streams, rc *runContext) error {
	tell := json.NewEncoder(std.out)
	a := newAPI(c.URL, c.Auth)
	g, err := a.acquire(rc, c.Lease, c.Holder, c.TTL, c.Wait)
	if err != nil {
		return err
	}
	if err := tell.Encode(step{Event: "granted", Token: g.Token}); err != nil {
		return err
	}
	seen, err := c.read(rc, a)
	if err != nil {
		return err
	}
	if err := tell.Encode(step{Event: "read", Value: seen}); err != nil {
		return err
	}
	stdin := bufio.NewScanner(std.in)
	if !stdin.Scan() {
		return errors.New("nobody said when to write")
	}
	s, err := c.write(rc, a, seen, g.Token)
	if err != nil {
		return err
	}
	s.Token = g.Token
	if err := tell.Encode(s); err != nil {
		return err
	}
	if s.Event == "refused" {
		return nil // the lease is lost, there is nothing to release
	}
	// An unfenced worker that lost its lease does not know it.
	if err := a.release(rc, c.Lease, g); err != nil && c.Path != "" {
		return err
	}
	return nil
}

func (c *workerCmd) read(ctx context.Context, a *api) (string, error) {
	switch {
	case c.Path != "":
		ans, err := a.call(ctx, http.MethodGet, "/v1/"+c.Path, nil)
		if err != nil {
			return "", err
		}
		switch {
		case c.Row != "":
			return columnOf(ans, c.Row)
		case ans.status == http.StatusNotFound:
			return "", nil // nobody has written the object yet
		}
		return string(ans.body), ans.err("read the object")
	case c.Row != "":
		return c.direct(ctx, "SELECT "+pgx.Identifier{c.Row}.Sanitize()+"::text FROM public.wallets WHERE id = 42")
	}
	data, err := os.ReadFile(c.File)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return string(data), err
}

func columnOf(ans answer, column string) (string, error) {
	if err := ans.err("read the row"); err != nil {
		return "", err
	}
	var row map[string]json.RawMessage
	if err := json.Unmarshal(ans.body, &row); err != nil {
		return "", err
	}
	return string(row[column]), nil
}

func (c *workerCmd) write(ctx context.Context, a *api, seen string, token int64) (step, error) {
	value := c.Text
	if c.Row != "" {
		n, err := strconv.ParseInt(seen, 10, 64)
		if err != nil {
			return step{}, fmt.Errorf("the demo counts in whole numbers, %s is %q", c.Row, seen)
		}
		value = strconv.FormatInt(n-c.Take, 10)
	}
	done := step{Event: "accepted", Value: value}
	switch {
	case c.Path != "":
		method, body, kind := http.MethodPut, []byte(value), "text/plain"
		if c.Row != "" {
			method, body, kind = http.MethodPatch, fmt.Appendf(nil, "{%q:%s}", c.Row, value), "application/json"
		}
		ans, err := a.call(ctx, method, "/v1/"+c.Path, body, "Content-Type", kind, "X-Fence-Token", strconv.FormatInt(token, 10))
		if err != nil {
			return step{}, err
		}
		if !ans.ok() {
			p := ans.problem()
			return step{Event: "refused", Value: value, Code: p.Code, Detail: p.Detail}, nil
		}
		return done, nil
	case c.Row != "":
		return done, c.setColumn(ctx, value)
	}
	return done, os.WriteFile(c.File, []byte(value), 0o600)
}

// setColumn writes the row round the gateway; value is a whole number.
func (c *workerCmd) setColumn(ctx context.Context, value string) error {
	_, err := c.direct(ctx, "UPDATE public.wallets SET "+pgx.Identifier{c.Row}.Sanitize()+" = "+value+" WHERE id = 42 RETURNING id::text")
	return err
}

func (c *workerCmd) direct(ctx context.Context, sql string) (value string, err error) {
	conn, err := pgx.Connect(ctx, c.Database)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = conn.QueryRow(ctx, sql).Scan(&value)
	return value, err
}
