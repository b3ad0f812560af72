package s3api

import (
	"strings"

	"github.com/valyala/fasthttp"
)

// takeHoisted makes headers of a token and of metadata that stand in the URL, where some clients put them when they presign: the signature covers
// all of the URL. Whatever else of S3's headers stands there is refused, as nothing looks for it there: a checksum would not be checked, and a copy
// would be a put.
func (c *call) takeHoisted(ctx *fasthttp.RequestCtx) error {
	// In what the signature was checked for: net/url reads some queries otherwise.
	for name, value := range ctx.QueryArgs().All() {
		short := strings.ToLower(string(name))
		switch {
		case strings.HasPrefix(short, metaPrefix), short == strings.ToLower(headerToken):
			c.r.Header.Add(string(name), string(value))
			c.signed = append(c.signed, short)
		case short == "x-amz-content-sha256" && string(value) == unsignedPayload:
		case short == "content-md5", strings.HasPrefix(short, "x-amz-") && !harmless(short):
			return unkept(string(name), "as a parameter of the URL")
		}
	}
	return nil
}

// harmless tells parameters of a signature, and those which change nothing of what is done.
func harmless(name string) bool {
	switch name {
	case "x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-expires", "x-amz-signedheaders", "x-amz-signature", "x-amz-security-token",
		"x-amz-checksum-mode", "x-amz-sdk-checksum-algorithm", "x-amz-user-agent":
		return true
	}
	return false
}
