package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// target is a resource whose data tell which token wrote them, so that data and mark can be compared.
type target struct {
	t     *testing.T
	lease string
	// send writes with a token what belongs to the token. It may be repeated.
	send func(ctx context.Context, c *client, token int64) (reply, error)
	// read returns the mark, and an error when the data are not what belongs to the mark's token; errNoAnswer when
	// there was no whole answer.
	read func(ctx context.Context, c *client) (mark int64, err error)

	held grant
	next atomic.Int64 // the token that was spent last

	mu       sync.Mutex
	accepted int64            // guarded by mu: the highest token whose write was answered accepted
	mark     int64            // guarded by mu: the highest mark that was seen
	refused  map[int64]string // guarded by mu: the codes of writes that were refused
	lost     []int64          // guarded by mu: tokens of writes without an answer that settles them
}

var errNoAnswer = errors.New("no answer")

func newRowTarget(t *testing.T) *target {
	return &target{
		t: t, lease: "wallet:42", refused: map[int64]string{},
		send: func(ctx context.Context, c *client, token int64) (reply, error) {
			return c.tryPatch(ctx, "wallets/42", token, fmt.Sprintf(`{"balance":%d}`, token))
		},
		read: func(ctx context.Context, c *client) (int64, error) {
			r, err := c.try(ctx, http.MethodGet, "/v1/rows/wallets/42", nil)
			if err != nil || r.status >= 500 {
				return 0, errNoAnswer
			}
			var row struct{ Balance json.Number }
			if err := json.Unmarshal(r.body, &row); err != nil || !r.ok() {
				return 0, fmt.Errorf("row: %v", r)
			}
			if mark := r.mark(); mark != 0 && row.Balance.String() != fmt.Sprint(mark) {
				return mark, fmt.Errorf("the balance is %s with mark %d (I5)", row.Balance, mark)
			}
			return r.mark(), nil
		},
	}
}

func newObjectTarget(t *testing.T, key string) *target {
	return &target{
		t: t, lease: "report:" + key, refused: map[int64]string{},
		send: func(ctx context.Context, c *client, token int64) (reply, error) {
			return c.tryPut(ctx, "reports/"+key, token, objectBody(token))
		},
		read: func(ctx context.Context, c *client) (int64, error) {
			r, err := c.try(ctx, http.MethodGet, "/v1/objects/reports/"+key, nil)
			if err != nil || r.status >= 500 {
				return 0, errNoAnswer
			}
			mark := r.mark()
			if mark == 0 && r.status == http.StatusNotFound {
				return 0, nil
			}
			if want := objectBody(mark); !r.ok() || !bytes.Equal(r.body, want) {
				return mark, fmt.Errorf("status %d and %d bytes with mark %d, whose body has %d other bytes (I6)", r.status, len(r.body), mark, len(want))
			}
			return mark, nil
		},
	}
}

// objectBody is the body that is written with a token: random bytes, several 100 kB, the same for the same token.
func objectBody(token int64) []byte {
	var seed [32]byte
	copy(seed[:], fmt.Sprint(token))
	random := rand.NewChaCha8(seed)
	body := make([]byte, 200_000+random.Uint64()%300_000)
	_, _ = random.Read(body) // never fails
	return body
}

// write spends token after token until there is no answer any more.
func (r *target) write(ctx context.Context, c *client) {
	for token := r.next.Add(1); ctx.Err() == nil && token <= r.held.Last; token = r.next.Add(1) {
		answer, err := r.send(context.WithoutCancel(ctx), c, token)
		r.record(token, answer, err)
		if err != nil {
			return
		}
	}
}

func (r *target) record(token int64, answer reply, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch code := answer.code(); {
	case err != nil, answer.status >= 500:
		r.lost = append(r.lost, token)
	case code == "":
		r.accepted = max(r.accepted, token)
	case code == "stale-token" && answer.mark() > token, code == "upload-expired":
		r.refused[token] = code
	default:
		r.t.Errorf("%s, token %d: %v", r.lease, token, answer)
	}
}

// watch reads until the gateway is gone.
func (r *target) watch(ctx context.Context, c *client) {
	for ctx.Err() == nil {
		mark, err := r.read(context.WithoutCancel(ctx), c)
		if errors.Is(err, errNoAnswer) {
			return
		}
		r.saw(mark, err)
	}
}

// check compares what stands with what was answered.
func (r *target) check(c *client) int64 {
	r.t.Helper()
	mark, err := r.read(r.t.Context(), c)
	r.saw(mark, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if mark < r.accepted {
		r.t.Errorf("%s: the mark is %d, but a write with token %d was accepted", r.lease, mark, r.accepted)
	}
	return mark
}

func (r *target) saw(mark int64, err error) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.t.Errorf("%s: %v", r.lease, err)
	}
	if mark < r.mark {
		r.t.Errorf("%s: the mark went back from %d to %d (I1)", r.lease, r.mark, mark)
	}
	if code, ok := r.refused[mark]; ok {
		r.t.Errorf("%s: the write with token %d was refused (%s) and shows (I7)", r.lease, mark, code)
	}
	r.mark = max(r.mark, mark)
}

// settle repeats the writes that had no answer and returns how many they were. In the order of their tokens each can
// still be accepted, unless a higher one was.
func (r *target) settle(c *client) int {
	r.t.Helper()
	lost := r.lost
	r.lost = nil
	slices.Sort(lost)
	for _, token := range lost {
		before := r.check(c)
		answer, err := r.send(r.t.Context(), c, token)
		// A transaction of the killed gateway may still have been under way when the mark was read.
		ok := before < token
		switch code := answer.code(); {
		case err != nil:
			r.t.Fatalf("%s: repeat token %d: %v", r.lease, token, err)
		case code == "":
			ok = ok || before == token && answer.replayed()
		case code == "stale-token":
			ok = before != token && answer.mark() > token
		default:
			ok = false
		}
		if !ok {
			r.t.Errorf("%s: the repeated write with token %d, mark %d before (I7): %v, replayed %v", r.lease, token, before, answer, answer.replayed())
		}
		r.record(token, answer, nil)
	}
	return len(lost)
}

// renew takes the next grant.
func (r *target) renew(c *client) {
	r.t.Helper()
	last := r.held.Last
	if r.held.ID != "" {
		c.release(r.lease, r.held)
	}
	r.held = c.acquire(r.lease, time.Hour)
	if r.held.Token <= last {
		r.t.Errorf("%s: token %d was granted after %d (I4)", r.lease, r.held.Token, last)
	}
	r.next.Store(r.held.Token - 1)
}
