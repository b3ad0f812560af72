package s3api_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/s3api"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/leasetest"
	"github.com/fencegate/fencegate/stores"
	"github.com/fencegate/fencegate/stores/pgstore"
	"github.com/fencegate/fencegate/stores/s3store"
)

// servers are a ledger and an S3, with a bucket whose objects have leases of their own.
type servers struct {
	testenv.S3
	ledger string
}

func newServers(t *testing.T) servers {
	t.Helper()
	s := servers{testenv.Bucket(t), testenv.Ledger(t, prepare)}
	s.exec(t, "SELECT fence.protect_bucket($1, '', 'report:{key}')", s.Bucket)
	return s
}

func (s servers) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.ledger)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// both is a gateway with its two fronts. It shares nothing with others but the servers.
type both struct {
	*world
	servers
	api string // where HTTP is spoken; S3 is at the world's url
}

// open starts a gateway. A writeTimeout of 0 is the usual one.
func (s servers) open(t *testing.T, writeTimeout time.Duration) *both {
	t.Helper()
	w := &world{t: t, callers: map[string]caller{accessKey: {name: "p"}}, log: &bytes.Buffer{}}
	b := &both{world: w, servers: s}
	var err error
	if w.store, err = pgstore.Open(pgstore.Config{URL: s.ledger}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.store.Close)
	blobs, err := s3store.New(s3store.Config{Endpoint: s.Endpoint, Region: s.Region, AccessKey: s.AccessKey, SecretKey: s.SecretKey, PathStyle: true, PartSize: 5 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { blobs.Close() })
	if w.objects, err = stores.NewObjects(w.store, blobs, stores.ObjectsConfig{}); err != nil {
		t.Fatal(err)
	}
	if w.manager, err = lease.NewManager(leasetest.NewSpace().Locker(), w.store, lease.Config{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.manager.Close() })
	g, err := gateway.New(gateway.Config{
		Leases: w.manager, Rows: w.store, Objects: w.objects, Readiness: w.store, Commits: w.objects.Commits(w.store), Log: slog.New(slog.DiscardHandler), WriteTimeout: writeTimeout,
		Authenticate: func(*http.Request) (gateway.Caller, error) { return caller{name: "p"}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	front, err := s3api.New(s3api.Config{Objects: w.objects, Leases: w.manager, Keys: w, Shared: g.Front(), WriteTimeout: writeTimeout})
	if err != nil {
		t.Fatal(err)
	}
	serve := func(h http.Handler) string {
		server := httptest.NewUnstartedServer(nil)
		server.Config = gateway.NewServer(h, gateway.ServerConfig{Log: slog.New(slog.DiscardHandler)})
		server.Start()
		t.Cleanup(server.Close)
		return server.URL
	}
	b.api, w.url = serve(g), serve(front)
	return b
}

// put makes a request to put an object, over S3 or over HTTP.
func (b *both) put(overS3 bool, key, body string, token fence.Token) *http.Request {
	b.t.Helper()
	if overS3 {
		return b.signed(http.MethodPut, b.s3Path(key), body, "X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD", "X-Fence-Token", token.String())
	}
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPut, b.api+"/v1/objects/"+b.Bucket+"/"+escaped(key), strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("X-Fence-Token", token.String())
	return r
}

func escaped(key string) string { return strings.ReplaceAll(url.PathEscape(key), "%2F", "/") }

// s3Path is an object's path as those who sign it write it.
func (b *both) s3Path(key string) string {
	return "/" + b.Bucket + "/" + strings.NewReplacer("%2F", "/", "+", "%20").Replace(url.QueryEscape(key))
}

// read returns an object's body, and the status of the answer.
func (b *both) read(overS3 bool, key string) (int, string) {
	b.t.Helper()
	r := b.signed(http.MethodGet, b.s3Path(key), "")
	if !overS3 {
		var err error
		if r, err = http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.api+"/v1/objects/"+b.Bucket+"/"+escaped(key), nil); err != nil {
			b.t.Fatal(err)
		}
	}
	answer := b.send(r)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// wantBlobs wants so many blobs to be referred to, and whatever else is stored to be given up.
func (b *both) wantBlobs(t *testing.T, committed int64) {
	t.Helper()
	n, err := b.store.CountBlobs(t.Context())
	if err != nil || n.Committed != committed {
		t.Errorf("%+v, %v, want %d that are referred to", n, err, committed)
	}
	const prefix = ".fencegate/blobs/"
	list, err := b.Client().ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &b.Bucket, Prefix: aws.String(prefix)})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, o := range list.Contents {
		ids = append(ids, strings.TrimPrefix(*o.Key, prefix))
	}
	conn, err := pgx.Connect(t.Context(), b.ledger)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var loose int
	err = conn.QueryRow(t.Context(), `SELECT count(*) FROM unnest($1::text[]) i LEFT JOIN fence.blobs b ON b.id::text = i
		WHERE b.id IS NULL OR b.state = 'pending' OR b.state = 'committed' AND NOT EXISTS (SELECT FROM fence.objects o WHERE o.blob = b.id)`, ids).Scan(&loose)
	if err != nil || loose > 0 {
		t.Errorf("%d of %d blobs are neither referred to nor given up, %v", loose, len(ids), err)
	}
}

// resigned signs a request once more, whose length has changed.
func (w *world) resigned(r *http.Request) *http.Request {
	w.t.Helper()
	r.Header.Del("Authorization")
	if err := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }).SignHTTP(w.t.Context(), credentialsOf(accessKey), r, "UNSIGNED-PAYLOAD", "s3", "us-east-1", time.Now()); err != nil {
		w.t.Fatal(err)
	}
	return r
}
