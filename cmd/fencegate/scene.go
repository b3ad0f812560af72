package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"
)

// What the two workers take from the row.
const (
	takeFirst     = 30
	takeSuccessor = 50
)

// stage is where scenes are played.
type stage struct {
	out         io.Writer
	self        string // this program
	api         *api
	databaseURL string // of the private database, for what goes round the gateway
	dir         string
	ttl         time.Duration
	began       time.Time
}

// target is what the workers write.
type target struct {
	path   string // below /v1; empty when the write goes round the gateway
	column string // of a row; empty for an object
	file   string // of the unfenced object
	name   string // for people
	lease  string // percent-encoded
}

// scene is one pause.
type scene struct {
	title string
	target
	early bool // the first worker wakes before its successor has written
	lost  bool // the late write is not refused: the successor's update is lost
}

// play runs the two workers through one pause and checks each step.
func (st *stage) play(ctx context.Context, s scene) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	before, err := st.look(ctx, s.target)
	if err != nil {
		return err
	}
	st.began = time.Now()
	if err := st.tellHolder(ctx, s.lease); err != nil {
		return err
	}
	first, err := st.start(ctx, s, "worker-a", takeFirst)
	if err != nil {
		return err
	}
	defer first.kill()
	if err := st.beginWork(s, first); err != nil {
		return err
	}
	if err := first.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	st.say("worker-a", "is stopped (SIGSTOP) past its lease of %v, about to write", st.ttl)
	successor, err := st.start(ctx, s, "worker-b", takeSuccessor)
	if err != nil {
		return err
	}
	defer successor.kill()
	if err := st.beginWork(s, successor); err != nil {
		return err
	}
	write := func() error { return st.expectWrite(s, successor) }
	wake := func() error { return st.expectLate(s, first) }
	if s.early {
		write, wake = wake, write
	}
	if err := errors.Join(write(), wake()); err != nil {
		return err
	}
	if err := errors.Join(first.wait(), successor.wait()); err != nil {
		return err
	}
	return st.conclude(ctx, s, before, first, successor)
}

// tellHolder says whom the first worker has to wait for, if anybody.
func (st *stage) tellHolder(ctx context.Context, lease string) error {
	ans, err := st.api.call(ctx, http.MethodGet, "/v1/leases/"+lease, nil)
	if err != nil || ans.status == http.StatusNotFound {
		return err
	}
	var held struct {
		Holder      string `json:"holder"`
		RemainingMS int64  `json:"remaining_ms"`
	}
	if err := json.Unmarshal(ans.body, &held); err != nil || !ans.ok() {
		return errors.Join(err, ans.err("look at the lease "+readable(lease)))
	}
	st.say("", "the lease %s is held by %s for another %v: waiting", readable(lease), held.Holder, time.Duration(held.RemainingMS)*time.Millisecond)
	return nil
}

func (st *stage) start(ctx context.Context, s scene, name string, take int64) (*workerProcess, error) {
	args := []string{"worker", "--holder=" + name, "--lease=" + s.lease, "--path=" + s.path, "--row=" + s.column, "--file=" + s.file,
		"--ttl=" + st.ttl.String(), "--take=" + strconv.FormatInt(take, 10), "--text=report of " + name}
	env := append(os.Environ(), "FENCEGATE_URL="+st.api.url, "FENCEGATE_AUTH_TOKEN="+st.api.auth, "FENCEGATE_DATABASE_URL="+st.databaseURL)
	return startWorker(ctx, st.self, name, args, env)
}

// beginWork follows a worker to the point where it has read the resource and is about to write.
func (st *stage) beginWork(s scene, w *workerProcess) error {
	granted, err := w.next("granted")
	if err != nil {
		return err
	}
	w.token = granted.Token
	st.say(w.name, "is granted the lease %s, token %d", readable(s.lease), granted.Token)
	read, err := w.next("read")
	if err != nil {
		return err
	}
	st.say(w.name, "reads the %s: %s", s.name, orNone(read.Value))
	return nil
}

