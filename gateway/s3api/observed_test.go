package s3api_test

import (
	"context"
	"encoding/xml"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/fencegate/fencegate/fence"
)

// Requests are counted as those over HTTP are, by what was asked and what became of it, and named for traces.
func TestCountedAndNamed(t *testing.T) {
	w := newWorld(t)
	ctx, client, g, b := t.Context(), w.client(), w.grant("report:a"), w.grant("report:b")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	refused := func(err error) {
		t.Helper()
		if err == nil {
			t.Fatal("not refused")
		}
	}
	for range 2 {
		_, err := w.put("a", "one", g.First())
		must(err)
	}
	_, err := w.put("a", "two", g.First())
	refused(err)
	_, err = client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: aws.String("reports"), Key: aws.String("a"), Body: strings.NewReader("x"), Metadata: map[string]string{"fence-token": g.First().String(), "long": strings.Repeat("x", maxMeta)},
	})
	if code(err) != "MetadataTooLarge" || status(err) != http.StatusBadRequest {
		t.Errorf("%v", err)
	}
	w.get("a")
	_, err = client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: aws.String("reports"), Key: aws.String("none")})
	refused(err)
	_, err = client.CopyObject(ctx, &s3.CopyObjectInput{Bucket: aws.String("reports"), Key: aws.String("b"), CopySource: aws.String("reports/a"), Metadata: token(b.First())})
	must(err)
	u := w.begin(t, g.First()+1)
	u.part(1, "part")
	must(u.complete())
	_, err = client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: aws.String("reports")})
	must(err)
	_, err = client.ListBuckets(ctx, &s3.ListBucketsInput{})
	must(err)
	_, err = client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: aws.String("reports"), Key: aws.String("b")}, header("X-Fence-Token", (b.First()+1).String()))
	must(err)
	_, err = client.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: aws.String("reports"), Delete: &types.Delete{Objects: []types.ObjectIdentifier{{Key: aws.String("a")}}}})
	must(err)
	_, err = client.GetObjectAcl(ctx, &s3.GetObjectAclInput{Bucket: aws.String("reports"), Key: aws.String("a")})
	refused(err)
	_, err = w.clientOf("NOBODYNOBODYNOBODY").ListBuckets(ctx, &s3.ListBucketsInput{})
	refused(err)

	w.server.Close() // waits for the ends of requests, at which they are counted
	var got []string
	for i, o := range w.observed {
		if o.API != "objects" || o.Duration <= 0 {
			t.Errorf("%+v", o)
		}
		got = append(got, strings.TrimSpace(w.patterns[i]+" "+o.Op+" "+string(o.Code)))
	}
	want := []string{
		"S3 PutObject put " + string(fence.CodeAccepted), "S3 PutObject put replayed", "S3 PutObject put spent-token", "S3 PutObject put invalid-request",
		"S3 GetObject get accepted", "S3 HeadObject get not-found", "S3 CopyObject copy accepted",
		"S3 CreateMultipartUpload upload accepted", "S3 UploadPart upload accepted", "S3 CompleteMultipartUpload put accepted",
		"S3 ListObjectsV2 list accepted", "S3 ListBuckets list accepted", "S3 DeleteObject delete accepted", "S3 DeleteObjects delete token-required",
		"method-not-allowed", "S3 ListBuckets  unauthenticated",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// A refusal is logged once, with what finds it again, also that of one object among several; no line is for the operators.
func TestRefusalsAreLogged(t *testing.T) {
	w := newWorld(t)
	old := w.grant("report:a")
	w.mustPut("a", "one", w.grant("report:a").First())
	answer := w.send(w.signed(http.MethodPut, "/reports/a", "x", "X-Fence-Token", old.First().String()))
	var refusal struct{ RequestId string }
	text, _ := io.ReadAll(answer.Body)
	if err := xml.Unmarshal(text, &refusal); err != nil || refusal.RequestId == "" || refusal.RequestId != answer.Header.Get("X-Trace-Id") {
		t.Errorf("%v %s %v", err, text, answer.Header)
	}
	_, err := w.client(header("X-Fence-Token", old.First().String())).DeleteObjects(t.Context(), &s3.DeleteObjectsInput{
		Bucket: aws.String("reports"), Delete: &types.Delete{Objects: []types.ObjectIdentifier{{Key: aws.String("b")}, {Key: aws.String("a")}, {Key: aws.String("never")}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	anonymous := w.send(w.request(http.MethodGet, "/reports/a", ""))
	w.server.Close()
	var got []string
	for _, l := range w.logged() {
		line := strings.Join([]string{l["level"].(string), l["msg"].(string), l["code"].(string), l["principal"].(string)}, " ")
		switch l["code"] {
		case "unauthenticated":
			if l["client"] == "" || l["trace_id"] != anonymous.Header.Get("X-Trace-Id") {
				t.Errorf("%v", l)
			}
		default:
			if id := l["trace_id"]; len(got) == 0 && id != refusal.RequestId || len(id.(string)) != 32 {
				t.Errorf("%v", l)
			}
			if resource, ok := l["resource"].(string); ok {
				line += " " + resource
			}
		}
		got = append(got, line)
	}
	want := []string{
		"INFO refused stale-token p objects/reports/a",
		"INFO refused unissued-token p objects/reports/b", "INFO refused stale-token p objects/reports/a", "INFO refused unissued-token p objects/reports/never",
		"INFO refused unauthenticated ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// Whoever does not wait for the answer is no failure of the gateway's.
func TestClientLeaves(t *testing.T) {
	w := newWorld(t)
	r := w.signed(http.MethodGet, "/reports/a", "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r = r.WithContext(ctx)
	r.RequestURI, r.RemoteAddr = r.URL.RequestURI(), "127.0.0.1:1"
	func() {
		defer func() {
			if v := recover(); v != http.ErrAbortHandler {
				t.Errorf("the connection is not cut: %v", v)
			}
		}()
		w.front.ServeHTTP(httptest.NewRecorder(), r)
	}()
	if len(w.observed) != 1 || w.observed[0].Op != "get" || w.observed[0].Code != "" {
		t.Errorf("counted: %+v", w.observed)
	}
	for _, l := range w.logged() {
		if l["level"] != "INFO" || l["msg"] != "client left" || l["resource"] != "objects/reports/a" {
			t.Errorf("logged: %v", l)
		}
	}
}

// A panic does not say that nothing was written (I7), and is told to the operators.
func TestPanic(t *testing.T) {
	w := newWorld(t)
	w.beforeWrite = func() { panic("on purpose") }
	answer := w.send(w.signed(http.MethodPut, "/reports/a", "x", "X-Fence-Token", w.grant("report:a").First().String()))
	text, _ := io.ReadAll(answer.Body)
	if got := xmlCode(t, string(text)); answer.StatusCode != http.StatusServiceUnavailable || got != "ServiceUnavailable" || strings.Contains(string(text), "on purpose") {
		t.Errorf("%s %s", answer.Status, text)
	}
	w.server.Close()
	lines := w.logged()
	if len(lines) != 1 || lines[0]["level"] != "ERROR" || lines[0]["code"] != "outcome-unknown" || !strings.Contains(lines[0]["cause"].(string), "on purpose") {
		t.Errorf("%v", lines)
	}
	if len(w.observed) != 1 || w.observed[0].Code != fence.CodeOutcomeUnknown {
		t.Errorf("%+v", w.observed)
	}
}

func xmlCode(t *testing.T, body string) string {
	t.Helper()
	var e struct{ Code string }
	if err := xml.Unmarshal([]byte(body), &e); err != nil {
		t.Errorf("%v: %.200s", err, body)
	}
	return e.Code
}
