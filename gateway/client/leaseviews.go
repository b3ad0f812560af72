package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// view is a lease as others than its holder are told of it.
type view struct {
	grant
	Queue struct {
		Length  int `json:"length"`
		Waiting []struct {
			Holder    string `json:"holder"`
			WaitingMS int64  `json:"waiting_ms"`
		} `json:"waiting"`
	} `json:"queue"`
}

func (v *view) view(sent time.Time) lease.View {
	out := lease.View{Held: v.held(sent), Queued: v.Queue.Length}
	for _, w := range v.Queue.Waiting {
		out.Waiting = append(out.Waiting, lease.Waiting{Holder: w.Holder, For: time.Duration(w.WaitingMS) * time.Millisecond})
	}
	return out
}

// Inspect tells who holds a lease and who waits for it. CodeNotFound when nobody holds it.
func (c *Client) Inspect(ctx context.Context, name string) (*lease.View, error) {
	path, err := leasePath(name)
	if err != nil {
		return nil, err
	}
	var v view
	sent := time.Now()
	err = c.do(ctx, &request{what: "leases.inspect", method: http.MethodGet, path: path, limit: c.within, lease: name}, func(resp *http.Response) error {
		err := c.answer(resp, &v)
		if err == nil && v.Name != name {
			err = errors.New("the answer is about another lease")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	out := v.view(sent)
	return &out, nil
}

// List returns a page of the leases that are held and that the caller may read. It can be short although there is another.
func (c *Client) List(ctx context.Context, l lease.Listing) (lease.Page, error) {
	q := url.Values{}
	if l.Prefix != "" {
		q.Set("prefix", l.Prefix)
	}
	if l.After != "" {
		q.Set("after", l.After)
	}
	if l.Limit != 0 {
		q.Set("limit", strconv.Itoa(l.Limit))
	}
	var answer struct {
		Leases []view `json:"leases"`
		Next   string `json:"next"`
	}
	sent := time.Now()
	err := c.do(ctx, &request{what: "leases.list", method: http.MethodGet, path: withQuery("/v1/leases", q), limit: c.within}, func(resp *http.Response) error {
		return c.answer(resp, &answer)
	})
	if err != nil {
		return lease.Page{}, err
	}
	page := lease.Page{Next: answer.Next}
	for i := range answer.Leases {
		page.Leases = append(page.Leases, answer.Leases[i].view(sent))
	}
	return page, nil
}

// Verify returns nil while a principal (the caller, if it is empty) may still use a token of a lease, else the refusal that
// a write would get. It is for resources that only their caller can guard.
func (c *Client) Verify(ctx context.Context, name, principal string, token fence.Token) error {
	path, err := leasePath(name)
	if err != nil {
		return err
	}
	body := struct {
		Token     fence.Token `json:"token"`
		Principal string      `json:"principal,omitempty"`
	}{token, principal}
	return c.do(ctx, &request{
		what: "leases.verify", method: http.MethodPost, path: path + "/verify", limit: c.within, lease: name,
		body: func() []byte { return marshal(body) },
	}, func(resp *http.Response) error {
		var verified struct {
			Lease string      `json:"lease"`
			Token fence.Token `json:"token"`
		}
		err := c.answer(resp, &verified)
		if err == nil && (verified.Lease != name || verified.Token != token) {
			err = errors.New("the answer is about another token")
		}
		return err
	})
}

// Break ends whatever grant is the newest of a lease, for a reason that is kept. It needs the admin right. It is not
// repeated once it was sent: repeated, it could end the grant of a successor.
func (c *Client) Break(ctx context.Context, name, reason string) error {
	path, err := leasePath(name)
	if err != nil {
		return err
	}
	body := struct {
		Reason string `json:"reason,omitempty"`
	}{reason}
	return c.do(ctx, &request{
		what: "leases.break", kind: once, method: http.MethodPost, path: path + "/break", limit: c.within, lease: name,
		body: func() []byte { return marshal(body) },
	}, nothing)
}

func withQuery(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}
