package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/stores/s3store/s3probe"
)

func s3Args(b testenv.S3) []string {
	return []string{"--s3-endpoint=" + b.Endpoint, "--s3-access-key=" + b.AccessKey, "--s3-secret-key=" + b.SecretKey}
}

func TestDoctorOfAnS3Alone(t *testing.T) {
	t.Setenv("FENCEGATE_DATABASE_URL", "postgres://127.0.0.1:1/not-asked")
	bucket := testenv.Bucket(t)
	args := append(s3Args(bucket), "--s3-bucket="+bucket.Bucket)
	code, lines := diagnose(t, args...)
	if code != 0 || len(lines) != 1 {
		t.Errorf("exit %d: %q", code, lines)
	}
	wantLine(t, lines, "ok bucket "+bucket.Bucket+": verdict S3 at "+bucket.Endpoint+" is safe for fencegate", "not needed: torn uploads (wrong)")

	code, lines = diagnose(t, append(args, "--verbose")...)
	if code != 0 {
		t.Errorf("exit %d", code)
	}
	for _, want := range []struct{ what, has string }{
		{"read after write", "honours"}, {"torn uploads", "does not need this"}, {"PUT with If-None-Match", "412"}, {"advice", "no fencing on any store"}, {"verdict", "is safe"},
	} {
		wantLine(t, lines, "ok bucket "+bucket.Bucket+": "+want.what, want.has)
	}
	list, err := bucket.Client().ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &bucket.Bucket})
	if err != nil || len(list.Contents) > 0 {
		t.Errorf("left behind: %v %v", list, err)
	}

	code, lines = diagnose(t, append(s3Args(bucket), "--s3-bucket=no-such-bucket")...)
	if code != 1 || len(lines) != 1 {
		t.Errorf("exit %d: %q", code, lines)
	}
	wantLine(t, lines, "FAIL bucket no-such-bucket S3 at "+bucket.Endpoint, "404 NoSuchBucket")
}

func TestDoctorOfAnUnsafeS3(t *testing.T) {
	bucket := testenv.Bucket(t)
	target, err := url.Parse(bucket.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	// The name of the host is signed.
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host }}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodDelete && r.URL.Query().Has("uploadId"):
			w.WriteHeader(http.StatusNoContent) // and nothing is aborted
		case r.Method == http.MethodGet && r.URL.Query().Has("versioning"):
			_, _ = w.Write([]byte("<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"))
		default:
			proxy.ServeHTTP(w, r)
		}
	}))
	defer front.Close()
	bucket.Endpoint = front.URL
	url, exec := patient(t)
	exec("SELECT fence.protect_bucket('" + bucket.Bucket + "', '', 'report:{key}')")
	code, lines := diagnose(t, append(s3Args(bucket), "--database-url="+url)...)
	if code != 1 {
		t.Errorf("exit %d", code)
	}
	of := "bucket " + bucket.Bucket
	wantLine(t, lines, "ok "+of+" S3 at", "a blob can be stored, read and deleted")
	wantLine(t, lines, "FAIL "+of+": aborted uploads ignores", "fencegate needs this")
	wantLine(t, lines, "warn "+of+": frees deleted bytes", "keeps versions")
	wantLine(t, lines, "warn "+of+": clean up", "uploads are left")
	wantLine(t, lines, "FAIL "+of+": verdict", "is unsafe for fencegate: aborted uploads")
	for _, line := range lines {
		if strings.Contains(line, of) && strings.Contains(line, "honours") {
			t.Errorf("nobody asked: %s", line)
		}
	}
}

func TestDoctorTellsWhatIsNotMeasured(t *testing.T) {
	var out strings.Builder
	r := &report{out: &out}
	open := s3probe.Finding{Name: "deletes", Outcome: s3probe.NotMeasured, Note: "no answer within 5s", Needed: true}
	tellFinding(r, "deletes", open, false)
	tellVerdict(r, "verdict", "S3", s3probe.Report{Verdict: s3probe.Unknown, Faults: []string{"deletes"}, Findings: []s3probe.Finding{open}})
	if text := out.String(); r.failed != 2 || !strings.Contains(text, "not measured: no answer within 5s; fencegate needs this") || !strings.Contains(text, "not shown to be safe for fencegate, not measured: deletes") {
		t.Errorf("%d failed:\n%s", r.failed, text)
	}
}

func TestDoctorNeedsSomethingToLookAt(t *testing.T) {
	for _, c := range []struct{ args, has string }{
		{"", "--database-url=URL, or --s3-bucket=NAME"},
		{"--s3-bucket=b", "--s3-bucket needs --s3-endpoint"},
		{"--s3-bucket=b --s3-endpoint=http://127.0.0.1:1 --blob-dir=d", "no --blob-dir"},
		{"--s3-bucket=b --s3-endpoint=http://127.0.0.1:1 --s3-access-key=a", "go together"},
		{"--s3-bucket=b --s3-endpoint=http://127.0.0.1:1 --s3-access-key=a --s3-secret-key=b --s3-prefix=x", "not start with / and end with it"},
		{"--s3-bucket=b --s3-endpoint=http://u:hunter2@127.0.0.1:1 --s3-access-key=a --s3-secret-key=b", "credentials are settings of their own"},
	} {
		code, out, errs := command(t, append([]string{"doctor"}, strings.Fields(c.args)...)...)
		if code == 0 || !strings.Contains(out+errs, c.has) || strings.Contains(out+errs, "hunter2") {
			t.Errorf("%s: exit %d: %s%s", c.args, code, out, errs)
		}
	}
}
