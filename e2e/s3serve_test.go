package e2e

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
)

const (
	s3Access = "exporter-2026-01"
	s3Secret = "0123456789abcdefghijklmnopqrstuv"
)

func s3Principals(access string) string {
	return `principals:
  - name: exporter
    secret_sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    s3_keys:
      - {access_key: ` + access + `, secret_key: ` + s3Secret + `}
    allow:
      - {leases: ["*"], verbs: [lease]}
      - {buckets: [reports], verbs: [read, write]}
`
}

// s3URL is where the program says that its S3 front is.
func (p *program) s3URL() string {
	p.t.Helper()
	line := regexp.MustCompile(`"msg":"S3 front","url":"([^"]+)"`)
	var found []string
	within(p.t, patience, "the S3 front is told", func() bool {
		found = line.FindStringSubmatch(p.stderr.String())
		return found != nil
	})
	return found[1]
}

func s3ClientOf(url, access string) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: &url, Region: "us-east-1", UsePathStyle: true, RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider(access, s3Secret, ""),
	})
}

func s3Code(err error) string {
	var e smithy.APIError
	if errors.As(err, &e) {
		return e.ErrorCode()
	}
	return ""
}

// The keys are those of the auth file, which is read again; an upload that is under way outlasts the drain timeout; and no secret is told.
func TestS3FrontOfServe(t *testing.T) {
	t.Parallel()
	s := testServers(t)
	file := filepath.Join(t.TempDir(), "auth.yaml")
	writeFile(t, file, s3Principals(s3Access))
	p := startServe(t, s, "--auth-file="+file, "--s3-front-listen=127.0.0.1:0", "--drain-timeout=100ms", "--drain-transfers=30s")
	protectBucket(t, s.database, "reports", "report:{key}")
	protectBucket(t, s.database, "other", "other")
	url, ctx := p.s3URL(), t.Context()
	client := s3ClientOf(url, s3Access)
	list, err := client.ListBuckets(ctx, &s3.ListBucketsInput{})
	if err != nil || len(list.Buckets) != 1 || *list.Buckets[0].Name != "reports" {
		t.Fatalf("%+v %v", list, err)
	}
	if _, err := client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: aws.String("other")}); s3Code(err) != "AccessDenied" {
		t.Errorf("%v", err)
	}

	r, err := p.client().try(ctx, http.MethodPost, "/v1/leases/report:a", strings.NewReader(`{"ttl":"1m"}`), "Authorization", "Bearer test", "Content-Type", "application/json")
	if err != nil {
		t.Fatal(err)
	}
	var g grant
	r.decode(t, &g)
	body, feed := io.Pipe()
	upload := make(chan error, 1)
	go func() { upload <- putSlowly(ctx, url, body, g.Token) }()
	if _, err := io.WriteString(feed, "begun "); err != nil {
		t.Fatal(err)
	}

	writeFile(t, file, s3Principals("exporter-2026-02"))
	hangup(t, p)
	within(t, patience, "the new key is good", func() bool {
		_, err := s3ClientOf(url, "exporter-2026-02").ListBuckets(ctx, &s3.ListBucketsInput{})
		return err == nil
	})
	if _, err := client.ListBuckets(ctx, &s3.ListBucketsInput{}); s3Code(err) != "InvalidAccessKeyId" {
		t.Errorf("the old key: %v", err)
	}

	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "nobody new is taken", func() bool {
		r, err := http.Get(url)
		if err == nil {
			r.Body.Close()
		}
		return err != nil
	})
	select {
	case <-p.done:
		t.Fatal("it ended during an upload")
	case err := <-upload:
		t.Fatalf("the upload was cut off: %v", err)
	case <-time.After(300 * time.Millisecond): // longer than the drain timeout
	}
	if _, err := io.WriteString(feed, "and ended"); err != nil {
		t.Fatal(err)
	}
	feed.Close()
	if err := <-upload; err != nil {
		t.Errorf("the upload: %v", err)
	}
	<-p.done
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if said := p.stderr.String(); strings.Contains(said, s3Secret) {
		t.Error("the secret is told")
	}
}

// putSlowly puts reports/a, whose 15 bytes come when they come.
func putSlowly(ctx context.Context, url string, body io.Reader, token int64) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, url+"/reports/a", body)
	if err != nil {
		return err
	}
	r.ContentLength = 15
	r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
	r.Header.Set("X-Fence-Token", itoa(token))
	err = v4.NewSigner().SignHTTP(ctx, aws.Credentials{AccessKeyID: s3Access, SecretAccessKey: s3Secret}, r, "UNSIGNED-PAYLOAD", "s3", "us-east-1", time.Now())
	if err != nil {
		return err
	}
	// The first byte is asked for when the body is: whoever has sent it knows that the upload is under way.
	r.Header.Set("Expect", "100-continue")
	transport := &http.Transport{ExpectContinueTimeout: patience}
	defer transport.CloseIdleConnections()
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		return errors.New(answer.Status + " " + string(text))
	}
	return nil
}

func TestS3FrontRefusesToStart(t *testing.T) {
	t.Parallel()
	s := testServers(t)
	file := filepath.Join(t.TempDir(), "auth.yaml")
	writeFile(t, file, s3Principals(s3Access))
	for name, tt := range map[string]struct {
		args []string
		says string
	}{
		"NoKey":     {nil, "--s3-front-access-key"},
		"ShortKey":  {[]string{"--s3-front-access-key=" + s3Access, "--s3-front-secret-key=short"}, "--s3-front-secret-key: a secret key has 32 to 512 characters"},
		"KeyTwice":  {[]string{"--auth-file=" + file, "--s3-front-access-key=" + s3Access, "--s3-front-secret-key=" + s3Secret}, "s3_keys"},
		"Reachable": {[]string{"--s3-front-listen=0.0.0.0:0", "--s3-front-access-key=" + s3Access, "--s3-front-secret-key=" + s3Secret}, "loopback only"},
	} {
		t.Run(name, func(t *testing.T) {
			launchServe(t, s, append([]string{"--s3-front-listen=127.0.0.1:0"}, tt.args...)...).endsWith(1, tt.says)
		})
	}
}
