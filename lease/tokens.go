package lease

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fence"
)

const (
	// fewTokens is how many are left when more are asked for.
	fewTokens = 100
	// moreFor bounds a request for more tokens, its repetitions included, and so the wait of who finds none left.
	moreFor = 10 * time.Second
)

// Tokens hands out the tokens of a grant, each once, in ascending order, and asks for another block before they run out.
// Writers of one resource must spend them in the order in which they got them. It is safe for concurrent use.
type Tokens struct {
	leases Leases
	ref    Ref
	held   func() error    // nil while the tokens are good for anything
	over   <-chan struct{} // closed when they no longer are; nil for never
	ctx    context.Context
	cancel context.CancelFunc
	asks   sync.WaitGroup

	mu     sync.Mutex    // guards what follows
	blocks []fence.Block // what is left
	last   fence.Token   // the highest token that was ever among them
	asking chan struct{} // closed when the request for more that is under way has ended; nil while there is none
	after  time.Time     // no request before, unless there is no token left
	err    error         // of the last request
	closed bool
}

// NewTokens hands out the tokens of a grant that was acquired. It must be closed.
func NewTokens(leases Leases, h *Held) *Tokens {
	t := newTokens(leases, Ref{Name: h.Lease, Principal: h.Principal, ID: h.ID}, func() error { return nil }, nil)
	t.add(h.Blocks)
	return t
}

func newTokens(leases Leases, ref Ref, held func() error, over <-chan struct{}) *Tokens {
	t := &Tokens{leases: leases, ref: ref, held: held, over: over}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// Next returns a token that it has returned to nobody. When none is left it waits for more, up to ten seconds, and returns
// the error of the request: CodeLeaseLost when the grant gets no more.
func (t *Tokens) Next(ctx context.Context) (fence.Token, error) {
	for asked := false; ; asked = true {
		if err := t.held(); err != nil {
			return 0, err
		}
		token, wait, err := t.take(asked)
		if token != 0 || err != nil {
			return token, err
		}
		select {
		case <-wait:
		case <-t.over:
		case <-ctx.Done():
			return 0, fmt.Errorf("wait for more tokens of lease %s: %w", t.ref.Name, context.Cause(ctx))
		}
	}
}

// take returns a token, or what to wait for. Who has waited is told why there is still none.
func (t *Tokens) take(asked bool) (fence.Token, <-chan struct{}, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return 0, nil, fmt.Errorf("the tokens of lease %s: %w", t.ref.Name, ErrReleased)
	case len(t.blocks) == 0 && asked && t.asking == nil && t.err != nil:
		return 0, nil, t.err
	case t.left() <= fewTokens:
		t.ask()
	}
	if len(t.blocks) == 0 {
		return 0, t.asking, nil
	}
	b := &t.blocks[0]
	token := b.First
	if b.First++; b.First > b.Last {
		t.blocks = t.blocks[1:]
	}
	return token, nil, nil
}

// left counts no further than it must. t.mu is held.
func (t *Tokens) left() (n fence.Token) {
	for _, b := range t.blocks {
		if n += b.Last - b.First + 1; n > fewTokens {
			break
		}
	}
	return n
}

// ask requests another block, one request at a time. t.mu is held.
func (t *Tokens) ask() {
	lost := fence.CodeOf(t.err) == fence.CodeLeaseLost
	if t.asking != nil || len(t.blocks) > 0 && (lost || time.Now().Before(t.after)) {
		return
	}
	done := make(chan struct{})
	t.asking = done
	t.asks.Go(func() {
		h, err := t.more()
		if err == nil {
			t.add(h.Blocks)
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.err, t.asking, t.after = err, nil, time.Now().Add(time.Second)
		close(done)
	})
}

// more repeats what may succeed when repeated. A repetition can draw a block more than is needed, which is no loss.
func (t *Tokens) more() (*Held, error) {
	ctx, cancel := context.WithTimeout(t.ctx, moreFor)
	defer cancel()
	pause := &backoff{pause: 20 * time.Millisecond, most: time.Second}
	for {
		h, err := t.leases.More(ctx, t.ref)
		if err == nil || !fence.CodeOf(err).Retryable() || sleep(ctx, pause.next()) != nil {
			return h, err
		}
	}
}

// add takes over blocks of which some tokens may be known already: a grant is told whole each time.
func (t *Tokens) add(blocks []fence.Block) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range blocks {
		if b.First = max(b.First, t.last+1); b.First <= b.Last {
			t.blocks, t.last = append(t.blocks, b), b.Last
		}
	}
}

// skip leaves out one token, which must be the next.
func (t *Tokens) skip(token fence.Token) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.blocks) > 0 && t.blocks[0].First == token {
		if t.blocks[0].First++; t.blocks[0].First > t.blocks[0].Last {
			t.blocks = t.blocks[1:]
		}
	}
}

// Close ends a request for more that is under way. No token is handed out afterwards.
func (t *Tokens) Close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cancel()
	t.asks.Wait()
}
