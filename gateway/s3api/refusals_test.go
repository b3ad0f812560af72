package s3api_test

import (
	"encoding/xml"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
)

// Every refusal is XML that tools show, with a status that none of them repeats in vain, and changes nothing (I7).
func TestRefusals(t *testing.T) {
	w := newWorld(t)
	old := w.grant("report:a")
	g := w.grant("report:a")
	w.mustPut("a", "one", g.First()+1)
	stranger := w.grantTo("q", "report:other")
	ended := w.grant("report:ended")
	if _, err := w.store.End(t.Context(), "report:ended", fence.GrantRef{Newest: true}, fence.Ending{Why: fence.EndReleased}); err != nil {
		t.Fatal(err)
	}
	head := func(key, name, value string) func(t *testing.T) error {
		return func(t *testing.T) error {
			_, err := w.client().PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("reports"), Key: &key, Body: strings.NewReader("x")}, header(name, value))
			return err
		}
	}
	put := func(key, body string, token fence.Token) func(*testing.T) error {
		return func(*testing.T) error { _, err := w.put(key, body, token); return err }
	}
	for name, tt := range map[string]struct {
		do     func(t *testing.T) error
		status int
		code   string
	}{
		"Stale":        {put("a", "x", old.First()), 412, "StaleFenceToken"},
		"BelowTheMark": {put("a", "x", g.First()), 412, "StaleFenceToken"},
		"Spent":        {put("a", "x", g.First()+1), 412, "SpentFenceToken"},
		"Ended":        {put("ended", "x", ended.First()), 412, "GrantEnded"},
		"Unissued":     {put("a", "x", 999_999_999_999_999), 403, "UnissuedFenceToken"},
		"Foreign":      {put("other", "x", stranger.First()), 403, "ForeignFenceToken"},
		"NoToken": {func(t *testing.T) error {
			_, err := w.client().PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("reports"), Key: aws.String("a"), Body: strings.NewReader("x")})
			return err
		}, 400, "FenceTokenRequired"},
		"Malformed":     {head("a", "X-Fence-Token", "01"), 400, "InvalidFenceToken"},
		"MalformedMeta": {head("a", "X-Amz-Meta-Fence-Token", "1e3"), 400, "InvalidFenceToken"},
		"TwoDiffer": {func(t *testing.T) error {
			_, err := w.client().PutObject(t.Context(), &s3.PutObjectInput{
				Bucket: aws.String("reports"), Key: aws.String("a"), Body: strings.NewReader("x"), Metadata: token(g.First() + 2),
			}, header("X-Fence-Token", (g.First()+3).String()))
			return err
		}, 400, "InvalidFenceToken"},
		"NoneMatch": {func(t *testing.T) error {
			_, err := w.client().PutObject(t.Context(), &s3.PutObjectInput{
				Bucket: aws.String("reports"), Key: aws.String("a"), Body: strings.NewReader("x"), Metadata: token(g.First() + 2), IfNoneMatch: aws.String("*"),
			})
			return err
		}, 412, "PreconditionFailed"},
		"Match": {func(t *testing.T) error {
			_, err := w.client().PutObject(t.Context(), &s3.PutObjectInput{
				Bucket: aws.String("reports"), Key: aws.String("a"), Body: strings.NewReader("x"), Metadata: token(g.First() + 2), IfMatch: aws.String(md5Of("other")),
			})
			return err
		}, 412, "PreconditionFailed"},
		"NoBucket": {func(t *testing.T) error {
			_, err := w.client().GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("nowhere"), Key: aws.String("a")})
			return err
		}, 404, "NoSuchBucket"},
		"NoKey": {func(t *testing.T) error {
			_, err := w.client().GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("reports"), Key: aws.String("none")})
			return err
		}, 404, "NoSuchKey"},
		"NoUpload": {func(t *testing.T) error {
			_, err := w.client().UploadPart(t.Context(), &s3.UploadPartInput{
				Bucket: aws.String("reports"), Key: aws.String("a"), UploadId: aws.String("x"), PartNumber: aws.Int32(1), Body: strings.NewReader("x"),
			})
			return err
		}, 404, "NoSuchUpload"},
		"DeleteWithoutToken": {func(t *testing.T) error {
			_, err := w.client().DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: aws.String("reports"), Key: aws.String("a")})
			return err
		}, 400, "FenceTokenRequired"},
		"Unkept": {func(t *testing.T) error {
			_, err := w.client().PutObject(t.Context(), &s3.PutObjectInput{
				Bucket: aws.String("reports"), Key: aws.String("a"), Body: strings.NewReader("x"), Metadata: token(g.First() + 2), Tagging: aws.String("a=b"),
			})
			return err
		}, 501, "NotImplemented"},
		"Tagging": {func(t *testing.T) error {
			_, err := w.client().GetObjectTagging(t.Context(), &s3.GetObjectTaggingInput{Bucket: aws.String("reports"), Key: aws.String("a")})
			return err
		}, 501, "NotImplemented"},
		"WrongKey": {func(t *testing.T) error {
			_, err := w.clientOf("NOBODYNOBODYNOBODY").ListBuckets(t.Context(), &s3.ListBucketsInput{})
			return err
		}, 403, "InvalidAccessKeyId"},
		"LongKey": {put(strings.Repeat("k", 1025), "x", g.First()+2), 400, "InvalidRequest"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tt.do(t); status(err) != tt.status || code(err) != tt.code {
				t.Errorf("got %d %s, want %d %s: %v", status(err), code(err), tt.status, tt.code, err)
			} else if message(err) == "" {
				t.Error("no message")
			}
		})
	}
	if got := w.get("a"); got != "one" {
		t.Errorf("the object is %q after nothing but refusals", got)
	}
	t.Run("LogHoldsNoSecret", func(t *testing.T) {
		stale := false
		for _, line := range w.logged() {
			stale = stale || line["code"] == "stale-token" && line["principal"] == "p" && line["lease"] == "report:a" && line["status"] == float64(412)
		}
		if text := w.log.String(); !stale || strings.Contains(text, secretKey) || strings.Contains(text, "Signature=") {
			t.Errorf("stale tokens told: %v; log:\n%s", stale, text)
		}
	})
	t.Run("Observed", func(t *testing.T) {
		w.mu.Lock()
		defer w.mu.Unlock()
		stale := 0
		for _, o := range w.observed {
			if o.API == "objects" && o.Op == "put" && o.Code == fence.CodeStaleToken {
				stale++
			}
		}
		if stale != 2 || w.failed != 1 {
			t.Errorf("%d stale tokens and %d failed logins were counted: %+v", stale, w.failed, w.observed)
		}
	})
}

