package access_test

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway/access"
)

func sum(secret string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(secret))) }

func authenticator(t testing.TB, cfg access.Config) *access.Authenticator {
	t.Helper()
	a, err := access.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func request(from string, authorization ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = from
	for _, line := range authorization {
		r.Header.Add("Authorization", line)
	}
	return r
}

func withCertificate(r *http.Request, subject pkix.Name, verified bool) *http.Request {
	leaf := &x509.Certificate{Subject: subject}
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
	if verified {
		r.TLS.VerifiedChains = [][]*x509.Certificate{{leaf, {Subject: pkix.Name{CommonName: "ca"}}}}
	}
	return r
}

func TestAuthenticate(t *testing.T) {
	const here = "192.0.2.1:4711"
	worker := pkix.Name{CommonName: "worker, one", Organization: []string{"Example"}}
	p := policy(t, `
principals:
  - {name: first, secret_sha256: `+sum("one")+`}
  - {name: second, secret_sha256: [`+sum("two")+`, `+sum("zwei")+`]}
  - {name: longest, secret_sha256: `+sum(strings.Repeat("x", 512))+`}
  - {name: longer, secret_sha256: `+sum(strings.Repeat("x", 513))+`}
  - {name: 'CN=worker\, one,O=Example'}
`)
	for _, c := range []struct {
		name    string
		request *http.Request
		want    string // the principal, empty for none
	}{
		{"First", request(here, "Bearer one"), "first"},
		{"SecondsFirst", request(here, "Bearer two"), "second"},
		{"SecondsSecond", request(here, "Bearer zwei"), "second"},
		{"SchemeInCapitals", request(here, "BEARER one"), "first"},
		{"SpacesBetween", request(here, "bearer   one"), "first"},
		{"Longest", request(here, "Bearer "+strings.Repeat("x", 512)), "longest"},
		{"TooLong", request(here, "Bearer "+strings.Repeat("x", 513)), ""},
		{"Wrong", request(here, "Bearer three"), ""},
		{"Nothing", request(here), ""},
		{"Empty", request(here, ""), ""},
		{"NoSecret", request(here, "Bearer"), ""},
		{"EmptySecret", request(here, "Bearer "), ""},
		{"OtherScheme", request(here, "Basic one"), ""},
		{"NoScheme", request(here, "one"), ""},
		{"TwoLines", request(here, "Bearer one", "Bearer one"), ""},
		{"TwoSecrets", request(here, "Bearer one, Bearer two"), ""},
		{"HashIsNoSecret", request(here, "Bearer "+sum("one")), ""},
		{"Certificate", withCertificate(request(here), worker, true), `CN=worker\, one,O=Example`},
		{"CertificateNotVerified", withCertificate(request(here), worker, false), ""},
		{"CertificateOfAStranger", withCertificate(request(here), pkix.Name{CommonName: "stranger"}, true), ""},
		{"SecretBeforeCertificate", withCertificate(request(here, "Bearer one"), worker, true), "first"},
		{"WrongSecretBeforeCertificate", withCertificate(request(here, "Bearer no"), worker, true), ""},
		{"NoAddress", request("@", "Bearer one"), "first"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := authenticator(t, access.Config{Policy: p})
			caller, err := a.Authenticate(c.request)
			if c.want == "" {
				var e *fence.Error
				if caller != nil || !errors.As(err, &e) || e.Code != fence.CodeUnauthenticated {
					t.Fatalf("%v, %v", caller, err)
				}
				for _, secret := range []string{"one", "first", "worker", "three"} {
					if strings.Contains(strings.ReplaceAll(e.Message, "one header", ""), secret) {
						t.Errorf("the message says %q: %v", secret, err)
					}
				}
				if a.Failed() != 1 {
					t.Errorf("%d failures", a.Failed())
				}
				return
			}
			if err != nil || caller.Principal() != c.want {
				t.Fatalf("%v, %v", caller, err)
			}
			if a.Failed() != 0 {
				t.Errorf("%d failures", a.Failed())
			}
		})
	}
}

func TestConfig(t *testing.T) {
	p := policy(t, "principals: [{name: a}]")
	for name, cfg := range map[string]access.Config{
		"NoPolicy": {}, "Burst": {Policy: p, Burst: -1}, "Every": {Policy: p, Every: -1}, "Addresses": {Policy: p, Addresses: -1},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := access.New(cfg); err == nil {
				t.Error("it was accepted")
			}
		})
	}
}
