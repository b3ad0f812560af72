package s3api_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// A name of metadata is one that a header can have, wherever it comes from: one that cannot be sent back would break whoever reads the object.
func TestMetadataNames(t *testing.T) {
	w := newWorld(t)
	g := w.grant("report:a")
	for _, tt := range []struct{ name, value string }{
		{"a b", "x"}, {"a\r\nX-Evil: 1\r\nb", "x"}, {"a:b", "x"}, {"a(b", "x"}, {"é", "x"}, {"\x00", "x"}, {"", "x"}, {"a/b", "x"},
		{"a", "x\r\nX-Evil: 1"}, {"a", "\x00"}, {"a", "\x7f"}, {"a", "\xff"},
	} {
		t.Run(url.QueryEscape(tt.name+"="+tt.value), func(t *testing.T) {
			query := "?X-Fence-Token=" + g.First().String() + "&x-amz-meta-" + strings.ReplaceAll(url.QueryEscape(tt.name), "+", "%20") + "=" + strings.ReplaceAll(url.QueryEscape(tt.value), "+", "%20")
			status, code, field := w.answered(w.presign(http.MethodPut, "/reports/a"+query, "one"))
			if status != http.StatusBadRequest || code != "InvalidArgument" || !strings.HasPrefix(strings.ToLower(field), "x-amz-meta-") {
				t.Errorf("%d %s %q", status, code, field)
			}
			w.absent(t, "a")
		})
	}
	all := "!#$%&'*+-.^_`|~09az"
	if status, code, _ := w.answered(w.presign(http.MethodPut, "/reports/a?X-Fence-Token="+g.First().String()+"&x-amz-meta-"+url.QueryEscape(all)+"=x", "one")); status != http.StatusOK {
		t.Fatal(status, code)
	}
	head, err := w.client().HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: aws.String("reports"), Key: aws.String("a")})
	if err != nil || head.Metadata[all] != "x" {
		t.Errorf("%+v %v", head, err)
	}
}

// Names of metadata come back in lower case, as they stand on the wire: some clients make keys of them.
func TestMetadataInLowerCase(t *testing.T) {
	w := newWorld(t)
	meta := token(w.grant("report:a").First())
	meta["Foo-Bar"] = "Baz"
	if _, err := w.client().PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("reports"), Key: aws.String("a"), Body: strings.NewReader("one"), Metadata: meta}); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, w.head("GET", "/reports/a", unsigned)+"\r\n"); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for wire := bufio.NewScanner(conn); wire.Scan() && wire.Text() != ""; {
		if strings.HasPrefix(strings.ToLower(wire.Text()), "x-amz-meta-") {
			lines = append(lines, wire.Text())
		}
	}
	if len(lines) != 1 || lines[0] != "x-amz-meta-foo-bar: Baz" {
		t.Errorf("%q", lines)
	}
}

// A class of storage that there is not is refused, however an object is made; the one there is may be named.
func TestStorageClass(t *testing.T) {
	w := newWorld(t)
	g := w.grant("report:a")
	w.mustPut("a", "one", g.First())
	ctx, bucket, key, meta := t.Context(), aws.String("reports"), aws.String("a"), token(g.First()+1)
	_, put := w.client().PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: key, Body: strings.NewReader("two"), Metadata: meta, StorageClass: types.StorageClassGlacier})
	_, copied := w.client().CopyObject(ctx, &s3.CopyObjectInput{Bucket: bucket, Key: key, CopySource: aws.String("reports/a"), Metadata: meta, StorageClass: types.StorageClassStandardIa})
	_, begun := w.client().CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: bucket, Key: key, Metadata: meta, StorageClass: types.StorageClassGlacier})
	for name, err := range map[string]error{"put": put, "copy": copied, "upload in parts": begun} {
		if status(err) != http.StatusNotImplemented || code(err) != "NotImplemented" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.client().PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: key, Body: strings.NewReader("two"), Metadata: meta, StorageClass: types.StorageClassStandard}); err != nil {
		t.Error(err)
	}
}

// Who signs as S3 did before Version 4 is told so.
func TestSignatureVersion2(t *testing.T) {
	w := newWorld(t)
	for where, r := range map[string]*http.Request{
		"URL":    w.request(http.MethodGet, "/reports/a?AWSAccessKeyId="+accessKey+"&Signature=c2ln&Expires=1999999999", ""),
		"header": w.request(http.MethodGet, "/reports/a", "", "Authorization", "AWS "+accessKey+":c2ln"),
	} {
		if text := readAll(t, w.send(r)); !strings.Contains(text, "<Code>AccessDenied</Code>") || !strings.Contains(text, "Version 2") {
			t.Errorf("in the %s: %s", where, text)
		}
	}
}

func readAll(t *testing.T, answer *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
