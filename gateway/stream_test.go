package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/gateway"
)

// patience bounds every wait for something that must happen.
const patience = 10 * time.Second

// eventStream is a stream of events as a client reads it.
type eventStream struct {
	t     *testing.T
	resp  *http.Response
	leave context.CancelFunc
	// blocks are what came so far, a block being what ends with an empty line; closed when the stream has ended.
	blocks chan block
}

// block is what the tests look at in one.
type block struct {
	text             string
	id, event, retry string
	comment          bool
	data             event
}

type event struct {
	ID, Kind, At, Lease, Principal, Holder, Ended, Code, Resource string
	EndedBy                                                       string `json:"ended_by"`
	FirstToken                                                    int64  `json:"first_token"`
	Token                                                         int64
}

// in is the same gateway in a subtest.
func (a *api) in(t *testing.T) *api {
	sub := *a
	sub.t = t
	return &sub
}

// stream opens a stream and leaves it at the end of the test.
func (a *api) stream(query string, headers ...string) *eventStream {
	a.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	a.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, "GET", a.url+"/v1/events"+query, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	resp, err := a.client.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 {
		text, _ := io.ReadAll(resp.Body)
		a.t.Fatalf("%d %s", resp.StatusCode, text)
	}
	s := &eventStream{a.t, resp, cancel, make(chan block, 20_000)}
	go s.read()
	return s
}

// read is the algorithm of the HTML standard, as far as the gateway uses it.
func (s *eventStream) read() {
	defer close(s.blocks)
	var b block
	for lines := bufio.NewReader(s.resp.Body); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return // a block that is cut off does not count
		}
		b.text += line
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "":
			s.blocks <- b
			b = block{}
		case "id":
			b.id = value
		case "event":
			b.event = value
		case "retry":
			b.retry = value
		case "data":
			if err := json.Unmarshal([]byte(value), &b.data); err != nil {
				s.t.Errorf("%s: %v", value, err)
			}
		case ":":
			b.comment = true
		default:
			s.t.Errorf("a line of an unknown kind: %q", line)
		}
	}
}

// block waits for the next one.
func (s *eventStream) block() block {
	s.t.Helper()
	select {
	case b, open := <-s.blocks:
		if !open {
			s.t.Fatal("the stream has ended")
		}
		return b
	case <-time.After(patience):
		s.t.Fatal("nothing comes")
	}
	return block{}
}

// next waits for the next event.
func (s *eventStream) next() event {
	s.t.Helper()
	for {
		if b := s.block(); b.event != "" {
			if b.event != b.data.Kind || b.id != b.data.ID {
				s.t.Fatalf("a block that does not fit its data:\n%s", b.text)
			}
			return b.data
		}
	}
}

// want waits for events, each written as its kind and its lease.
func (s *eventStream) want(events ...string) {
	s.t.Helper()
	for _, want := range events {
		if e := s.next(); e.Kind+" "+e.Lease != want {
			s.t.Fatalf("got %+v, want %s", e, want)
		}
	}
}

// ends waits for the end of the stream, and tells the events before it.
func (s *eventStream) ends() (last []event) {
	s.t.Helper()
	for deadline := time.After(patience); ; {
		select {
		case b, open := <-s.blocks:
			if !open {
				return last
			}
			if b.event != "" {
				last = append(last, b.data)
			}
		case <-deadline:
			s.t.Fatal("the stream does not end")
		}
	}
}

// hurried serves a gateway whose streams look for events all the time.
func hurried(t *testing.T, change func(*gateway.Config)) *api {
	t.Helper()
	a := serve(t, change)
	a.gateway.HurryStreams(gateway.StreamTimes{Poll: 5 * time.Millisecond, Pause: 5 * time.Millisecond})
	return a
}

// within waits until something holds.
func within(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not in time:", what)
		}
	}
}
