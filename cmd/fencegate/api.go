package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// api speaks to a gateway as any HTTP client would.
type api struct {
	url, auth string
	client    *http.Client
}

func newAPI(url, auth string) *api {
	return &api{url: strings.TrimRight(url, "/"), auth: auth, client: &http.Client{Timeout: 30 * time.Second}}
}

// answer is a reply whose body was read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// problem is what a refusal says of itself.
type problem struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

func (a answer) ok() bool { return a.status < 300 }

func (a answer) problem() problem {
	var p problem
	if err := json.Unmarshal(a.body, &p); err != nil || p.Code == "" {
		p = problem{Code: fmt.Sprintf("status-%d", a.status), Detail: string(a.body)}
	}
	return p
}

// err makes an error of an answer that is not a success.
func (a answer) err(what string) error {
	if a.ok() {
		return nil
	}
	p := a.problem()
	return fmt.Errorf("%s: %s (%d): %s", what, p.Code, a.status, p.Detail)
}

// call sends one request. Header pairs are names and values in turn.
func (a *api) call(ctx context.Context, method, path string, body []byte, header ...string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.url+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if a.auth != "" {
		req.Header.Set("Authorization", "Bearer "+a.auth)
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	const most = 16 << 20
	data, err := io.ReadAll(io.LimitReader(resp.Body, most))
	return answer{resp.StatusCode, resp.Header, data}, err
}

// grant is what a holder needs of an acquired lease.
type grant struct {
	ID    string `json:"id"`
	Token int64  `json:"token"`
}

// acquire takes a lease; name is percent-encoded already, as X-Fence-Lease gives it.
func (a *api) acquire(ctx context.Context, name, holder string, ttl, wait time.Duration) (grant, error) {
	body, err := json.Marshal(map[string]string{"ttl": ttl.String(), "wait": wait.String(), "holder": holder})
	if err != nil {
		return grant{}, err
	}
	ans, err := a.call(ctx, http.MethodPost, "/v1/leases/"+name, body, "Content-Type", "application/json")
	if err == nil {
		err = ans.err("acquire the lease " + readable(name))
	}
	if err != nil {
		return grant{}, err
	}
	var g grant
	err = json.Unmarshal(ans.body, &g)
	return g, err
}

func (a *api) release(ctx context.Context, name string, g grant) error {
	ans, err := a.call(ctx, http.MethodDelete, "/v1/leases/"+name, nil, "X-Lease-Id", g.ID)
	if err != nil {
		return err
	}
	return ans.err("release the lease " + readable(name))
}
