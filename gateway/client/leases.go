package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// grant is a grant as the gateway tells it.
type grant struct {
	Name        string        `json:"name"`
	ID          string        `json:"id"`
	Holder      string        `json:"holder"`
	Principal   string        `json:"principal"`
	Blocks      []fence.Block `json:"blocks"`
	TTLMS       int64         `json:"ttl_ms"`
	RemainingMS int64         `json:"remaining_ms"`
	GrantedAt   time.Time     `json:"granted_at"`
}

// held makes a lease.Held of a grant, whose Remaining counts from when the request was sent.
func (g *grant) held(sent time.Time) lease.Held {
	remaining := time.Duration(g.RemainingMS)*time.Millisecond - time.Since(sent)
	return lease.Held{Remaining: max(0, remaining), Grant: fence.Grant{
		Lease: g.Name, ID: g.ID, Principal: g.Principal, Holder: g.Holder, Blocks: g.Blocks,
		TTL: time.Duration(g.TTLMS) * time.Millisecond, GrantedAt: g.GrantedAt,
	}}
}

// Acquire takes a lease, as lease.Manager.Acquire does; the gateway knows the principal, and the request's is ignored. A
// reply that is lost is asked for again by the AcquireID, which is made here if the request has none. When the caller gives
// up, or the gateway does not answer, an acquire whose AcquireID was made here is undone, as far as the gateway can be
// reached.
//
// Remaining counts from before the request was sent. After a wait as long as the TTL it is 0, although the lease is young:
// renew it before relying on it, as lease.Keeper does.
func (c *Client) Acquire(ctx context.Context, r lease.Request) (*lease.Held, error) {
	made := r.AcquireID == ""
	r.AcquireID = cmp.Or(r.AcquireID, rand.Text())
	over := time.Now().Add(r.Wait)
	h, sent, err := c.acquire(ctx, r, 0, func() time.Duration { return max(0, time.Until(over)) })
	if !made || !sent {
		return h, err
	}
	switch fence.CodeOf(err) {
	case fence.CodeOutcomeUnknown:
		c.abandon(ctx, r)
		e := fence.Wrap(fence.CodeUnavailable, err, "the acquire was given up before lease %s was granted", r.Name)
		e.Lease = r.Name
		err = e
	case fence.CodeUnavailable, fence.CodeOverloaded:
		// The gateway keeps what it may have taken for a repetition that does not come.
		c.abandon(ctx, r)
	}
	return h, err
}

// acquire also reports whether the gateway may have got the request.
func (c *Client) acquire(ctx context.Context, r lease.Request, tries int, left func() time.Duration) (*lease.Held, bool, error) {
	body := struct {
		TTL       string `json:"ttl,omitempty"`
		Wait      string `json:"wait,omitempty"`
		Holder    string `json:"holder,omitempty"`
		AcquireID string `json:"acquire_id"`
	}{text(r.TTL), text(r.Wait), r.Holder, r.AcquireID}
	req := &request{
		what: "leases.acquire", method: http.MethodPost, tries: tries,
		body: func() []byte {
			if r.Wait > 0 { // one that is out of range is the gateway's to refuse
				body.Wait = min(r.Wait, left()).String()
			}
			return marshal(body)
		},
		limit: func() time.Duration { return c.cfg.Timeout + left() },
	}
	h, err := c.grant(ctx, req, lease.Ref{Name: r.Name}, "")
	return h, req.sent, err
}

// abandon gives back what an acquire may have got. Repeated without a wait it finds its grant, or takes the lease, or is
// told that somebody else holds it; then its first copy can have got nothing.
func (c *Client) abandon(ctx context.Context, r lease.Request) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.CleanupTimeout)
	defer cancel()
	const tries = 2
	r.Wait = 0
	if h, _, err := c.acquire(ctx, r, tries, func() time.Duration { return 0 }); err == nil {
		// Else it runs out.
		_ = c.Release(ctx, lease.Ref{Name: r.Name, ID: h.ID})
	}
}

// Renew lets a lease run for ttl from now, 0 for the grant's own. CodeLeaseLost when it is the caller's no more.
func (c *Client) Renew(ctx context.Context, ref lease.Ref, ttl time.Duration) (*lease.Held, error) {
	r := &request{what: "leases.renew", method: http.MethodPut}
	if ttl != 0 {
		r.body = func() []byte {
			return marshal(struct {
				TTL string `json:"ttl"`
			}{ttl.String()})
		}
	}
	return c.owned(ctx, r, ref, "")
}

// More adds a block of tokens to a grant. A try that is repeated may add two.
func (c *Client) More(ctx context.Context, ref lease.Ref) (*lease.Held, error) {
	return c.owned(ctx, &request{what: "leases.tokens", method: http.MethodPost}, ref, "/tokens")
}

// Release ends a grant and gives its lease back. CodeLeaseLost when the lease was granted to somebody else since, which is
// also told when the reply to a release was lost and somebody has acquired the lease behind it.
func (c *Client) Release(ctx context.Context, ref lease.Ref) error {
	path, err := leasePath(ref.Name)
	if err != nil {
		return err
	}
	header, err := idHeader(ref)
	if err != nil {
		return err
	}
	return c.do(ctx, &request{
		what: "leases.release", kind: repeatable, method: http.MethodDelete, path: path, header: header, limit: c.within, lease: ref.Name,
	}, nothing)
}

// owned is a call of the grant's holder that answers with the grant.
func (c *Client) owned(ctx context.Context, r *request, ref lease.Ref, call string) (*lease.Held, error) {
	header, err := idHeader(ref)
	if err != nil {
		return nil, err
	}
	r.header, r.limit = header, c.within
	return c.grant(ctx, r, ref, call)
}

// grant sends a request that is answered with a grant.
func (c *Client) grant(ctx context.Context, r *request, ref lease.Ref, call string) (*lease.Held, error) {
	path, err := leasePath(ref.Name)
	if err != nil {
		return nil, err
	}
	r.kind, r.path, r.lease = repeatable, path+call, ref.Name
	var sent time.Time
	limit := r.limit
	r.limit = func() time.Duration { sent = time.Now(); return limit() } // called before each try
	var h lease.Held
	err = c.do(ctx, r, func(resp *http.Response) error {
		var g grant
		if err := c.answer(resp, &g); err != nil {
			return err
		}
		if g.ID == "" || len(g.Blocks) == 0 || !g.Blocks[0].First.Valid() {
			return errors.New("the answer is no grant")
		}
		h = g.held(sent)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &h, nil
}

func idHeader(ref lease.Ref) (http.Header, error) {
	if ref.ID == "" {
		return nil, fence.Errorf(fence.CodeInvalidRequest, "the grant's id is missing").In("id")
	}
	return http.Header{headerLeaseID: {ref.ID}}, nil
}

// nothing takes an answer without a body.
func nothing(resp *http.Response) error {
	if resp.StatusCode != http.StatusNoContent {
		return errors.New("the answer is not a gateway's")
	}
	return nil
}

// text is a duration in the API, empty for none.
func text(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// marshal renders what is made of strings and numbers.
func marshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}