// Whoever sends no token is told which lease to acquire.
func TestNoTokenNamesTheLease(t *testing.T) {
	w := newWorld(t)
	for _, key := range []string{"never", "a"} {
		_, err := w.client().PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("reports"), Key: &key, Body: strings.NewReader("x")})
		if !strings.Contains(message(err), "report:"+key) {
			t.Errorf("%v", err)
		}
		w.mustPut("a", "one", w.grant("report:a").First())
	}
	_, err := w.client().PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("nowhere"), Key: aws.String("a"), Body: strings.NewReader("x")})
	if code(err) != "FenceTokenRequired" {
		t.Errorf("%v", err)
	}
}

// The XML of a refusal tells what the one over HTTP does, for people who look.
func TestRefusalTellsTheState(t *testing.T) {
	w := newWorld(t)
	g := w.grant("report:a")
	w.mustPut("a", "one", g.First()+5)
	var answer struct {
		Code, Message, Resource, Lease, RequestId string
		Token, Mark                               int64
	}
	text := w.raw(http.MethodPut, "/reports/a", "x", "X-Fence-Token", g.First().String())
	if err := xml.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if answer.Code != "StaleFenceToken" || answer.Resource != "objects/reports/a" || answer.Lease != "report:a" || answer.Token != int64(g.First()) ||
		answer.Mark != int64(g.First())+5 || len(answer.RequestId) != 32 {
		t.Errorf("%s", text)
	}
}

