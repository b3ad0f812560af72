package access

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// keySource has the keys of one issuer: those of its file, or those at its URL, which run keeps fresh. While they cannot be
// fetched, those that are known go on serving.
type keySource struct {
	issuer *Issuer
	cfg    Config
	fetch  fetcher
	set    atomic.Pointer[keySet] // nil until there was one
	wake   chan struct{}
	closed <-chan struct{} // when run ends

	// mu guards what follows.
	mu sync.Mutex
	// fetching says that a fetch is under way, and notBefore when the next one may begin.
	fetching  bool
	notBefore time.Time
	// ended is closed when the fetch that is under way, or else the next one, has ended.
	ended chan struct{}
	// failed is why the last fetch failed; failures counts those since one succeeded.
	failed   error
	failures int
}

// newKeySource takes over the keys of an earlier source, if there is one, until it has fetched its own.
func newKeySource(i *Issuer, cfg Config, closed <-chan struct{}, earlier *keySource) *keySource {
	s := &keySource{
		issuer: i, cfg: cfg, fetch: newFetcher(cfg.Transport, cfg.KeysTimeout), wake: make(chan struct{}, 1), closed: closed,
		ended: make(chan struct{}),
	}
	switch {
	case i.KeysURL == "":
		s.set.Store(i.keys)
	case earlier != nil && earlier.issuer.KeysURL == i.KeysURL:
		s.set.Store(earlier.set.Load())
	}
	return s
}

// run fetches the keys at once, then from time to time and when fresh wants it, until the context ends.
func (s *keySource) run(ctx context.Context) {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		case <-s.wake:
		}
		if !s.begin() {
			continue
		}
		set, err := s.fetch.fetch(ctx, s.issuer.KeysURL)
		if ctx.Err() != nil {
			return
		}
		next.Reset(s.end(set, err))
	}
}

// begin reports whether a fetch may begin. One that was asked for while another was under way has been answered by that.
func (s *keySource) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetching = !time.Now().Before(s.notBefore)
	return s.fetching
}

// end notes what came of a fetch, and returns the time until the next.
func (s *keySource) end(set *keySet, err error) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.set.Load()
	wait, pause := max(s.cfg.KeysEvery, s.cfg.KeysPause), s.cfg.KeysPause
	if err != nil {
		pause = min(s.cfg.KeysPause/10<<min(s.failures, 10), 3*s.cfg.KeysPause)
		wait = pause
		s.failures++
	} else {
		s.failures = 0
		// Results that were found with the same keys stay good.
		if known == nil || known.sum != set.sum {
			s.set.Store(set)
		}
	}
	s.log(known, err)
	s.failed = err
	s.fetching, s.notBefore = false, time.Now().Add(pause)
	close(s.ended)
	s.ended = make(chan struct{})
	return wait
}

// log tells of each change of state once. What is logged is public.
func (s *keySource) log(known *keySet, err error) {
	attrs := []any{slog.String("issuer", s.issuer.Name)}
	now := s.set.Load()
	if now != nil {
		attrs = append(attrs, slog.Int("keys", len(now.keys)))
	}
	switch {
	case err != nil && s.failed == nil && now == nil:
		s.cfg.Log.Warn("the keys of an issuer cannot be fetched: its JWTs are answered unavailable until they can", append(attrs, "error", err)...)
	case err != nil && s.failed == nil:
		s.cfg.Log.Warn("the keys of an issuer cannot be fetched: those known go on serving", append(attrs, "error", err)...)
	case err == nil && len(now.keys) == 0 && now != known:
		s.cfg.Log.Warn("the key set of an issuer has no key that can check a signature: none of its JWTs is good", attrs...)
	case err == nil && (s.failed != nil || now != known):
		s.cfg.Log.Info("fetched the keys of an issuer", attrs...)
	}
}

// fresh waits for a fetch that is under way, or that may begin now, and tells why the last one failed, if it did. A storm of
// callers makes one fetch, and the next only after a pause.
func (s *keySource) fresh(ctx context.Context) error {
	if s.issuer.KeysURL == "" {
		return nil
	}
	s.mu.Lock()
	ended, failed := s.ended, s.failed
	due := s.fetching || !time.Now().Before(s.notBefore)
	s.mu.Unlock()
	if !due {
		return failed
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
	select {
	case <-ended:
	case <-s.closed:
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}
