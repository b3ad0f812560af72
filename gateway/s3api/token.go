package s3api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"
	"github.com/versity/versitygw/s3api/utils"

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
func tokenOf(r *http.Request, signed []string) (fence.Token, error) {
	var token fence.Token
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

// signedHeaders are the names of the headers that the signature covers, in lower case. They are read as they were when the signature was
// checked: two readings of one request could tell different lists.
func signedHeaders(ctx *fasthttp.RequestCtx) []string {
	list := string(ctx.QueryArgs().Peek("X-Amz-SignedHeaders"))
	if authorization := ctx.Request.Header.Peek("Authorization"); len(authorization) > 0 {
		data, err := utils.ParseAuthorization(string(authorization))
		if err != nil {
			return nil
		}
		list = data.SignedHeaders
	}
	return strings.Split(strings.TrimSpace(list), ";")
}

// signedTwice reports a request that has more than one signature, or part of one more than once: only one is checked, and the other could
// say anything.
func signedTwice(ctx *fasthttp.RequestCtx) bool {
	inHeader := len(ctx.Request.Header.PeekAll("Authorization"))
	inQuery := map[string]int{}
	for name := range ctx.QueryArgs().All() {
		switch name := strings.ToLower(string(name)); name {
		case "x-amz-algorithm", "x-amz-credential", "x-amz-signature", "x-amz-signedheaders", "x-amz-expires", "x-amz-date", "x-amz-security-token":
			inQuery[name]++
		}
	}
	for _, n := range inQuery {
		if n > 1 || inHeader > 0 {
			return true
		}
	}
	return inHeader > 1
}
