package access_test

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway/access"
)

// Somebody who guesses behind a shared address keeps nobody out who comes with a generated secret, and learns nothing.
func TestGeneratedSecretsPassTheLimit(t *testing.T) {
	generated := func(b byte) string {
		return access.GeneratedPrefix + base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat(string(b), 32)))
	}
	p := policy(t, fmt.Sprintf(pair, sum(generated('a')), sum("chosen")))
	c := &clock{}
	l := login{t, authenticator(t, access.Config{Policy: p, Now: c.now})}
	l.guess(here)
	l.expect(tooMany, here, "chosen")
	l.expect(tooMany, here, generated('b'))
	l.expect(tooMany, here, generated('b'))
	l.expect(ok, here, generated('a'))
	l.expect(tooMany, here, access.GeneratedPrefix+"short")
}

// pkix.Name keeps the last of two common names.
func TestSubjectWithTwoCommonNames(t *testing.T) {
	p := policy(t, "principals:\n  - name: CN=operator\n    admin: true\n")
	a := authenticator(t, access.Config{Policy: p})
	cn := asn1.ObjectIdentifier{2, 5, 4, 3}
	one := pkix.Name{CommonName: "operator", Names: []pkix.AttributeTypeAndValue{{Type: cn, Value: "operator"}}}
	two := pkix.Name{CommonName: "operator", Names: []pkix.AttributeTypeAndValue{{Type: cn, Value: "attacker"}, {Type: cn, Value: "operator"}}}
	if _, err := a.Authenticate(withCertificate(request(here), one, true)); err != nil {
		t.Error(err)
	}
	if who, err := a.Authenticate(withCertificate(request(here), two, true)); fence.CodeOf(err) != fence.CodeUnauthenticated {
		t.Errorf("let in as %v, %v", who, err)
	}
}

// A list of patterns that is cut short allows more than the whole one.
func TestLoadWantsAWholeFile(t *testing.T) {
	dir := t.TempDir()
	whole := "principals:\n  - name: reader\n    secret_sha256: " + sum("x") + "\n    allow:\n      - verbs: [read]\n        buckets:\n          - reports/daily/*\n"
	path := filepath.Join(dir, "auth.yaml")
	for n, want := range map[int]string{len(whole): "", len(whole) - 1: "auth.yaml:7: the file does not end", len(whole) - len("/daily/*\n"): "auth.yaml:7: the file does not end"} {
		if err := os.WriteFile(path, []byte(whole[:n]), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := access.Load(path)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: %v, want %q", n, err, want)
		}
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, dir} {
		if _, err := access.Load(path); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
