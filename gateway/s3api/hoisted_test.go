package s3api_test

import (
	"encoding/xml"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencegate/fencegate/fence"
)

// presign makes a request with pairs of headers, whose signature is in its URL.
func (w *world) presign(method, target, body string, headers ...string) *http.Request {
	w.t.Helper()
	separator := "?"
	if strings.Contains(target, "?") {
		separator = "&"
	}
	r := w.request(method, target+separator+"X-Amz-Expires=60", body, headers...)
	signed, _, err := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }).PresignHTTP(
		w.t.Context(), credentialsOf(accessKey), r, unsigned, "s3", "us-east-1", time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	return w.request(method, strings.TrimPrefix(signed, w.url), body, headers...)
}

// answered sends a request and returns the status of its answer, S3's code and the field that it names.
func (w *world) answered(r *http.Request) (status int, code, field string) {
	w.t.Helper()
	answer := w.send(r)
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	var refusal struct{ Code, Field string }
	_ = xml.Unmarshal(text, &refusal) // nothing of an answer without XML
	return answer.StatusCode, refusal.Code, refusal.Field
}

// What of S3's headers stands in a URL, where nothing looks for it, is refused rather than lost: it changes nothing, whoever signs the request how.
func TestHoistedHeaders(t *testing.T) {
	w := newWorld(t)
	g := w.grant("report:a")
	w.mustPut("a", "one", g.First())
	token := "X-Fence-Token=" + (g.First() + 1).String()
	for _, tt := range []struct{ name, value string }{
		{"x-amz-copy-source", "reports/b"}, {"x-amz-checksum-crc32", "AAAAAA=="}, {"X-Amz-Checksum-Sha256", sha256Of("x")}, {"content-md5", md5Base64("two")},
		{"Content-MD5", md5Base64("two")}, {"x-amz-tagging", "a=b"}, {"x-amz-acl", "public-read"}, {"x-amz-object-lock-mode", "GOVERNANCE"},
		{"X-Amz-Server-Side-Encryption", "AES256"}, {"x-amz-storage-class", "GLACIER"}, {"x-amz-trailer", "x-amz-checksum-crc32"},
		{"x-amz-content-sha256", sha256HexOf("x")}, {"x-amz-write-offset-bytes", "3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			query := "?" + token + "&" + url.QueryEscape(tt.name) + "=" + url.QueryEscape(tt.value)
			for how, r := range map[string]*http.Request{"URL": w.presign(http.MethodPut, "/reports/a"+query, "two"), "header": w.signed(http.MethodPut, "/reports/a"+query, "two")} {
				if status, code, field := w.answered(r); status != http.StatusNotImplemented || code != "NotImplemented" || field != tt.name {
					t.Errorf("signed in the %s: %d %s %s", how, status, code, field)
				}
			}
		})
	}
	t.Run("Semicolon", func(t *testing.T) {
		// What net/url drops of a query the signature covers all the same.
		r := w.presign(http.MethodPut, "/reports/a?"+token+"&x-amz-tagging=a%3Bb", "two")
		r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "a%3Bb", "a;b", 1)
		if status, _, field := w.answered(r); status != http.StatusNotImplemented || field != "x-amz-tagging" {
			t.Errorf("%d %s", status, field)
		}
	})
	if got := w.get("a"); got != "one" {
		t.Fatalf("the object is %q", got)
	}
	t.Run("Harmless", func(t *testing.T) {
		query := "?" + token + "&x-amz-checksum-mode=ENABLED&x-amz-sdk-checksum-algorithm=CRC32&x-id=PutObject&X-Amz-Content-Sha256=UNSIGNED-PAYLOAD" +
			"&x-amz-user-agent=some-sdk%2F1&X-Amz-Meta-By=me"
		if status, code, field := w.answered(w.presign(http.MethodPut, "/reports/a"+query, "two")); status != http.StatusOK || w.get("a") != "two" {
			t.Errorf("%d %s %s", status, code, field)
		}
		head, err := w.client().HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: aws.String("reports"), Key: aws.String("a")})
		if err != nil || head.Metadata["by"] != "me" {
			t.Errorf("%+v %v", head, err)
		}
	})
}

// The hash that comes with a presigned URL is checked like any other.
func TestPresignedHash(t *testing.T) {
	w := newWorld(t)
	put := func(sent string, token fence.Token) int {
		status, _, _ := w.answered(w.presign(http.MethodPut, "/reports/a?X-Fence-Token="+token.String(), "one", "X-Amz-Content-Sha256", sent))
		return status
	}
	g := w.grant("report:a")
	for _, sent := range []string{sha256HexOf("other"), "nonsense"} {
		if got := put(sent, g.First()); got != http.StatusBadRequest {
			t.Errorf("%s: %d", sent, got)
		}
	}
	w.absent(t, "a")
	if got := put(sha256HexOf("one"), g.First()); got != http.StatusOK || w.get("a") != "one" {
		t.Error(got)
	}
}

// A body that says it comes in chunks is refused wherever it would be stored with their framing.
func TestFramingIsNotStored(t *testing.T) {
	w := newWorld(t)
	g := w.grant("report:a")
	framed := chunks("0123456789", 5) + "\r\n"
	u := w.begin(t, g.First()+1)
	token := []string{"X-Fence-Token", g.First().String()}
	signed := func(path, encoding, hash string) *http.Request {
		return w.signed(http.MethodPut, path, framed, append(token, "Content-Encoding", encoding, "X-Amz-Content-Sha256", hash)...)
	}
	part := "/reports/a?partNumber=1&uploadId=" + *u.id
	for name, r := range map[string]*http.Request{
		"Unsigned":        signed("/reports/a", "aws-chunked", unsigned),
		"Hash":            signed("/reports/a", "aws-chunked", sha256HexOf(framed)),
		"List":            signed("/reports/a", "gzip, AWS-Chunked", unsigned),
		"Presigned":       w.presign(http.MethodPut, "/reports/a", framed, append(token, "Content-Encoding", "aws-chunked")...),
		"PresignedStream": w.presign(http.MethodPut, "/reports/a", framed, append(token, "X-Amz-Content-Sha256", unsignedTrailer, "Content-Encoding", "aws-chunked")...),
		"PresignedEcdsa":  w.presign(http.MethodPut, "/reports/a", framed, append(token, "X-Amz-Content-Sha256", "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD")...),
		"Part":            signed(part, "aws-chunked", unsigned),
		"PresignedPart":   w.presign(http.MethodPut, part, framed, "X-Amz-Content-Sha256", unsignedTrailer),
	} {
		t.Run(name, func(t *testing.T) {
			if status, code, field := w.answered(r); status != http.StatusBadRequest || code != "InvalidRequest" || field != "Content-Encoding" && field != "X-Amz-Content-Sha256" {
				t.Errorf("%d %s %s", status, code, field)
			}
		})
	}
	w.absent(t, "a")
	if parts, err := w.client().ListParts(t.Context(), &s3.ListPartsInput{Bucket: aws.String("reports"), Key: aws.String("a"), UploadId: u.id}); err != nil || len(parts.Parts) > 0 {
		t.Errorf("%+v %v", parts, err)
	}
}
