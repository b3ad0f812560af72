package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fencegate/fencegate/internal/sse"
)

const (
	// watchSilence is how long a stream may be silent: a gateway says something every 15 s.
	watchSilence = 45 * time.Second
	// watchRetry is the first pause before connecting again; it doubles up to watchRetryMost.
	watchRetry     = time.Second
	watchRetryMost = 30 * time.Second
	// maxEvent is longer than anything that a gateway says of an event.
	maxEvent = 1 << 20
)

type leaseWatchCmd struct {
	Prefix string   `placeholder:"TEXT" help:"Only leases whose names begin with this."`
	Kinds  []string `placeholder:"KIND,..." help:"Only these: granted, released, broken, abandoned, expired, refused."`
	Oldest bool     `help:"Begin with the oldest event that is kept, not with what happens from now on."`
	After  string   `placeholder:"ID" help:"Begin behind the event with this id."`
	JSON   bool     `name:"json" help:"Print a line of JSON for each event, as the gateway sends it."`
	gatewayFlags
}

// Help is shown below the flags of fencegate lease watch.
func (leaseWatchCmd) Help() string {
	return `Follows the events of all gateways of the deployment until it is stopped, those of leases that you may read. When the
connection breaks it connects again and goes on where it was, so no event is missed or shown twice.`
}

// watcher follows a stream across connections.
type watcher struct {
	*leaseWatchCmd
	std  *streams
	last string // id of the last event
	// silence is watchSilence, retry the pause before the next try to connect.
	silence, retry time.Duration
}

// watchedEvent is what a line shows of an event.
type watchedEvent struct {
	Kind      string    `json:"kind"`
	At        time.Time `json:"at"`
	Lease     string    `json:"lease"`
	Principal string    `json:"principal"`
	Holder    string    `json:"holder"`
	First     int64     `json:"first_token"`
	Ended     string    `json:"ended"`
	EndedBy   string    `json:"ended_by"`
	Code      string    `json:"code"`
	Token     int64     `json:"token"`
	Resource  string    `json:"resource"`
}

// Run follows the stream until it is stopped, or the gateway says that it will not serve one.
func (c *leaseWatchCmd) Run(std *streams, rc *runContext) error {
	return (&watcher{leaseWatchCmd: c, std: std, last: c.After, silence: watchSilence, retry: watchRetry}).run(rc)
}

func (w *watcher) run(ctx context.Context) error {
	pause, connected := w.retry, false
	for {
		began, err := w.follow(ctx, &connected)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && (!connected || isFinal(err)):
			return err
		case began:
			pause = w.retry
		}
		if err != nil {
			fmt.Fprintf(w.std.err, "fencegate: the stream broke off, connecting again: %v\n", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		// Gateways that stop together are not asked by everybody at once.
		case <-time.After(pause/2 + rand.N(pause/2+1)):
		}
		pause = min(2*pause, watchRetryMost)
	}
}

// refusedStream is a gateway's refusal to serve a stream.
type refusedStream struct {
	error
	final bool // whether another try would be refused, too
}

func isFinal(err error) bool {
	r, ok := err.(refusedStream)
	return ok && r.final
}

// follow reads one connection to its end. It returns whether there was a stream, and why it ended; nil if the gateway ended it.
func (w *watcher) follow(ctx context.Context, connected *bool) (began bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	alive := time.AfterFunc(w.silence, func() { cancel(fmt.Errorf("nothing came for %v", w.silence)) })
	defer alive.Stop()
	resp, err := w.connect(ctx)
	if err != nil {
		return false, unreachable(cause(ctx, err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxEvent))
		a := answer{resp.StatusCode, resp.Header, body}
		final := resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests
		return false, refusedStream{fmt.Errorf("follow the events: %s (%d): %s", a.problem().Code, a.status, a.problem().Detail), final}
	}
	*connected = true
	for events := sse.NewReader(resp.Body, maxEvent); ; {
		e, err := events.Next(func() { alive.Reset(w.silence) })
		if err == io.EOF {
			return true, nil
		}
		if err != nil {
			return true, cause(ctx, err)
		}
		if e.Data != "" {
			if err := w.show(e); err != nil {
				return true, refusedStream{err, true}
			}
		}
		if e.ID != "" {
			w.last = e.ID
		}
	}
}

// cause is why a context has ended, if it has.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (w *watcher) connect(ctx context.Context) (*http.Response, error) {
	query := url.Values{"prefix": {w.Prefix}}
	if len(w.Kinds) > 0 {
		query.Set("kinds", strings.Join(w.Kinds, ","))
	}
	if w.Oldest && w.last == "" {
		query.Set("from", "oldest")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(w.URL, "/")+"/v1/events?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	if w.last != "" {
		req.Header.Set("Last-Event-ID", w.last)
	}
	if w.Auth != "" {
		req.Header.Set("Authorization", "Bearer "+w.Auth)
	}
	return http.DefaultClient.Do(req) // a stream has no time limit but that on silence
}

func (w *watcher) show(e sse.Frame) error {
	if w.JSON {
		_, err := fmt.Fprintln(w.std.out, e.Data)
		return err
	}
	var event watchedEvent
	if err := json.Unmarshal([]byte(e.Data), &event); err != nil {
		return fmt.Errorf("the answer is none of a gateway: %w", err)
	}
	_, err := fmt.Fprintln(w.std.out, event.line())
	return err
}

// line is an event for people.
func (e watchedEvent) line() string {
	if e.Kind == "gap" {
		return "… events are missing here: they are kept no more …"
	}
	what := e.Kind
	who := shownName(e.Holder)
	if e.Holder == "" {
		who = shownName(e.Principal)
	}
	var more []string
	add := func(format string, args ...any) { more = append(more, fmt.Sprintf(format, args...)) }
	switch e.Kind {
	case "granted":
		add("tokens from %d", e.First)
	case "broken":
		add("by %s", shownName(e.EndedBy))
		if reason := strings.TrimPrefix(strings.TrimPrefix(e.Ended, "broken"), ": "); reason != "" {
			add("%s", shownName(reason))
		}
	case "refused":
		add("%s", e.Code)
		add("token %s", strconv.FormatInt(e.Token, 10))
		if e.Resource != "" {
			add("%s", shownName(e.Resource))
		}
	}
	line := fmt.Sprintf("%s  %-9s  %s  %s", e.At.Local().Format("2006-01-02 15:04:05"), what, shownName(e.Lease), who)
	if len(more) > 0 {
		line += "  " + strings.Join(more, ", ")
	}
	return line
}
