package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/load"
)

// staleToken is below every block and so below the first token of every grant: no write was ever accepted with it, of which
// one with the same token could be a repetition.
const staleToken = 1

// benchWriter makes the writes.
type benchWriter struct {
	api       *api
	target    *benchTarget
	refused   float64
	clients   []benchClient
	surprises surprises
}

// benchClient is one client's own.
type benchClient struct {
	resources []*benchResource
	writes    int64
	due       float64 // writes to be refused that are owed
}

func newBenchWriter(a *api, t *benchTarget, clients int, refused float64) *benchWriter {
	w := &benchWriter{api: a, target: t, refused: refused, clients: make([]benchClient, clients)}
	for i, r := range t.resources {
		c := &w.clients[i%clients]
		c.resources = append(c.resources, r)
	}
	for i := range w.clients { // clients do not send the same kind in step
		w.clients[i].due = float64(i) / float64(clients) * refused
	}
	return w
}

// write makes the next write of a client.
func (w *benchWriter) write(ctx context.Context, client int) (load.Outcome, error) {
	c := &w.clients[client]
	r := c.resources[c.writes%int64(len(c.resources))]
	n := c.writes*int64(len(w.clients)) + int64(client)
	c.writes++
	c.due += w.refused
	stale := c.due >= 1
	token := fence.Token(staleToken)
	if stale {
		c.due--
	} else {
		var err error
		if token, err = r.held.Tokens().Next(ctx); err != nil {
			return load.Failed, err
		}
	}
	ans, err := w.api.call(ctx, w.target.method, "/v1/"+r.path, w.target.body(n), append([]string{"X-Fence-Token", token.String()}, w.target.header...)...)
	if err != nil {
		return load.Failed, err
	}
	return w.judge(r, ans, token, stale)
}

// judge compares an answer with what it should have been.
func (w *benchWriter) judge(r *benchResource, ans answer, token fence.Token, stale bool) (load.Outcome, error) {
	if ans.ok() {
		if stale {
			w.surprises.add(fmt.Sprintf("accepted, and should have been refused: %s with token %d", readable(r.path), token))
		}
		return load.Accepted, nil
	}
	code := fence.Code(ans.problem().Code)
	if stale && code == fence.CodeStaleToken {
		return load.Refused, nil
	}
	err := ans.err(fmt.Sprintf("write %s with token %d", readable(r.path), token))
	if isRefusal(code) {
		should := "refused, and should have been accepted: "
		if stale {
			should = "refused, and should have been as stale-token: "
		}
		w.surprises.add(should + err.Error())
	}
	return load.Failed, err
}

// isRefusal tells the verdicts of the fence from what fails otherwise.
func isRefusal(c fence.Code) bool {
	return slices.Contains([]fence.Code{
		fence.CodeStaleToken, fence.CodeSpentToken, fence.CodeGrantEnded, fence.CodeUnissuedToken, fence.CodeForeignToken, fence.CodePreconditionFailed,
	}, c)
}

// remove deletes the objects that were written.
func (w *benchWriter) remove(ctx context.Context) error {
	var group errgroup.Group
	group.SetLimit(len(w.clients))
	for i := range w.clients {
		for _, r := range w.clients[i].resources[:min(len(w.clients[i].resources), int(w.clients[i].writes))] {
			group.Go(func() error {
				token, err := r.held.Tokens().Next(ctx)
				if err != nil {
					return fmt.Errorf("delete %s: %w", readable(r.path), err)
				}
				ans, err := w.api.call(ctx, http.MethodDelete, "/v1/"+r.path, nil, "X-Fence-Token", token.String())
				if err == nil && ans.status != http.StatusNotFound { // nothing was accepted
					err = ans.err("delete " + readable(r.path))
				}
				return err
			})
		}
	}
	return group.Wait()
}

// mostSurprises are told one by one; the rest are counted.
const mostSurprises = 5

// surprises are answers that should not be: the first ones, and how many there are.
type surprises struct {
	mu    sync.Mutex
	first []string // guarded by mu
	n     int64    // guarded by mu
}

func (s *surprises) add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	if len(s.first) < mostSurprises {
		s.first = append(s.first, text)
	}
}

func (s *surprises) list() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	texts := slices.Clone(s.first)
	if more := s.n - int64(len(texts)); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more answers that should not be", more))
	}
	return texts
}
