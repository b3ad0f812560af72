package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
)

// checkedBody is one that tells whether it is whole: its SHA-256 in hex before the rest.
func checkedBody(size int) string {
	rest := strings.Repeat(fmt.Sprintf("%016x", rand.Uint64()), size/16)
	sum := sha256.Sum256([]byte(rest))
	return hex.EncodeToString(sum[:]) + rest
}

func wholeBody(body string) bool {
	if len(body) < 64 {
		return false
	}
	sum := sha256.Sum256([]byte(body[64:]))
	return body[:64] == hex.EncodeToString(sum[:])
}

// collecting is two gateways that collect all the time, with limits of a second or two, and what is done to them.
type collecting struct {
	t         *testing.T
	gateways  [2]atomic.Pointer[wire]
	keys      []string
	done      atomic.Int64 // accepted writes
	read      atomic.Int64
	abandoned atomic.Int64
}

func (c *collecting) any() *wire { return c.gateways[rand.IntN(2)].Load() }

// write changes an object in every way there is, under its own lease, as long as the context lasts.
func (c *collecting) write(ctx context.Context, key string) {
	var held holding
	for n := int64(1000); ctx.Err() == nil; n++ {
		if n >= 900 {
			r, err := c.any().try(ctx, "POST", leasePath("race"+key), `{"ttl":"30s","wait":"5s"}`)
			if err != nil || r.status != 201 {
				continue
			}
			held, n = holdingOf(c.t, r), 0
		}
		path, other := "/v1/objects/race/"+key, c.keys[rand.IntN(len(c.keys))]
		method, body := "POST", fmt.Sprintf(`{"copy":"objects/race/%s"}`, other)
		switch rand.IntN(6) {
		case 0:
			method, body = "DELETE", ""
		case 1:
			body = fmt.Sprintf(`{"restore":%d}`, held.Token+max(0, n-1-rand.Int64N(5)))
		case 2:
			c.abandon(ctx, path, held.token(n))
			continue
		case 3, 4:
			method, body = "PUT", checkedBody(16<<rand.IntN(14))
		}
		r, err := c.any().try(ctx, method, path, body, held.token(n), "Content-Type: application/json")
		switch {
		case err != nil: // killed
		case r.ok():
			c.done.Add(1)
		case r.status != 404 && r.status < 500 && r.code() != "upload-expired":
			c.t.Errorf("%s %s: %v", method, path, r)
			return
		}
	}
}

// abandon sends half of a body, waits for longer than a gateway does, or leaves.
func (c *collecting) abandon(ctx context.Context, path, token string) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(rand.IntN(3000))*time.Millisecond)
	defer cancel()
	body, feed := io.Pipe()
	defer feed.Close()
	go func() {
		_, _ = feed.Write([]byte(strings.Repeat("x", 100_000)))
		<-ctx.Done()
		feed.CloseWithError(ctx.Err())
	}()
	r, err := http.NewRequestWithContext(ctx, "PUT", c.any().base+path, body)
	if err != nil {
		c.t.Error(err)
		return
	}
	name, value, _ := strings.Cut(token, ": ")
	r.Header.Set(name, value)
	if answer, err := http.DefaultClient.Do(r); err == nil {
		answer.Body.Close()
	}
	c.abandoned.Add(1)
}

// watch reads objects and their versions, some of them slowly: what is answered whole is whole (I6).
func (c *collecting) watch(ctx context.Context) {
	for ctx.Err() == nil {
		path := "/v1/objects/race/" + c.keys[rand.IntN(len(c.keys))]
		if rand.IntN(4) == 0 {
			c.slowly(ctx, path)
			continue
		}
		r, err := c.any().try(ctx, "GET", path, "")
		switch {
		case err != nil || r.status == 404: // killed, or deleted
		case r.status == 503 && ctx.Err() != nil:
		case r.status != 200 || !wholeBody(r.body):
			c.t.Errorf("read: %d bytes, %.300s", len(r.body), r)
			return
		default:
			c.read.Add(1)
		}
	}
}

