package e2e

import (
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

const s3Reader = `  - name: reader
    s3_keys:
      - {access_key: reader-2026-01-key, secret_key: ` + s3Secret + `}
    secret_sha256: "0000000000000000000000000000000000000000000000000000000000000003"
    allow:
      - {buckets: [reports/pub/*], verbs: [read]}
`

// What S3's clients do is limited, counted and logged by the program as what comes over HTTP is, and under the rules of the same file.
func TestS3FrontSharesLimits(t *testing.T) {
	t.Parallel()
	s := testServers(t)
	file := filepath.Join(t.TempDir(), "auth.yaml")
	writeFile(t, file, s3Principals(s3Access)+s3Reader)
	p := startServe(t, s, "--auth-file="+file, "--s3-front-listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--max-object=1000", "--rate-reads=20/1h")
	protectBucket(t, s.database, "reports", "reports")
	client, reader, ctx := s3ClientOf(p.s3URL(), s3Access), s3ClientOf(p.s3URL(), "reader-2026-01-key"), t.Context()
	r, err := p.client().try(ctx, http.MethodPost, "/v1/leases/reports", strings.NewReader(`{"ttl":"1m"}`), "Authorization", "Bearer test", "Content-Type", "application/json")
	if err != nil {
		t.Fatal(err)
	}
	var g grant
	r.decode(t, &g)
	token := func(n int64) map[string]string { return map[string]string{"fence-token": itoa(g.Token + n)} }
	put := func(client *s3.Client, key string, size int, n int64) error {
		_, err := client.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String("reports"), Key: &key, Body: strings.NewReader(strings.Repeat("x", size)), Metadata: token(n)})
		return err
	}
	copyTo := func(client *s3.Client, key, from string, n int64) error {
		_, err := client.CopyObject(ctx, &s3.CopyObjectInput{Bucket: aws.String("reports"), Key: &key, CopySource: aws.String("reports/" + from), Metadata: token(n)})
		return err
	}
	get := func(client *s3.Client, key string) error {
		_, err := client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: aws.String("reports"), Key: &key})
		return err
	}
	upload, err := client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: aws.String("reports"), Key: aws.String("parts"), Metadata: token(0)})
	if err != nil {
		t.Fatal(err)
	}
	part := func(size int) error {
		_, err := client.UploadPart(ctx, &s3.UploadPartInput{Bucket: aws.String("reports"), Key: aws.String("parts"), UploadId: upload.UploadId, PartNumber: aws.Int32(1), Body: strings.NewReader(strings.Repeat("x", size))})
		return err
	}
	deleteAll := func(client *s3.Client) error {
		out, err := client.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: aws.String("reports"), Delete: &types.Delete{Objects: []types.ObjectIdentifier{{Key: aws.String("pub/a")}}}})
		if err == nil && len(out.Errors) == 1 {
			return errors.New(*out.Errors[0].Code)
		}
		return err
	}
	for _, tt := range []struct {
		name string
		err  error
		code string
	}{
		{"Put", put(client, "pub/a", 1000, 1), ""},
		{"TooLarge", put(client, "pub/a", 1001, 2), "EntityTooLarge"},
		{"PartTooLarge", part(1001), "EntityTooLarge"},
		{"Stale", put(client, "pub/a", 1, 0), "StaleFenceToken"},
		{"Copy", copyTo(client, "private", "pub/a", 1), ""},
		{"Read", get(client, "private"), ""},
		{"ReaderReads", get(reader, "pub/a"), ""},
		{"ReaderWrites", put(reader, "pub/a", 1, 5), "AccessDenied"},
		{"ReaderDeletes", deleteAll(reader), "AccessDenied"},
		{"ReaderCopies", copyTo(reader, "pub/b", "pub/a", 5), "AccessDenied"},
		{"UnknownKey", get(s3ClientOf(p.s3URL(), "nobody-2026-01-key"), "pub/a"), "Forbidden"},
	} {
		if got := s3Code(tt.err); got != tt.code || tt.err != nil && tt.code == "" {
			t.Errorf("%s: %v", tt.name, tt.err)
		}
	}
	list, err := reader.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: aws.String("reports")})
	if err != nil || len(list.Contents) != 1 || *list.Contents[0].Key != "pub/a" {
		t.Errorf("the reader's list: %+v %v", list, err)
	}
	for range 20 {
		if err = get(reader, "pub/a"); err != nil {
			break
		}
	}
	var answer *smithyhttp.ResponseError
	if !errors.As(err, &answer) || answer.HTTPStatusCode() != http.StatusServiceUnavailable || answer.Response.Header.Get("Retry-After") == "" {
		t.Errorf("one read too many: %v", err)
	}

	var text string
	for _, want := range []string{
		`fencegate_writes_total{outcome="accepted",store="objects",verb="put"} 1`, `fencegate_writes_total{outcome="too-large",store="objects",verb="put"} 1`,
		`fencegate_writes_total{outcome="too-large",store="objects",verb="upload"} 1`, `fencegate_writes_total{outcome="stale-token",store="objects",verb="put"} 1`,
		`fencegate_writes_total{outcome="accepted",store="objects",verb="copy"} 1`, `fencegate_writes_total{outcome="forbidden",store="objects",verb="delete"} 1`,
		`fencegate_reads_total{outcome="rate-limited",store="objects"} 1`, `fencegate_rate_limited_total{class="reads"} 1`,
		`fencegate_requests_rejected_total{api="objects",outcome="unauthenticated"} 1`, `fencegate_logins_failed_total{reason="credentials"} 1`,
		`fencegate_requests_in_flight{api="objects"} 0`,
	} {
		within(t, patience, want, func() bool {
			text = newWire(t, p.admin()).do("GET", "/metrics", "").body
			return strings.Contains(text, want+"\n")
		})
	}
	if strings.Contains(text, `verb="other"`) || strings.Contains(text, `in_flight{api="other"}`) {
		t.Error("something is counted as other")
	}
	found := false
	for line := range strings.Lines(p.stderr.String()) {
		var l struct {
			Msg, Code, Principal, Resource string
			Trace                          string `json:"trace_id"`
		}
		if json.Unmarshal([]byte(line), &l) == nil && l.Code == "stale-token" {
			found = l.Msg == "refused" && l.Principal == "exporter" && l.Resource == "objects/reports/pub/a" && len(l.Trace) == 32
		}
	}
	if !found {
		t.Errorf("the refusal is not logged:\n%s", p.stderr.String())
	}
}