// Whoever may not do something learns nothing of what there is.
func TestAccess(t *testing.T) {
	w := newWorld(t)
	g := w.grant("report:a")
	w.mustPut("a", "one", g.First())
	w.mustPut("b/secret", "one", w.grant("report:b/secret").First())
	w.callers["READERREADERREADER"] = caller{name: "reader", may: func(a gateway.Action) bool {
		return a.Verb == gateway.VerbRead && a.Bucket == "reports" && (a.Key == "" || strings.HasPrefix("a", a.Key))
	}}
	reader := w.clientOf("READERREADERREADER")
	w.callers["WRITERWRITERWRITER"] = caller{name: "writer", may: func(a gateway.Action) bool { return a.Verb == gateway.VerbWrite || a.Key == "a" }}
	ctx := t.Context()
	if _, err := reader.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("reports"), Key: aws.String("a")}); err != nil {
		t.Error(err)
	}
	for name, do := range map[string]func() error{
		"Get": func() error {
			_, err := reader.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("reports"), Key: aws.String("b/secret")})
			return err
		},
		"Put": func() error {
			_, err := reader.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String("reports"), Key: aws.String("a"), Body: strings.NewReader("x"), Metadata: token(g.First() + 1)})
			return err
		},
		"Copy": func() error {
			_, err := w.clientOf("WRITERWRITERWRITER").CopyObject(ctx, &s3.CopyObjectInput{Bucket: aws.String("reports"), Key: aws.String("a"), CopySource: aws.String("reports/b/secret"), Metadata: token(g.First() + 1)})
			return err
		},
		"Delete": func() error {
			_, err := reader.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: aws.String("reports"), Key: aws.String("a")}, header("X-Fence-Token", g.First().String()))
			return err
		},
		"Begin": func() error {
			_, err := reader.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: aws.String("reports"), Key: aws.String("a"), Metadata: token(g.First() + 1)})
			return err
		},
		"OtherBucket": func() error {
			_, err := reader.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: aws.String("scratch")})
			return err
		},
		"NoBucket": func() error {
			_, err := reader.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: aws.String("nowhere")})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := do(); status(err) != http.StatusForbidden || code(err) != "AccessDenied" || strings.Contains(message(err), "token") {
				t.Errorf("%v", err)
			}
		})
	}
	list, err := reader.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: aws.String("reports")})
	if err != nil || len(list.Contents) != 1 || *list.Contents[0].Key != "a" {
		t.Errorf("%+v %v", list, err)
	}
	buckets, err := reader.ListBuckets(ctx, &s3.ListBucketsInput{})
	if err != nil || len(buckets.Buckets) != 1 || *buckets.Buckets[0].Name != "reports" {
		t.Errorf("%+v %v", buckets, err)
	}
	t.Run("KeyTakenAway", func(t *testing.T) {
		w.mu.Lock()
		delete(w.callers, "READERREADERREADER")
		w.mu.Unlock()
		if _, err := reader.ListBuckets(ctx, &s3.ListBucketsInput{}); code(err) != "InvalidAccessKeyId" {
			t.Errorf("%v", err)
		}
	})
}

func TestRateLimit(t *testing.T) {
	w := newWorld(t)
	w.over = gateway.ClassReads
	_, err := w.client().ListBuckets(t.Context(), &s3.ListBucketsInput{})
	if code(err) != "SlowDown" || status(err) != http.StatusServiceUnavailable {
		t.Errorf("%v", err)
	}
	if answer := w.send(w.signed(http.MethodGet, "/reports/a", "")); answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") != "2" {
		t.Errorf("%s %v", answer.Status, answer.Header)
	}
	w.over = gateway.ClassWrites
	if _, err := w.put("a", "x", w.grant("report:a").First()); code(err) != "SlowDown" {
		t.Errorf("%v", err)
	}
}

// raw sends a request that is signed, and returns the body of the answer.
func (w *world) raw(method, path, body string, headers ...string) string {
	w.t.Helper()
	answer := w.send(w.signed(method, path, body, headers...))
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}
