package s3api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/s3api"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/leasetest"
	"github.com/fencegate/fencegate/stores"
	"github.com/fencegate/fencegate/stores/dirstore"
	"github.com/fencegate/fencegate/stores/pgstore"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

const (
	accessKey = "TESTTESTTESTTEST"
	secretKey = "0123456789abcdef0123456789abcdef"
	// maxMeta is less than S3's own limit.
	maxMeta = 1000
)

// caller may do what its function says.
type caller struct {
	name string
	may  func(gateway.Action) bool
}

func (c caller) Principal() string              { return c.name }
func (c caller) May(a gateway.Action) bool      { return c.may == nil || c.may(a) }
func (c caller) MayBelow(a gateway.Action) bool { return c.may == nil || c.may(a) }
func (caller) Identity() fence.Identity         { return fence.Identity{} }
func (caller) Columns(gateway.Action) []string  { return nil }

// world is a front over a ledger and a folder of blobs, and what it told.
type world struct {
	t       testing.TB
	store   *pgstore.Store
	objects *stores.Objects
	manager *lease.Manager
	front   *s3api.Front
	server  *httptest.Server
	url     string
	log     *bytes.Buffer

	mu       sync.Mutex // guards what follows
	patterns []string   // of the requests that were observed
	callers  map[string]caller
	observed []gateway.Observation
	failed   int
	over     string // the class of which every request is one too many
	// beforeWrite, when not nil, is called before a write is checked.
	beforeWrite func()
}

// hooked are the world's objects, whose writes may be preceded by something.
type hooked struct {
	*stores.Objects
	w *world
}

func (h hooked) CheckWrite(ctx context.Context, w fence.ObjectWrite) (fence.ObjectWrite, error) {
	if h.w.beforeWrite != nil {
		h.w.beforeWrite()
	}
	return h.Objects.CheckWrite(ctx, w)
}

func prepare(url string) error {
	ctx := context.Background()
	if _, err := pgstore.Migrate(ctx, url); err != nil {
		return err
	}
	s, err := pgstore.Open(pgstore.Config{URL: url})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.ProtectBucket(ctx, "reports", "", "report:{key}"); err != nil {
		return err
	}
	return s.ProtectBucket(ctx, "scratch", "", "scratch")
}

func newWorld(t testing.TB) *world { return newWorldOn(t, nil) }

// newWorldOn has its blobs in a store, nil for a folder, and its front configured by functions.
func newWorldOn(t testing.TB, blobs stores.Blobs, tune ...func(*s3api.Config)) *world {
	t.Helper()
	w := &world{t: t, callers: map[string]caller{accessKey: {name: "p"}}, log: &bytes.Buffer{}}
	s, err := pgstore.Open(pgstore.Config{URL: testenv.Ledger(t, prepare)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	w.store = s
	if blobs == nil {
		dir, err := dirstore.New(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dir.Close() })
		blobs = dir
	}
	if w.objects, err = stores.NewObjects(s, blobs, stores.ObjectsConfig{}); err != nil {
		t.Fatal(err)
	}
	if w.manager, err = lease.NewManager(leasetest.NewSpace().Locker(), s, lease.Config{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.manager.Close() })
	g, err := gateway.New(gateway.Config{
		Leases: w.manager, Rows: s, Objects: w.objects, Readiness: s, Events: s, Limiter: w, Log: slog.New(slog.NewJSONHandler(w.log, nil)),
		Observe: func(ctx context.Context, o gateway.Observation) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.observed = append(w.observed, o)
			if r, found := ctx.Value(requestKey{}).(**http.Request); found {
				w.patterns = append(w.patterns, (*r).Pattern)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := s3api.Config{Objects: hooked{w.objects, w}, Leases: w.manager, Keys: w, Shared: g.Front(), MaxMeta: maxMeta}
	for _, f := range tune {
		f(&cfg)
	}
	if w.front, err = s3api.New(cfg); err != nil {
		t.Fatal(err)
	}
	w.server = httptest.NewServer(w)
	t.Cleanup(w.server.Close)
	w.url = w.server.URL
	return w
}

type requestKey struct{}

// ServeHTTP serves as the front does. Whoever observes a request finds it in the context.
func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	ctx := context.WithValue(r.Context(), requestKey{}, &r)
	r = r.WithContext(ctx)
	w.front.ServeHTTP(rw, r)
}

// Key implements s3api.Keys.
func (w *world) Key(access string) (string, gateway.Caller, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, found := w.callers[access]
	return secretKey, c, found
}

// NoteFailed implements s3api.Keys.
func (w *world) NoteFailed() { w.mu.Lock(); w.failed++; w.mu.Unlock() }

// Take implements gateway.Limiter.
func (w *world) Take(_ context.Context, class, _ string) (time.Duration, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if class == w.over {
		return 1500 * time.Millisecond, nil
	}
	return 0, nil
}

func (w *world) client(options ...func(*s3.Options)) *s3.Client {
	return w.clientOf(accessKey, options...)
}

func (w *world) clientOf(access string, options ...func(*s3.Options)) *s3.Client {
	all := append([]func(*s3.Options){func(o *s3.Options) {
		o.BaseEndpoint, o.Region, o.UsePathStyle, o.RetryMaxAttempts = &w.url, "eu-central-1", true, 1
		o.Credentials = credentials.NewStaticCredentialsProvider(access, secretKey, "")
	}}, options...)
	return s3.New(s3.Options{}, all...)
}

// grant makes a new grant of a lease, whoever holds it.
func (w *world) grant(name string) *fence.Grant { return w.grantTo("p", name) }

func (w *world) grantTo(principal, name string) *fence.Grant {
	w.t.Helper()
	ctx := context.Background()
	var floor fence.Token
	newest, err := w.store.Newest(ctx, name)
	if err != nil {
		w.t.Fatal(err)
	}
	if newest != nil {
		floor = newest.First()
	}
	g, err := w.store.Certify(ctx, fence.Certificate{
		Lease: name, Principal: principal, Holder: principal, Acquire: fence.AcquireDigest(principal, fmt.Sprint(floor)), TTL: 30e9, Floor: floor,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return g
}

func token(t fence.Token) map[string]string { return map[string]string{"fence-token": t.String()} }

// put stores a body under a token as metadata.
func (w *world) put(key, body string, t fence.Token) (*s3.PutObjectOutput, error) {
	return w.client().PutObject(context.Background(), &s3.PutObjectInput{
		Bucket: aws.String("reports"), Key: &key, Body: strings.NewReader(body), Metadata: token(t),
	})
}

func (w *world) mustPut(key, body string, t fence.Token) string {
	w.t.Helper()
	out, err := w.put(key, body, t)
	if err != nil {
		w.t.Fatal(err)
	}
	return *out.ETag
}

func (w *world) get(key string) string {
	w.t.Helper()
	out, err := w.client().GetObject(context.Background(), &s3.GetObjectInput{Bucket: aws.String("reports"), Key: &key})
	if err != nil {
		w.t.Fatal(err)
	}
	defer out.Body.Close()
	body, err := io.ReadAll(out.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(body)
}

// logged are the lines of the log, decoded.
func (w *world) logged() (lines []map[string]any) {
	for text := range strings.Lines(w.log.String()) {
		line := map[string]any{}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			w.t.Fatal(err)
		}
		lines = append(lines, line)
	}
	return lines
}