// slowly reads a body for about as long as a download may take.
func (c *collecting) slowly(ctx context.Context, path string) {
	r, err := http.NewRequestWithContext(ctx, "GET", c.any().base+path, nil)
	if err != nil {
		c.t.Error(err)
		return
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return
	}
	defer answer.Body.Close()
	first := make([]byte, 64)
	if _, err := io.ReadFull(answer.Body, first); err != nil || answer.StatusCode != 200 {
		return
	}
	select {
	case <-time.After(time.Duration(rand.IntN(1500)) * time.Millisecond):
	case <-ctx.Done():
	}
	rest, err := io.ReadAll(answer.Body)
	if err == nil && !wholeBody(string(first)+string(rest)) {
		c.t.Errorf("read slowly: %d bytes that are not whole", len(first)+len(rest))
	}
}

// TestCollectorRaces (I6): two gateways collect all the time, while objects are put, copied, restored and deleted, uploads and downloads
// last longer than they may, and gateways are killed. Nothing that is read is gone or torn, and in the end nothing is left but
// what is referred to.
func TestCollectorRaces(t *testing.T) {
	t.Parallel()
	lasting := 12 * time.Second
	if testing.Short() {
		lasting = 4 * time.Second
	}
	s, blobs := testServers(t), filepath.Join(testenv.QuickDir(t), "blobs")
	execSQL(t, s.database, `SELECT fence.protect_bucket('race', '', 'race{key}'), fence.set_options('race', '', '{"keep":"2s"}')`)
	flags := []string{"--blob-dir=" + blobs, "--log-level=error", "--gc-interval=100ms", "--gc-grace=2500ms", "--upload-limit=1500ms", "--download-limit=1500ms"}
	c := &collecting{t: t, keys: []string{"a", "b", "c"}}
	start := func(i int) *program {
		p := startServe(t, s, flags...)
		c.gateways[i].Store(newWire(t, p.url))
		return p
	}
	programs := []*program{start(0), start(1)}
	ctx, cancel := context.WithTimeout(t.Context(), lasting)
	defer cancel()
	var users sync.WaitGroup
	for _, key := range c.keys {
		users.Go(func() { c.write(ctx, key) })
		users.Go(func() { c.watch(ctx) })
	}
	for kills := 0; ctx.Err() == nil; kills++ {
		select {
		case <-ctx.Done():
		case <-time.After(700 * time.Millisecond):
			programs[kills%2].kill()
			programs[kills%2] = start(kills % 2)
		}
	}
	users.Wait()
	t.Logf("%d writes, %d reads, %d uploads abandoned", c.done.Load(), c.read.Load(), c.abandoned.Load())
	if c.done.Load() < 20 || c.read.Load() < 20 || c.abandoned.Load() == 0 {
		t.Error("too little was done to show anything")
	}
	execSQL(t, s.database, "UPDATE fence.blobs SET state_at = state_at - interval '1 hour' WHERE state = 'pending'")
	within(t, patience, "nothing is left but the objects' blobs", func() bool {
		return queryText(t, s.database, "SELECT (count(*) = (SELECT count(DISTINCT blob) FROM fence.objects))::text FROM fence.blobs") == "true" &&
			slices.Equal(storedBlobs(t, blobs), strings.Fields(queryText(t, s.database, "SELECT coalesce(string_agg(id::text, ' ' ORDER BY id), '') FROM fence.blobs")))
	})
	for _, key := range c.keys {
		if r := c.any().do("GET", "/v1/objects/race/"+key, ""); r.status != 404 && (r.status != 200 || !wholeBody(r.body)) {
			t.Errorf("in the end: %.300s", r)
		}
	}
}

// storedBlobs are the ids of the blobs below a directory.
func storedBlobs(t *testing.T, dir string) (ids []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			ids = append(ids, filepath.Base(path))
		}
		return nil // a file that is collected meanwhile is no error
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(ids)
	return ids
}
