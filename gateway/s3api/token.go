package s3api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/fencegate/fencegate/fence"
)

const (
	headerToken = "X-Fence-Token"
	// metaToken is the token as metadata, and metaTokenName the metadata's name. It is not kept.
	metaToken     = "X-Amz-Meta-Fence-Token"
	metaTokenName = "fence-token"
)

// errNoToken refuses a write without a token of an object of which some may be known.
func errNoToken(known fence.State) error {
	if known.Lease == "" {
		return fence.Errorf(fence.CodeTokenRequired, "acquire the lease that protects this and send one of its tokens, as metadata %s or as the header %s", metaTokenName, headerToken)
	}
	e := fence.Errorf(fence.CodeTokenRequired, "acquire the lease %s and send one of its tokens, as metadata %s or as the header %s", known.Lease, metaTokenName, headerToken)
	e.State = &known
	return e
}

// tokenOf reads the token of a request, 0 when it has none. Whoever gets between client and gateway must not be able to change it, so it has to
// be signed.
func tokenOf(r *http.Request) (fence.Token, error) {
	var token fence.Token
	signed := signedHeaders(r)
	for _, name := range []string{metaToken, headerToken} {
		lines := r.Header.Values(name)
		switch {
		case len(lines) == 0:
			continue
		case len(lines) > 1:
			return 0, fence.Errorf(fence.CodeInvalidToken, "one %s line is expected, got %d", name, len(lines)).In(name)
		case !slices.Contains(signed, strings.ToLower(name)):
			return 0, fence.Errorf(fence.CodeInvalidToken, "%s is not among the signed headers", name).In(name)
		}
		t, err := fence.ParseToken(lines[0])
		if err != nil {
			return 0, err
		}
		if token != 0 && t != token {
			return 0, fence.Errorf(fence.CodeInvalidToken, "%s and %s differ", metaToken, headerToken).In(name)
		}
		token = t
	}
	return token, nil
}

// signedHeaders are the names of the headers that the signature covers, in lower case.
func signedHeaders(r *http.Request) []string {
	list := r.URL.Query().Get("X-Amz-SignedHeaders")
	if auth := r.Header.Get("Authorization"); auth != "" {
		_, list, _ = strings.Cut(auth, "SignedHeaders=")
		list, _, _ = strings.Cut(list, ",")
	}
	return strings.Split(strings.TrimSpace(list), ";")
}
