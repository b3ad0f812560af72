package access_test

import (
	"crypto/elliptic"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/access"
)

// tokenHead is the beginning of claims that are good.
const tokenHead = `{"iss":"` + issuerName + `","aud":"fencegate","sub":"alice","exp":9999999999`

// tokenCase is one token and what comes of it.
type tokenCase struct {
	name, token string
	code        fence.Code
	says        string // in the cause or the message
}

func (c tokenCase) check(t *testing.T, a *access.Authenticator) {
	t.Helper()
	who, err := a.Authenticate(request(here, "Bearer "+c.token))
	if got := fence.CodeOf(err); got != c.code {
		t.Fatalf("%v, want %s: %v", who, c.code, err)
	}
	switch {
	case err == nil && who.Principal() != issuerName+"#alice":
		t.Errorf("it is %s", who.Principal())
	case err != nil && !strings.Contains(err.Error(), c.says):
		t.Errorf("%v, want it to say %q", err, c.says)
	case err != nil && len(c.token) > 100 && strings.Contains(err.Error(), c.token[len(c.token)-20:]):
		t.Errorf("the error shows the token: %v", err)
	}
}

func TestJWT(t *testing.T) {
	now := time.Now()
	rsaKey, other, ec, ec384, ed := rsaKeys()[0], rsaKeys()[1], ecKey(t, elliptic.P256()), ecKey(t, elliptic.P384()), edKey(t)
	p := newIDP(t, jwk(t, rsaKey, "rsa", ""), jwk(t, other, "pinned", "RS256"), jwk(t, ec, "ec", "ES256"), jwk(t, ec384, "ec384", ""), jwk(t, ed, "ed", ""))
	file := issuerAt(p.URL, "    algorithms: [RS256, PS256, ES256, ES384, ES512, EdDSA]\n    leeway: 10s\n    allow: [{tables: [wallets], verbs: [read]}]\n")
	a := authenticator(t, access.Config{Policy: policy(t, file), Burst: 1000})
	t.Cleanup(a.Close)

	der, err := x509.MarshalPKIXPublicKey(rsaKey.Public())
	if err != nil {
		t.Fatal(err)
	}
	published := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	good := claimsAt(now, nil)
	is := func(changes jwt.MapClaims) string { return sign(t, ed, "EdDSA", "ed", claimsAt(now, changes)) }
	raw := func(payload string) string {
		return signed(t, ed, map[string]any{"alg": "EdDSA", "kid": "ed"}, payload)
	}
	const head = tokenHead
	valid := is(nil)
	_, rest, _ := strings.Cut(valid, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	const no, yes = fence.CodeUnauthenticated, fence.CodeAccepted
	for _, c := range []tokenCase{
		{"RS256", sign(t, rsaKey, "RS256", "rsa", good), yes, ""},
		{"PS256", sign(t, rsaKey, "PS256", "rsa", good), yes, ""},
		{"ES256", sign(t, ec, "ES256", "ec", good), yes, ""},
		{"ES384", sign(t, ec384, "ES384", "ec384", good), yes, ""},
		{"EdDSA", valid, yes, ""},
		{"NoKidOneKey", sign(t, ed, "EdDSA", "", good), yes, ""},
		{"NoKidTwoKeys", sign(t, rsaKey, "RS256", "", good), no, "several keys"},

		{"AlgorithmNotPinned", sign(t, rsaKey, "RS512", "rsa", good), no, "does not sign with this algorithm"},
		{"AlgorithmOfTheKey", sign(t, other, "PS256", "pinned", good), no, "no key of the issuer"},
		{"CurveOfTheAlgorithm", sign(t, ec, "ES256", "ec384", good), no, "no key of the issuer"},
		{"PublicKeyAsSecret", sign(t, published, "HS256", "rsa", good), no, "signing method HS256 is invalid"},
		{"PublicBytesAsSecret", sign(t, der, "HS256", "rsa", good), no, "signing method HS256 is invalid"},
		{"None", signed(t, nil, map[string]any{"alg": "none", "kid": "rsa"}, head+"}"), no, "signing method none is invalid"},
		{"NoneInCapitals", signed(t, nil, map[string]any{"alg": "NONE", "kid": "rsa"}, head+"}"), no, "alg"},
		{"NoAlgorithm", signed(t, nil, map[string]any{"kid": "rsa"}, head+"}"), no, "alg"},
		{"NoSignature", strings.TrimSuffix(valid, signature), no, "signature is invalid"},
		{"UnknownKid", sign(t, ed, "EdDSA", "gone", good), no, "no key of the issuer"},
		{"OtherKeysKid", sign(t, rsaKey, "RS256", "pinned", good), no, "signature is invalid"},
		{"KidIsNumber", signed(t, ed, map[string]any{"alg": "EdDSA", "kid": 1}, head+"}"), no, "kid that is no string"},
		{"KeyInTheToken", signed(t, edKey(t), map[string]any{"alg": "EdDSA", "kid": "ed", "jwk": map[string]any{"kty": "OKP"}}, head+"}"), no, "signature is invalid"},
		{"Critical", signed(t, ed, map[string]any{"alg": "EdDSA", "kid": "ed", "crit": []string{"exp"}}, head+"}"), no, "crit"},
		{"Signature", valid[:len(valid)-3] + "AAA", no, "signature is invalid"},
		{"SignatureTwoWays", valid[:len(valid)-1] + sibling(valid[len(valid)-1]), no, "base64"},
		{"PayloadOfAnother", strings.Replace(valid, payload, strings.Split(is(jwt.MapClaims{"sub": "root"}), ".")[1], 1), no, "signature is invalid"},
		{"Padding", valid + "=", no, "base64"},
		{"OnlyDots", "..", no, "not valid"},
		{"FourParts", valid + ".x", no, "not valid"},

		{"OtherIssuer", is(jwt.MapClaims{"iss": issuerName + "x"}), no, "issuer is none"},
		{"NoIssuer", is(jwt.MapClaims{"iss": nil}), no, "issuer is none"},
		{"IssuerIsList", is(jwt.MapClaims{"iss": []string{issuerName}}), no, "issuer is none"},
		{"SecondAudience", is(jwt.MapClaims{"aud": []string{"x", "other"}}), yes, ""},
		{"OtherAudience", is(jwt.MapClaims{"aud": "fencegate2"}), no, "another audience"},
		{"OtherAudiences", is(jwt.MapClaims{"aud": []string{"x", "y"}}), no, "another audience"},
		{"NoAudience", is(jwt.MapClaims{"aud": nil}), no, "another audience"},
		{"AudienceIsNumber", is(jwt.MapClaims{"aud": 1}), no, "another audience"},

		{"Expired", is(jwt.MapClaims{"exp": now.Add(-11 * time.Second).Unix()}), no, "has expired"},
		{"ExpiredWithinLeeway", is(jwt.MapClaims{"exp": now.Add(-5 * time.Second).Unix()}), yes, ""},
		{"NotYet", is(jwt.MapClaims{"nbf": now.Add(15 * time.Second).Unix()}), no, "not valid yet"},
		{"NotYetWithinLeeway", is(jwt.MapClaims{"nbf": now.Add(5 * time.Second).Unix()}), yes, ""},
		{"IssuedInTheFuture", is(jwt.MapClaims{"iat": now.Add(time.Minute).Unix()}), no, "not valid yet"},
		{"NoIssueTime", is(jwt.MapClaims{"iat": nil}), yes, ""},
		{"FractionOfASecond", is(jwt.MapClaims{"exp": float64(now.Unix()) + 100.5}), yes, ""},
		{"NoEnd", is(jwt.MapClaims{"exp": nil}), no, "no exp"},
		{"EndIsText", is(jwt.MapClaims{"exp": "9999999999"}), no, "exp is no time"},
		{"EndIsTooLarge", raw(strings.Replace(head, "9999999999", "1e300", 1) + "}"), no, "exp is no time"},
		{"EndIsNegative", is(jwt.MapClaims{"exp": -1}), no, "exp is no time"},
		{"BeginIsTooLarge", raw(head + `,"nbf":1e300}`), no, "nbf is no time"},
		{"BeginIsNull", raw(head + `,"nbf":null}`), no, "nbf is no time"},

		{"NoSubject", is(jwt.MapClaims{"sub": nil}), no, "sub names nobody"},
		{"EmptySubject", is(jwt.MapClaims{"sub": ""}), no, "sub names nobody"},
		{"SubjectIsNumber", is(jwt.MapClaims{"sub": 7}), no, "sub names nobody"},
		{"LongSubject", is(jwt.MapClaims{"sub": strings.Repeat("x", 256-len(issuerName))}), no, "sub names nobody"},
		{"ControlInSubject", is(jwt.MapClaims{"sub": "a\nb"}), no, "sub names nobody"},
		{"SubjectInCapitals", raw(head + `,"SUB":"root"}`), yes, ""},
		{"SubjectTwice", raw(head + `,"sub":"alice"}`), no, "given twice"},
		{"TwiceBelow", raw(head + `,"x":{"a":1,"a":2}}`), no, "given twice"},
		{"ZeroByte", raw(head + `,"x":["a\u0000"]}`), no, "zero byte"},
		{"ZeroByteInName", raw(head + `,"x":{"\u0000":1}}`), no, "zero byte"},
		{"HalfACharacter", raw(head + `,"x":"\ud83d"}`), no, "half a character"},
		{"WholeCharacter", raw(head + `,"x":"\ud83d\ude00 \\ud83d"}`), yes, ""},
		{"NotUTF8", raw(head + ",\"x\":\"\xff\"}"), no, "not UTF-8"},
		{"HugeNumber", raw(head + `,"x":1e999}`), no, "too large"},
		{"DeepClaims", raw(head + `,"x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "}"), no, "too deep"},
		{"SomethingBehind", raw(head + `} {}`), no, "follows the claims"},
		{"NoObject", raw(`["iss"]`), no, "not valid"},
		{"Null", raw(`null`), no, "issuer is none"},
		{"LargestToken", padded(t, ed, 8192), yes, ""},
		{"TooLarge", padded(t, ed, 8193), no, "at most 512 bytes (a JWT of an issuer: 8192)"},
	} {
		t.Run(c.name, func(t *testing.T) { c.check(t, a) })
	}
}

// sibling is another last character of a base64 text of the same bytes: of a signature's 64 bytes it has four bits that count.
func sibling(last byte) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(alphabet[strings.IndexByte(alphabet, last)^1])
}

// padded makes a token of a size: base64 has no texts of some lengths, so that the header may have to help.
func padded(t *testing.T, key any, size int) string {
	t.Helper()
	for filler := range 4 {
		for n := size * 3 / 4; n > size/2; n-- {
			header := map[string]any{"alg": "EdDSA", "kid": "ed", "x": strings.Repeat("x", filler)}
			token := signed(t, key, header, tokenHead+`,"x":"`+strings.Repeat("x", n)+`"}`)
			if len(token) == size {
				return token
			}
			if len(token) < size {
				break
			}
		}
	}
	t.Fatal("no token of this size")
	return ""
}

func decoded(t *testing.T, part string) string {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestJWTTellsWhoItIs(t *testing.T) {
	now := time.Now()
	ed := edKey(t)
	p := newIDP(t, jwk(t, ed, "ed", ""))
	file := issuerAt(p.URL, `    database_role_claim: role
    database_roles: [reader, writer]
    allow: [{tables: [wallets], verbs: [read], columns: [owner]}]
principals:
  - name: `+issuerName+`#root
    admin: true
    database_role: owner
    allow: [{tables: ["*"], verbs: [write]}]
  - name: `+issuerName+`#none
  - {name: static, secret_sha256: `+sum("x")+`, claims: {sub: s}}
`)
	a := authenticator(t, access.Config{Policy: policy(t, file)})
	t.Cleanup(a.Close)
	read := gateway.Action{Verb: gateway.VerbRead, Schema: "public", Table: "wallets"}
	write := gateway.Action{Verb: gateway.VerbWrite, Schema: "public", Table: "wallets"}
	for _, c := range []struct {
		sub, role string
		code      fence.Code
		as        string
		may       []gateway.Action
		mayNot    []gateway.Action
	}{
		{"alice", "reader", ok, "reader", []gateway.Action{read}, []gateway.Action{write}},
		{"bob", "writer", ok, "writer", []gateway.Action{read}, []gateway.Action{write}},
		{"alice", "owner", fence.CodeForbidden, "", nil, nil},
		{"alice", "", fence.CodeForbidden, "", nil, nil},
		{"root", "reader", ok, "owner", []gateway.Action{write, {Verb: gateway.VerbAdmin, Lease: "l"}}, []gateway.Action{read}},
		{"none", "reader", ok, "reader", nil, []gateway.Action{read, write}},
	} {
		claims := claimsAt(now, jwt.MapClaims{"sub": c.sub, "role": c.role, "<n>": 9007199254740993})
		token := sign(t, ed, "EdDSA", "ed", claims)
		who, err := a.Authenticate(request(here, "Bearer "+token))
		if fence.CodeOf(err) != c.code {
			t.Fatalf("%s as %s: %v", c.sub, c.role, err)
		}
		if err != nil {
			continue
		}
		if who.Principal() != issuerName+"#"+c.sub || who.Identity().Role != c.as {
			t.Errorf("%s as %s: %s, %+v", c.sub, c.role, who.Principal(), who.Identity())
		}
		for _, action := range c.may {
			if !who.May(action) {
				t.Errorf("%s may not %+v", c.sub, action)
			}
		}
		for _, action := range c.mayNot {
			if who.May(action) {
				t.Errorf("%s may %+v", c.sub, action)
			}
		}
		if want := decoded(t, strings.Split(token, ".")[1]); who.Identity().Claims != want {
			t.Errorf("claims %s, want those of the token: %s", who.Identity().Claims, want)
		}
		again, err := a.Authenticate(request(here, "Bearer "+token))
		if err != nil || again != who {
			t.Errorf("the token is checked each time: %v, %v", again, err)
		}
	}
	if a.Failed() != 0 {
		t.Errorf("%d failures: a role that is not allowed is no failed login", a.Failed())
	}
	if p := policy(t, file); p.Lookup("static").Identity().Claims != `{"sub":"s"}` || p.Subject("static") != nil || p.Subject(issuerName+"#x") == nil || p.Subject("https://x#x") != nil || p.Subject(issuerName+"#") != nil {
		t.Error("subjects are told wrongly")
	}
}

// An entry for a subject is for whom the issuer says so, and not for a certificate with its name.
func TestSubjectComesWithoutCertificate(t *testing.T) {
	p := newIDP(t)
	file := strings.Replace(issuerAt(p.URL, "principals:\n  - name: CN=x#y\n  - name: CN=z#y\n"), issuerName, "CN=x", 1)
	a := authenticator(t, access.Config{Policy: policy(t, file)})
	t.Cleanup(a.Close)
	for name, want := range map[string]fence.Code{"x#y": wrong, "z#y": ok} {
		if _, err := a.Authenticate(withCertificate(request(here), pkix.Name{CommonName: name}, true)); fence.CodeOf(err) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What has two dots is a secret in a file without issuers, and else never.
func TestSecretWithDots(t *testing.T) {
	const principals = "principals:\n  - {name: dots, secret_sha256: "
	a := authenticator(t, access.Config{Policy: policy(t, principals+sum("a.b.c")+"}\n")})
	if _, err := a.Authenticate(request(here, "Bearer a.b.c")); err != nil {
		t.Error(err)
	}
	p := newIDP(t)
	b := authenticator(t, access.Config{Policy: policy(t, principals+sum("a.b.c")+"}\n  - {name: more, secret_sha256: "+sum("a.b.c.d")+"}\n"+issuerAt(p.URL, ""))})
	t.Cleanup(b.Close)
	if _, err := b.Authenticate(request(here, "Bearer a.b.c")); fence.CodeOf(err) != fence.CodeUnauthenticated {
		t.Error(err)
	}
	if _, err := b.Authenticate(request(here, "Bearer a.b.c.d")); err != nil {
		t.Error(err)
	}
	var coded *fence.Error
	_, err := b.Authenticate(request(here, "Bearer "+strings.Repeat("x", 600)))
	if !errors.As(err, &coded) || coded.Field != "Authorization" {
		t.Error(err)
	}
}
