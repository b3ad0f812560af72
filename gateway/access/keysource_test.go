package access_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway/access"
)

// logLines is a log that a test reads while it is written.
type logLines struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// count returns how many lines have a text.
func (l *logLines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

// impatient is a Config whose fetches do not make a test wait.
func impatient(t *testing.T, file string) (access.Config, *logLines) {
	log := &logLines{}
	return access.Config{
		Policy: policy(t, file), Burst: 1000,
		KeysEvery: time.Millisecond, KeysPause: time.Millisecond, KeysTimeout: 5 * time.Second, Log: slog.New(slog.NewTextHandler(log, nil)),
	}, log
}

func codeOf(a *access.Authenticator, credential string) fence.Code {
	_, err := a.Authenticate(request(here, "Bearer "+credential))
	return fence.CodeOf(err)
}

// eventually waits for the fetching in the background.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

const unavailable = fence.CodeUnavailable

func TestKeysRotate(t *testing.T) {
	before, after := edKey(t), edKey(t)
	p := newIDP(t, jwk(t, before, "1", ""))
	cfg, log := impatient(t, issuerAt(p.URL, ""))
	cfg.KeysEvery = time.Hour
	a := authenticator(t, cfg)
	t.Cleanup(a.Close)
	old, fresh := sign(t, before, "EdDSA", "1", claimsAt(time.Now(), nil)), sign(t, after, "EdDSA", "2", claimsAt(time.Now(), nil))
	if got := codeOf(a, old); got != ok {
		t.Fatal(got)
	}
	if got := codeOf(a, fresh); got != wrong {
		t.Errorf("a key that is not published: %s", got)
	}
	p.serve(jwk(t, before, "1", ""), jwk(t, after, "2", ""))
	eventually(t, "an unknown key makes the keys be fetched", func() bool { return codeOf(a, fresh) == ok })
	if got := codeOf(a, old); got != ok {
		t.Errorf("the old key is still published: %s", got)
	}
	p.serve(jwk(t, after, "2", ""))
	eventually(t, "the keys are fetched", func() bool {
		codeOf(a, sign(t, before, "EdDSA", "3", claimsAt(time.Now(), nil)))
		return codeOf(a, old) == wrong
	})
	if got := codeOf(a, fresh); got != ok {
		t.Errorf("the new key: %s", got)
	}
	// The key of another under an id that was known: nothing remembered helps.
	p.serve(jwk(t, before, "2", ""))
	eventually(t, "the key is replaced", func() bool {
		codeOf(a, sign(t, before, "EdDSA", "3", claimsAt(time.Now(), nil)))
		return codeOf(a, fresh) == wrong
	})
	if n := log.count("fetched the keys"); n != 4 {
		t.Errorf("%d changes are logged", n)
	}
}

func TestKeysInTheBackground(t *testing.T) {
	key := edKey(t)
	p := newIDP(t, jwk(t, key, "1", ""))
	cfg, _ := impatient(t, issuerAt(p.URL, ""))
	a := authenticator(t, cfg)
	t.Cleanup(a.Close)
	token := sign(t, key, "EdDSA", "1", claimsAt(time.Now(), nil))
	if got := codeOf(a, token); got != ok {
		t.Fatal(got)
	}
	p.serve()
	eventually(t, "the key is withdrawn", func() bool { return codeOf(a, token) == wrong })
}

func TestKeysCannotBeFetched(t *testing.T) {
	key := edKey(t)
	token := sign(t, key, "EdDSA", "1", claimsAt(time.Now(), nil))
	set := keySet(jwk(t, key, "1", ""))
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, set) }))
	t.Cleanup(elsewhere.Close)
	says := map[string]string{"Redirect": "redirected off https", "Loop": "more than 3 redirects", "Huge": "more than 262144 bytes", "Hangs": "deadline exceeded"}
	for name, answer := range map[string]http.HandlerFunc{
		"Status": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound); fmt.Fprint(w, set) },
		"Huge":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, set+strings.Repeat(" ", 256<<10)) },
		"NoSet":  func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"error":"later"}`) },
		"NoJSON": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, set[1:]) },
		"ManyKeys": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, keySet(strings.Split(strings.Repeat("{};", 64)+"{}", ";")...))
		},
		"Cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99999")
			fmt.Fprint(w, set)
		},
		"Redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/keys", http.StatusFound)
		},
		"Loop":  func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/keys", http.StatusFound) },
		"Hangs": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newIDP(t)
			p.do(answer)
			cfg, log := impatient(t, issuerAt(p.URL, "principals: [{name: static, secret_sha256: "+sum("x")+"}]\n"))
			if name == "Hangs" {
				cfg.KeysTimeout = 500 * time.Millisecond
			}
			// Whoever is redirected to 192.0.2.1 would find the keys there.
			cfg.Transport = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				if address == "192.0.2.1:80" {
					address = elsewhere.Listener.Addr().String()
				}
				return new(net.Dialer).DialContext(ctx, network, address)
			}}
			a := authenticator(t, cfg)
			defer a.Close()
			if got := codeOf(a, token); got != unavailable {
				t.Errorf("the token: %s", got)
			}
			if got := codeOf(a, "x"); got != ok {
				t.Errorf("a secret: %s", got)
			}
			eventually(t, "it was tried several times", func() bool { return p.fetches.Load() > 2 })
			p.do(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, set) })
			eventually(t, "the keys are fetched", func() bool { return codeOf(a, token) == ok })
			p.do(answer)
			eventually(t, "they cannot be fetched again", func() bool { return log.count("those known go on serving") == 1 })
			if got := codeOf(a, token); got != ok {
				t.Errorf("with keys that are known: %s", got)
			}
			if got := codeOf(a, sign(t, key, "EdDSA", "2", claimsAt(time.Now(), nil))); got != unavailable {
				t.Errorf("with a key that is not known: %s", got)
			}
			if log.count(says[name]) == 0 {
				t.Errorf("%q is not logged:\n%s", says[name], log.buf.String())
			}
			if log.count("answered unavailable until they can") != 1 || log.count("fetched the keys") != 1 || log.count(token[:20]) != 0 || a.Failed() != 0 {
				t.Errorf("%d failures, logged:\n%s", a.Failed(), log.buf.String())
			}
		})
	}
}

// Whoever is redirected stays on TLS.
func TestKeysOverTLS(t *testing.T) {
	key := edKey(t)
	token := sign(t, key, "EdDSA", "1", claimsAt(time.Now(), nil))
	plain := newIDP(t, jwk(t, key, "1", ""))
	secure := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/off/keys":
			http.Redirect(w, r, plain.URL, http.StatusFound)
		case "/on/keys":
			http.Redirect(w, r, "/there", http.StatusFound)
		default:
			fmt.Fprint(w, keySet(jwk(t, key, "1", "")))
		}
	}))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	for path, want := range map[string]fence.Code{"": ok, "/on": ok, "/off": unavailable} {
		cfg, _ := impatient(t, issuerAt(secure.URL+path, ""))
		cfg.KeysEvery, cfg.Transport = time.Hour, secure.Client().Transport
		a := authenticator(t, cfg)
		if got := codeOf(a, token); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
		a.Close()
	}
	cfg, _ := impatient(t, issuerAt(secure.URL, ""))
	a := authenticator(t, cfg)
	defer a.Close()
	if got := codeOf(a, token); got != unavailable {
		t.Errorf("a certificate that nobody trusts: %s", got)
	}
}

// A storm of unknown keys waits for one fetch and makes no other, and those who come with a known key do not wait for it.
func TestStormOfUnknownKeys(t *testing.T) {
	key := edKey(t)
	p := newIDP(t, jwk(t, key, "1", ""))
	file := issuerAt(p.URL, "")
	cfg, _ := impatient(t, file)
	cfg.KeysPause = time.Hour
	a := authenticator(t, cfg)
	t.Cleanup(a.Close)
	good := sign(t, key, "EdDSA", "1", claimsAt(time.Now(), nil))
	if got := codeOf(a, good); got != ok {
		t.Fatal(got)
	}
	began, release := make(chan struct{}, 1000), make(chan struct{})
	p.do(func(w http.ResponseWriter, _ *http.Request) {
		began <- struct{}{}
		<-release
		fmt.Fprint(w, keySet(jwk(t, key, "1", "")))
	})
	a.Replace(policy(t, file))
	<-began
	var wg sync.WaitGroup
	storm := func(n int) {
		for i := range n {
			wg.Go(func() {
				token := sign(t, key, "EdDSA", fmt.Sprint("unknown-", i), claimsAt(time.Now(), nil))
				r := request(fmt.Sprintf("192.0.2.%d:1", i%250), "Bearer "+token)
				if _, err := a.Authenticate(r); fence.CodeOf(err) != wrong {
					t.Error(err)
				}
			})
		}
	}
	storm(100)
	if got := codeOf(a, good); got != ok {
		t.Errorf("a known key during the storm: %s", got)
	}
	close(release)
	wg.Wait()
	storm(100)
	wg.Wait()
	if n := p.fetches.Load(); n != 2 {
		t.Errorf("%d fetches", n)
	}
}

// watched is a context that tells when somebody waits for it.
type watched struct {
	context.Context
	asked chan struct{}
}

func (w watched) Done() <-chan struct{} {
	w.asked <- struct{}{}
	return w.Context.Done()
}

func TestReplaceAndKeys(t *testing.T) {
	key := edKey(t)
	token := sign(t, key, "EdDSA", "1", claimsAt(time.Now(), nil))
	other := edKey(t)
	p, q := newIDP(t, jwk(t, key, "1", "")), newIDP(t, jwk(t, other, "2", ""))
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	none := goleak.IgnoreCurrent()
	cfg, _ := impatient(t, issuerAt(p.URL, ""))
	cfg.KeysEvery, cfg.KeysTimeout = time.Hour, time.Minute
	a := authenticator(t, cfg)
	if got := codeOf(a, token); got != ok {
		t.Fatal(got)
	}
	// Keys that are known outlive the policy while they cannot be fetched.
	p.do(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-hang:
		}
	})
	a.Replace(policy(t, issuerAt(p.URL, "    leeway: 0s\n")))
	if got := codeOf(a, token); got != ok {
		t.Errorf("after SIGHUP: %s", got)
	}
	// Whoever waits for keys that the old policy fetches is answered by the new one.
	waited, waits := make(chan error), watched{t.Context(), make(chan struct{}, 10)}
	r := request(here, "Bearer "+sign(t, other, "EdDSA", "2", claimsAt(time.Now(), nil))).WithContext(waits)
	go func() {
		_, err := a.Authenticate(r)
		waited <- err
	}()
	<-waits.asked
	eventually(t, "a fetch hangs", func() bool { return p.fetches.Load() == 2 })
	// Those of another URL are not this issuer's.
	a.Replace(policy(t, issuerAt(q.URL, "")))
	if err := <-waited; err != nil {
		t.Errorf("who waited: %v", err)
	}
	if got := codeOf(a, token); got != wrong {
		t.Errorf("with other keys: %s", got)
	}
	nowhere := issuerAt(q.URL+"/nowhere", "")
	q.do(http.NotFound)
	a.Replace(policy(t, nowhere))
	if got := codeOf(a, sign(t, other, "EdDSA", "2", claimsAt(time.Now(), nil))); got != unavailable {
		t.Errorf("with the keys of another URL: %s", got)
	}
	a.Replace(policy(t, "principals: [{name: a}]\n"))
	if got := codeOf(a, token); got != wrong {
		t.Errorf("without issuers: %s", got)
	}
	p.CloseClientConnections()
	goleak.VerifyNone(t, none)
	a.Replace(policy(t, issuerAt(q.URL, "")))
	a.Close()
	a.Replace(policy(t, issuerAt(q.URL, "")))
	goleak.VerifyNone(t, none)
}
