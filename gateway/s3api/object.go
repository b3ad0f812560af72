package s3api

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/s3err"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
)

const (
	defaultContentType = "binary/octet-stream"
	maxContentHeader   = 1024
	etagDigits         = 32
	metaPrefix         = "x-amz-meta-"
	// maxField bounds the name of what is refused.
	maxField = 100
)

// etagOf is an object's ETag, with its quotes. Where none is kept it has the form of that of an upload in parts, so that no client takes it for
// an MD5.
func etagOf(etag, sha256 string, version fence.Token) string {
	switch {
	case etag != "":
		return `"` + etag + `"`
	case len(sha256) >= etagDigits:
		return `"` + sha256[:etagDigits] + `-1"`
	}
	return fmt.Sprintf(`"%0*x-1"`, etagDigits, int64(version))
}

func tagOf(o fence.Object) string { return etagOf(o.ETag, o.SHA256, o.Version) }

// headerOf reads what is kept beside an object's bytes, of which metadata has a limit. What cannot be kept is refused, rather than lost.
func headerOf(r *http.Request, maxMeta int) (fence.ObjectHeader, error) {
	var kept fence.ObjectHeader
	for _, name := range unkeptHeaders() {
		if r.Header.Get(name) != "" {
			return kept, unkept(name, "as a header")
		}
	}
	if acl := r.Header.Get("X-Amz-Acl"); acl != "" && acl != "private" && !strings.HasPrefix(acl, "bucket-owner-") {
		return kept, unkept("X-Amz-Acl", "other than private")
	}
	if class := r.Header.Get("X-Amz-Storage-Class"); class != "" && class != string(types.StorageClassStandard) {
		return kept, unkept("X-Amz-Storage-Class", "other than STANDARD")
	}
	for _, f := range []struct {
		name  string
		value *string
	}{
		{"Content-Type", &kept.ContentType},
		{"Content-Encoding", &kept.ContentEncoding},
		{"Content-Disposition", &kept.ContentDisposition},
		{"Cache-Control", &kept.CacheControl},
	} {
		*f.value = strings.Join(r.Header.Values(f.name), ", ")
		if len(*f.value) > maxContentHeader || !printable(*f.value) {
			return kept, fence.Errorf(fence.CodeInvalidRequest, "%s has at most %d bytes of printable UTF-8", f.name, maxContentHeader).In(f.name)
		}
	}
	kept.ContentType = cmp.Or(kept.ContentType, defaultContentType)
	kept.ContentEncoding = withoutChunks(kept.ContentEncoding)
	size := 0
	for name, lines := range r.Header {
		short, found := strings.CutPrefix(strings.ToLower(name), metaPrefix)
		if !found || short == metaTokenName {
			continue
		}
		value := strings.Join(lines, ",")
		if !gateway.IsHeaderName(short) || !printable(value) {
			return kept, refusal{
				outcome{"InvalidArgument", http.StatusBadRequest},
				fence.Errorf(fence.CodeInvalidRequest, "metadata has names as headers have them, and values of printable UTF-8: %.100q", name).In(name[:min(len(name), maxField)]),
			}
		}
		if size += len(short) + len(value); size > maxMeta {
			return kept, s3err.GetMetadataTooLargeErr(size, maxMeta)
		}
		if kept.Meta == nil {
			kept.Meta = map[string]string{}
		}
		kept.Meta[short] = value
	}
	return kept, nil
}

// unkept refuses what a header, or its name somewhere else, asks for.
func unkept(name, how string) error {
	name = name[:min(len(name), maxField)]
	return refusal{
		outcome{"NotImplemented", http.StatusNotImplemented},
		fence.Errorf(fence.CodeMethodNotAllowed, "%q %s is not implemented: see what of S3 this gateway has", name, how).In(name),
	}
}

// unkeptHeaders ask for what there is not.
func unkeptHeaders() []string {
	return []string{
		"Content-Language", "Expires", "X-Amz-Website-Redirect-Location", "X-Amz-Tagging", "X-Amz-Object-Lock-Mode", "X-Amz-Object-Lock-Legal-Hold",
		"X-Amz-Object-Lock-Retain-Until-Date", "X-Amz-Server-Side-Encryption", "X-Amz-Server-Side-Encryption-Customer-Algorithm", "X-Amz-Grant-Full-Control",
		"X-Amz-Grant-Read", "X-Amz-Grant-Read-Acp", "X-Amz-Grant-Write-Acp", "X-Amz-Write-Offset-Bytes",
	}
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}
