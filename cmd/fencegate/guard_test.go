package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/goleak"

	"github.com/fencegate/fencegate/fence"
)

// issuer signs tokens and publishes its key.
type issuer struct {
	*httptest.Server
	key ed25519.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	k, err := jwkset.NewJWKFromKey(public, jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: "1", ALG: jwkset.AlgEdDSA}})
	if err != nil {
		t.Fatal(err)
	}
	set, err := json.Marshal(jwkset.JWKSMarshal{Keys: []jwkset.JWKMarshal{k.Marshal()}})
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{key: private, Server: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(set) }))}
	t.Cleanup(i.Close)
	return i
}

// entry is that of the issuer in an auth file.
func (i *issuer) entry() string {
	return fmt.Sprintf("issuers:\n  - issuer: %s\n    audience: fencegate\n    jwks_url: %s/keys\n    database_role: app_user\n"+
		"    allow: [{tables: [wallets], verbs: [read], columns: [owner, Balance]}]\n", i.URL, i.URL)
}

func (i *issuer) token(t *testing.T, subject string) string {
	t.Helper()
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{"iss": i.URL, "aud": "fencegate", "sub": subject, "exp": time.Now().Add(time.Hour).Unix()})
	token.Header["kid"] = "1"
	text, err := token.SignedString(i.key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A SIGHUP exchanges the issuers; nothing of the old ones goes on, and nothing at all once the guard is closed.
func TestGuardExchangesIssuers(t *testing.T) {
	first, second := newIssuer(t), newIssuer(t)
	none := goleak.IgnoreCurrent()
	file := filepath.Join(t.TempDir(), "auth.yaml")
	writeFile(t, file, first.entry()+"principals:\n  - name: "+first.URL+"#root\n")
	log := &shared{}
	g, err := newGuard(accessFlags{AuthFile: file}, slog.New(slog.NewJSONHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan bool)
	g.reloaded = func(ok bool) { read <- ok }
	hangup := make(chan os.Signal)
	stop := g.reloadOn(hangup)
	login := func(i *issuer) fence.Code {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Bearer "+i.token(t, "alice"))
		_, err := g.authenticate(r)
		return fence.CodeOf(err)
	}
	expect := func(i *issuer, want fence.Code) {
		t.Helper()
		if got := login(i); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	expect(first, fence.CodeAccepted)
	expect(second, fence.CodeUnauthenticated)
	for _, c := range []struct {
		text          string
		good          bool
		first, second fence.Code
	}{
		{second.entry(), true, fence.CodeUnauthenticated, fence.CodeAccepted},
		{strings.Replace(second.entry(), "audience", "audiences", 1), false, fence.CodeUnauthenticated, fence.CodeAccepted},
		{second.entry() + "principals:\n  - name: " + first.URL + "#root\n", false, fence.CodeUnauthenticated, fence.CodeAccepted},
		{first.entry() + strings.TrimPrefix(second.entry(), "issuers:\n"), true, fence.CodeAccepted, fence.CodeAccepted},
	} {
		writeFile(t, file, c.text)
		hangup <- syscall.SIGHUP
		if good := <-read; good != c.good {
			t.Errorf("read: %v", good)
		}
		expect(first, c.first)
		expect(second, c.second)
	}
	stop()
	goleak.VerifyNone(t, none)
	if len(log.lines("fetched the keys of an issuer")) == 0 || strings.Contains(log.String(), "eyJ") {
		t.Errorf("logged:\n%s", log)
	}
}