// expectWrite lets the successor write.
func (st *stage) expectWrite(s scene, w *workerProcess) error {
	if err := w.tellToWrite(); err != nil {
		return err
	}
	wrote, err := w.next("accepted")
	if err != nil {
		return err
	}
	w.wrote = wrote.Value
	st.say(w.name, "writes the %s: %s, %s", s.name, wrote.Value, st.accepted(s, w))
	return nil
}

// expectLate wakes the first worker, whose write is late.
func (st *stage) expectLate(s scene, w *workerProcess) error {
	// Said now and not with the SIGSTOP, which may take a moment to stop every thread: it reads this when it wakes.
	if err := w.tellToWrite(); err != nil {
		return err
	}
	if err := w.signal(syscall.SIGCONT); err != nil {
		return err
	}
	st.say(w.name, "is continued (SIGCONT) and believes it still holds the lease")
	want := "refused"
	if s.lost {
		want = "accepted"
	}
	late, err := w.next(want)
	if err != nil {
		return err
	}
	w.wrote = late.Value
	if s.lost {
		st.say(w.name, "writes the %s: %s, %s", s.name, late.Value, st.accepted(s, w))
		return nil
	}
	st.say(w.name, "writes the %s: %s, token %d: REFUSED, %s", s.name, late.Value, w.token, late.Code)
	if late.Code != "stale-token" {
		return fmt.Errorf("the late write was refused as %s, not as stale-token: %s", late.Code, late.Detail)
	}
	return nil
}

func (st *stage) accepted(s scene, w *workerProcess) string {
	if s.lost {
		return "nobody asks for a token: accepted"
	}
	return fmt.Sprintf("token %d: accepted", w.token)
}

// conclude compares what stands at the end with what should, and sets a row back.
func (st *stage) conclude(ctx context.Context, s scene, before string, first, successor *workerProcess) error {
	end, err := st.look(ctx, s.target)
	if err != nil {
		return err
	}
	want := successor.wrote
	if s.lost {
		want = first.wrote
	}
	if end != want {
		return fmt.Errorf("the %s is %q at the end and should be %q", s.name, end, want)
	}
	if s.lost {
		st.say("", "the %s is %s: what worker-b wrote (%s) is LOST", s.name, end, successor.wrote)
	} else {
		st.say("", "the %s is %s: what worker-b wrote stands", s.name, end)
	}
	return st.setBack(ctx, s.target, before)
}

// look reads the target as anybody would.
func (st *stage) look(ctx context.Context, t target) (string, error) {
	w := workerCmd{Path: t.path, Row: t.column, File: t.file, Database: st.databaseURL}
	return w.read(ctx, st.api)
}

// setBack gives a row its value from before the scene: through the gateway under a lease, or the way it was changed.
func (st *stage) setBack(ctx context.Context, t target, value string) error {
	switch {
	case t.column == "":
		return nil
	case t.path == "":
		w := workerCmd{Row: t.column, Database: st.databaseURL}
		return w.setColumn(ctx, value)
	}
	g, err := st.api.acquire(ctx, t.lease, "demo", 10*time.Second, 10*time.Second)
	if err != nil {
		return err
	}
	ans, err := st.api.call(ctx, http.MethodPatch, "/v1/"+t.path, fmt.Appendf(nil, "{%q:%s}", t.column, value),
		"Content-Type", "application/json", "X-Fence-Token", strconv.FormatInt(g.Token, 10))
	if err == nil {
		err = ans.err("set the row back")
	}
	return errors.Join(err, st.api.release(ctx, t.lease, g))
}

// say prints a line of the timeline.
func (st *stage) say(who, format string, args ...any) {
	fmt.Fprintf(st.out, "  %6.2fs  %-9s %s\n", time.Since(st.began).Seconds(), who, fmt.Sprintf(format, args...))
}
