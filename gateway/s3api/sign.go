package s3api

import (
	"net/http"
	"strings"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/s3api/middlewares"
	"github.com/versity/versitygw/s3api/utils"
	"github.com/versity/versitygw/s3err"

	"github.com/fencegate/fencegate/fence"
)

// region is the one that answers name. Signatures may be for any: it is nothing but a part of what is signed.
const region = "us-east-1"

const (
	signedTime = "20060102T150405Z"
	// maxSkew is how far ahead a presigner's clock may be, as for requests that are signed in a header.
	maxSkew = 15 * time.Minute
)

// accounts makes versitygw's accounts of keys. To it everybody is an administrator: what a caller may do is asked by our backend.
type accounts struct {
	auth.IAMService // nil: nothing else is asked
	keys            Keys
}

func (f *Front) iam() auth.IAMService { return accounts{keys: f.cfg.Keys} }

// GetUserAccount returns the account of an access key.
func (a accounts) GetUserAccount(access string) (auth.Account, error) {
	secret, _, found := a.keys.Key(access)
	if !found || secret == "" {
		return auth.Account{}, auth.ErrNoSuchUser
	}
	return auth.Account{Access: access, Secret: secret, Role: auth.RoleAdmin}, nil
}

// authenticate checks the signature, names the caller and what it asks for, and puts the checks of the body before its reader.
func (f *Front) authenticate(r route) fiber.Handler {
	body := r.body
	return func(ctx fiber.Ctx) error {
		c := callOf(ctx.RequestCtx())
		if err := f.verify(ctx, body == bodyObject); err != nil {
			f.cfg.Keys.NoteFailed()
			return c.fail(err)
		}
		account, _ := utils.ContextKeyAccount.Get(ctx).(auth.Account)
		secret, caller, found := f.cfg.Keys.Key(account.Access)
		if !found || secret != account.Secret || caller == nil || caller.Principal() == "" {
			// The key was taken away while the signature was checked.
			f.cfg.Keys.NoteFailed()
			return c.fail(s3err.GetInvalidAccessKeyIdErr(account.Access))
		}
		c.caller, c.signed = caller, signedHeaders(ctx.RequestCtx())
		c.op, c.verb = r.op, r.verb
		c.presigned = utils.IsPresignedURLAuth(ctx)
		if err := c.takeHoisted(ctx.RequestCtx()); err != nil {
			return c.fail(err)
		}
		utils.ContextKeyIsRoot.Set(ctx, false)
		utils.ContextKeyParsedAcl.Set(ctx, auth.ACL{Owner: account.Access})
		switch body {
		case bodyNone:
			return nil
		case bodyObject:
			if err := c.framing(); err != nil {
				return c.fail(err)
			}
		}
		return middlewares.VerifyChecksums(body == bodyObject, body == bodyXML, false)(ctx)
	}
}

func (f *Front) verify(ctx fiber.Ctx, stream bool) error {
	c := callOf(ctx.RequestCtx())
	if signedTwice(ctx.RequestCtx()) {
		return fence.Errorf(fence.CodeInvalidRequest, "the request has more than one signature").In("Authorization")
	}
	// Nobody can sign as versitygw's administrator: neither its key nor its secret is ever told.
	root, in := middlewares.RootUserConfig{Access: f.nobody, Secret: f.nobody}, regionOf(c)
	if in == "" && signedAsVersion2(c.r) {
		return fence.Errorf(fence.CodeUnauthenticated, "the request is signed with AWS Signature Version 2, of which there is none here: sign it with Version 4")
	}
	if in == "" {
		return fence.Errorf(fence.CodeUnauthenticated, "the request is not signed with AWS Signature Version 4")
	}
	if at, err := time.Parse(signedTime, c.r.URL.Query().Get("X-Amz-Date")); err == nil && time.Until(at) > maxSkew {
		// versitygw looks at the end alone: whoever signs for a later year could have a URL that is good until then.
		return fence.Errorf(fence.CodeUnauthenticated, "the request is signed for %s, and not valid yet", at.Format(time.RFC3339))
	}
	if err := middlewares.VerifyPresignedV4Signature(root, f.iam(), in, stream)(ctx); err != nil {
		return err
	}
	return middlewares.VerifyV4Signature(root, f.iam(), in, stream, ctx.Method() != fiber.MethodHead, false)(ctx)
}

func signedAsVersion2(r *http.Request) bool {
	q := r.URL.Query()
	return q.Has("AWSAccessKeyId") && q.Has("Signature") || strings.HasPrefix(r.Header.Get("Authorization"), "AWS ")
}

// regionOf is the region that a request says it is signed for, empty when it is not signed.
func regionOf(c *call) string {
	scope := c.r.URL.Query().Get("X-Amz-Credential")
	if authorization := c.r.Header.Get("Authorization"); authorization != "" {
		_, scope, _ = strings.Cut(authorization, "Credential=")
		scope, _, _ = strings.Cut(scope, ",")
	}
	// An access key may contain slashes: key/date/region/service/aws4_request.
	parts := strings.Split(scope, "/")
	if len(parts) < 5 {
		return ""
	}
	return parts[len(parts)-3]
}
