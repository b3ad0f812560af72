package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// What a private gateway has, and objects are called anywhere.
const (
	benchTable  = "public.bench"
	benchBody   = `{"balance":{n}}`
	benchPrefix = "bench/"
	benchObject = "fencegate-bench-"
	benchRows   = 256
)

// benchTarget is what is written.
type benchTarget struct {
	text      string // for people
	after     string // what becomes of it
	objects   bool
	method    string
	header    []string // pairs
	resources []*benchResource
	body      func(n int64) []byte // of the nth write
}

// benchResource is a row or an object. One client writes it, one write after the other, so that its tokens arrive in order.
type benchResource struct {
	path  string // below /v1, percent-encoded
	name  string // as the gateway has it: several paths may be the same row's
	lease string
	held  *lease.Kept
}

// target is what the flags name.
func (c *benchCmd) target() (*benchTarget, error) {
	if c.Bucket != "" {
		return c.objects(), nil
	}
	table, body, keys := c.Table, c.Body, c.Keys
	if c.URL == "" {
		table = benchTable
		if body == "" {
			body = benchBody
		}
		if keys == "" {
			keys = fmt.Sprintf("1..%d", max(benchRows, c.Clients))
		}
	}
	name, err := fence.ParseTableName(table)
	if err != nil {
		return nil, fmt.Errorf("--table: %w", err)
	}
	list, err := parseKeys(keys)
	switch {
	case err != nil:
		return nil, err
	case len(list) < c.Clients:
		return nil, fmt.Errorf("--keys names %d rows, and each of %d clients writes rows of its own: name more keys, or give fewer --clients", len(list), c.Clients)
	case c.URL == "" && keys != fmt.Sprintf("1..%d", len(list)):
		return nil, errors.New("--keys is 1..N without --url")
	}
	t := &benchTarget{
		text: fmt.Sprintf("%s of table %s", counted(len(list), "row"), name), after: "they keep what is written last",
		method: http.MethodPatch, header: []string{"Content-Type", "application/json"},
	}
	if t.body, err = bodyTemplate(body); err != nil {
		return nil, err
	}
	for _, key := range list {
		path := "rows/" + url.PathEscape(name.String()) + "/" + key
		t.resources = append(t.resources, &benchResource{path: path})
	}
	return t, nil
}

// objects are one for each client.
func (c *benchCmd) objects() *benchTarget {
	prefix := c.Prefix
	if prefix == "" {
		prefix = benchPrefix
	}
	t := &benchTarget{
		text:  fmt.Sprintf("%s of %d bytes, %s/%s%s*", counted(c.Clients, "object"), c.Size, c.Bucket, prefix, benchObject),
		after: "they are deleted at the end", objects: true,
		method: http.MethodPut, header: []string{"Content-Type", "application/octet-stream"},
	}
	for i := range c.Clients {
		parts := strings.Split(fmt.Sprintf("%s%s%04d", prefix, benchObject, i+1), "/")
		for p := range parts {
			parts[p] = url.PathEscape(parts[p])
		}
		path := "objects/" + url.PathEscape(c.Bucket) + "/" + strings.Join(parts, "/")
		t.resources = append(t.resources, &benchResource{path: path})
	}
	bytes := make([]byte, c.Size)
	random := rand.NewChaCha8([32]byte{}) // nothing is secret about it; it only must not compress
	_, _ = random.Read(bytes)             // it never fails
	t.body = func(n int64) []byte {
		body := append([]byte(nil), bytes...)
		copy(body, strconv.FormatInt(n, 10)) // no two bodies are the same
		return body
	}
	return t
}

// counted says how many there are.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// parseKeys reads FROM..TO or keys as a path has them.
func parseKeys(text string) ([]string, error) {
	if from, to, isRange := strings.Cut(text, ".."); isRange && !strings.ContainsAny(text, " ,") {
		first, err := strconv.ParseInt(from, 10, 64)
		last, err2 := strconv.ParseInt(to, 10, 64)
		switch {
		case err != nil || err2 != nil || first > last:
			return nil, errors.New("--keys is FROM..TO, with FROM not above TO, or keys separated by spaces")
		case last-first < 0 || last-first >= benchMaxKeys: // below 0: they are further apart than numbers go
			return nil, fmt.Errorf("--keys names more than %d rows", benchMaxKeys)
		}
		keys := make([]string, 0, last-first+1)
		for i := range last - first + 1 {
			keys = append(keys, strconv.FormatInt(first+i, 10))
		}
		return keys, nil
	}
	keys := strings.Fields(text)
	if len(keys) > benchMaxKeys {
		return nil, fmt.Errorf("--keys names more than %d rows", benchMaxKeys)
	}
	seen := make(map[string]bool, len(keys))
	for _, key := range keys {
		if _, err := url.PathUnescape(key); err != nil || strings.ContainsAny(key, "/?#\\") || key != printable(key) {
			return nil, fmt.Errorf("--keys: %s is no key as a path has it: percent-encode what is not a letter, a digit or one of -._~, and put a comma between the columns", printable(key))
		}
		if seen[key] {
			return nil, fmt.Errorf("--keys names %s twice", key)
		}
		seen[key] = true
	}
	return keys, nil
}

// bodyTemplate puts a running number in the place of {n}.
func bodyTemplate(text string) (func(n int64) []byte, error) {
	parts := strings.Split(text, "{n}")
	fill := func(n int64) []byte {
		body := make([]byte, 0, len(text)+20*len(parts))
		for i, part := range parts {
			if i > 0 {
				body = strconv.AppendInt(body, n, 10)
			}
			body = append(body, part...)
		}
		return body
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(fill(1), &object); err != nil || len(object) == 0 {
		return nil, errors.New(`--body is a JSON object of columns, such as {"balance":{n}}, where {n} stands for a number`)
	}
	return fill, nil
}

// look asks which leases protect the resources, and whether the rows exist.
func (t *benchTarget) look(ctx context.Context, a *api, atOnce int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, r := range t.resources {
		group.Go(func() error { return t.lookAt(ctx, a, r) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	seen := make(map[string]string, len(t.resources))
	for _, r := range t.resources {
		if other, twice := seen[r.name]; twice {
			return fmt.Errorf("%s and %s are the same row, of which only one client may be the writer", other, r.path)
		}
		seen[r.name] = r.path
	}
	return nil
}

func (t *benchTarget) lookAt(ctx context.Context, a *api, r *benchResource) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	paths := []string{"/v1/marks/" + r.path}
	if !t.objects {
		paths = append(paths, "/v1/"+r.path) // a mark does not tell whether there is such a row
	}
	var mark struct {
		Resource string `json:"resource"`
	}
	for i, path := range paths {
		ans, err := a.call(ctx, http.MethodGet, path, nil)
		if err != nil {
			return fmt.Errorf("the gateway does not answer: %w", err)
		}
		if err := ans.err("look at " + readable(r.path)); err != nil {
			return err
		}
		if i > 0 {
			continue
		}
		err = json.Unmarshal(ans.body, &mark)
		r.lease, _ = url.PathUnescape(ans.header.Get("X-Fence-Lease"))
		if r.name = mark.Resource; err != nil || r.name == "" || r.lease == "" {
			return fmt.Errorf("look at %s: the answer is none of a gateway", readable(r.path))
		}
	}
	return nil
}
