package e2e

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"
)

// The faults of an S3, each for a share of its requests while it lasts.
const (
	s3Errors    = "errors"      // 500, nothing done
	s3Slow      = "slow"        // up to a second late
	s3Lost      = "lost reply"  // done, and the connection closed without an answer
	s3CutAnswer = "cut answer"  // half of the answer's body, then the connection closed
	s3CutUpload = "cut request" // the server gets half of the body
)

// faultyS3 stands before an S3 and serves it badly when told to.
type faultyS3 struct {
	*httptest.Server
	proxy *httputil.ReverseProxy
	mode  atomic.Pointer[string] // nil: well
}

func newFaultyS3(t testing.TB, endpoint string) *faultyS3 {
	t.Helper()
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 32, DisableCompression: true}
	f := &faultyS3{proxy: &httputil.ReverseProxy{
		// The Host stays as it was sent: it is signed.
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = target.Scheme, target.Host, r.In.Host
		},
		Transport:    transport,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}}
	f.Server = httptest.NewUnstartedServer(f)
	f.Config.ErrorLog = discardLog()
	f.proxy.ErrorLog = discardLog()
	f.Start()
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
		transport.CloseIdleConnections()
	})
	return f
}

// be sets the fault; "" ends it.
func (f *faultyS3) be(mode string) {
	if mode == "" {
		f.mode.Store(nil)
		return
	}
	f.mode.Store(&mode)
}

func (f *faultyS3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mode := f.mode.Load()
	// Two of three, so that some of the three attempts of a request come through.
	if mode == nil || rand.IntN(3) == 0 {
		f.proxy.ServeHTTP(w, r)
		return
	}
	switch *mode {
	case s3Errors:
		http.Error(w, "<Error><Code>InternalError</Code></Error>", http.StatusInternalServerError)
	case s3Slow:
		wait(r.Context(), time.Duration(rand.IntN(1000))*time.Millisecond)
		f.proxy.ServeHTTP(w, r)
	case s3Lost:
		// Whoever sent it may be gone by then: the server is to do it all the same.
		f.proxy.ServeHTTP(&deaf{header: http.Header{}}, r.WithContext(context.WithoutCancel(r.Context())))
		panic(http.ErrAbortHandler)
	case s3CutAnswer:
		f.proxy.ServeHTTP(&cutting{ResponseWriter: w, left: 100}, r)
	case s3CutUpload:
		if r.ContentLength > 1 {
			r.Body = io.NopCloser(&io.LimitedReader{R: r.Body, N: r.ContentLength / 2})
		}
		f.proxy.ServeHTTP(w, r)
	}
}

// deaf throws an answer away.
type deaf struct{ header http.Header }

func (d *deaf) Header() http.Header         { return d.header }
func (d *deaf) Write(p []byte) (int, error) { return len(p), nil }
func (d *deaf) WriteHeader(int)             {}

// cutting passes on so many bytes of an answer's body, and then ends the connection.
type cutting struct {
	http.ResponseWriter
	left int
}

func (c *cutting) Write(p []byte) (int, error) {
	if len(p) > c.left {
		_, _ = c.ResponseWriter.Write(p[:c.left])
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	c.left -= len(p)
	return c.ResponseWriter.Write(p)
}
