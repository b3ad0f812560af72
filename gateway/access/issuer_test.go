package access_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
)

const issuerName = "https://id.example.com/"

// rsaKeys are made once: it takes long.
var rsaKeys = sync.OnceValue(func() [2]*rsa.PrivateKey {
	var keys [2]*rsa.PrivateKey
	for i := range keys {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err)
		}
		keys[i] = key
	}
	return keys
})

func ecKey(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func edKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// jwk is the public half of a key as issuers publish it.
func jwk(t testing.TB, private crypto.Signer, id, algorithm string) string {
	t.Helper()
	k, err := jwkset.NewJWKFromKey(private.Public(), jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: id, ALG: jwkset.ALG(algorithm), USE: jwkset.UseSig}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(k.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func keySet(keys ...string) string {
	text := `{"keys":[`
	for i, k := range keys {
		if i > 0 {
			text += ","
		}
		text += k
	}
	return text + "]}"
}

// idp serves a key set.
type idp struct {
	*httptest.Server
	answer  atomic.Pointer[http.HandlerFunc]
	fetches atomic.Int64
}

func newIDP(t testing.TB, keys ...string) *idp {
	p := &idp{}
	p.serve(keys...)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.fetches.Add(1)
		(*p.answer.Load())(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *idp) serve(keys ...string) {
	set := keySet(keys...)
	p.do(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, set) })
}

func (p *idp) do(f http.HandlerFunc) { p.answer.Store(&f) }

// claims are those of a good token of now, with changes; nil takes one out.
func claimsAt(now time.Time, changes jwt.MapClaims) jwt.MapClaims {
	c := jwt.MapClaims{"iss": issuerName, "aud": "fencegate", "sub": "alice", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	for k, v := range changes {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	return c
}

// signed is a token with a header {"alg":…,"kid":…} and any payload. Without a key it has no signature.
func signed(t testing.TB, key any, header map[string]any, payload string) string {
	t.Helper()
	h, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	text := base64.RawURLEncoding.EncodeToString(h) + "." + base64.RawURLEncoding.EncodeToString([]byte(payload))
	if key == nil {
		return text + "."
	}
	alg, _ := header["alg"].(string)
	signature, err := jwt.GetSigningMethod(alg).Sign(text, key)
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func sign(t testing.TB, key any, algorithm, id string, claims jwt.MapClaims) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	header := map[string]any{"alg": algorithm, "typ": "JWT"}
	if id != "" {
		header["kid"] = id
	}
	return signed(t, key, header, string(payload))
}

// issuerAt is a file with one issuer; more are further lines of its entry.
func issuerAt(url, more string) string {
	return "issuers:\n  - issuer: " + issuerName + "\n    audience: [fencegate, other]\n    jwks_url: " + url + "/keys\n" + more
}
