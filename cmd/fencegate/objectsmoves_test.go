package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores"
)

// An export knows its copies by metadata that is none of the objects' own, whatever these say.
func TestExportKnowsItsCopies(t *testing.T) {
	b := newBucketed(t)
	token, _ := b.acquire("report:a")
	var n int
	if _, err := fmt.Sscan(token.String(), &n); err != nil {
		t.Fatal(err)
	}
	next := fmt.Sprint(n + 1)
	b.want(http.StatusCreated, "PUT", b.object("a"), "AAAA", "X-Fence-Token: "+token.String(), "X-Meta-Fencegate-Version: "+next, "X-Meta-By: hand")
	for _, want := range []string{"1 exported", "0 exported"} {
		if got := b.run("objects", "export", b.bucket.Bucket); !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	b.want(http.StatusOK, "PUT", b.object("a"), "BBBB", "X-Fence-Token: "+next)
	if got := b.run("objects", "export", b.bucket.Bucket); !strings.Contains(got, "1 exported") || b.stored("a") != "BBBB" {
		t.Errorf("%sstored is %s", got, b.stored("a"))
	}

	// A copy that is put elsewhere, by hand, is an object as any other.
	from, to := b.bucket.Bucket+"/a", "z"
	if _, err := b.bucket.Client().CopyObject(t.Context(), &s3.CopyObjectInput{Bucket: &b.bucket.Bucket, Key: &to, CopySource: &from}); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"natural", "imported"} {
		if what == "imported" {
			b.run("objects", "import", b.bucket.Bucket)
		}
		if answer, body := request(t, "GET", b.url+b.object("z"), ""); body != "BBBB" || answer.Header.Get("X-Meta-Fencegate-Version") != "" {
			t.Errorf("%s it is %q, %v", what, body, answer.Header)
		}
	}
	for _, want := range []string{"1 exported, 0 deleted, 1 left", "0 exported, 0 deleted, 2 left"} {
		if got := b.run("objects", "export", b.bucket.Bucket); !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// What the S3 does not take is told, by its key and the S3's reason, and the others are exported.
func TestExportGoesOnPastAnObject(t *testing.T) {
	b := newBucketed(t)
	b.natural("d", "a file, where d/ would be a directory")
	for _, key := range []string{"a//b", "d/1", "e", "f"} {
		token, id := b.acquire("report:" + strings.Split(key, "/")[0])
		b.want(http.StatusCreated, "PUT", b.object(key), "of "+key, "X-Fence-Token: "+token.String())
		b.want(http.StatusNoContent, "DELETE", "/v1/leases/report:"+strings.Split(key, "/")[0], "", "X-Lease-Id: "+id)
	}
	code, out, errs := command(t, append([]string{"objects", "export", b.bucket.Bucket}, b.flags...)...)
	if code != exitFailed || !strings.Contains(out, "2 exported, 0 deleted, 0 left as they are, 2 failed") || b.stored("e") != "of e" || b.stored("f") != "of f" {
		t.Errorf("exit %d: %s", code, out)
	}
	for _, want := range []string{
		"export a//b: this S3 does not keep keys with empty segments", "export d/1: copy blob", "api error", "fencegate: objects that failed: 2\n",
	} {
		if !strings.Contains(errs, want) {
			t.Errorf("%q is missing in:\n%s", want, errs)
		}
	}
	if strings.Contains(errs, b.bucket.SecretKey) || strings.Contains(errs, "Signature") {
		t.Errorf("a secret is told:\n%s", errs)
	}
}

// However many objects fail, what is told of them stays readable; --verbose tells all.
func TestFailuresThatAreTold(t *testing.T) {
	for verbose, want := range map[bool]int{false: 20, true: 25} {
		var out, errs bytes.Buffer
		std := &streams{strings.NewReader(""), &out, &errs}
		f := moveFlags{Verbose: verbose}
		m := f.move(std, false)
		for range 25 {
			m.Failed("k", fmt.Errorf("export k\x1b\nk: %w", fence.Errorf(fence.CodeContention, "busy")))
		}
		err := f.outcome(std, "exported", "deleted", stores.Moved{Copied: 2, Failed: 25})
		if lines := strings.Count(errs.String(), "\n"); lines != want || strings.Count(errs.String(), "fencegate: export k\\u001b\\u000ak: busy\n") != want {
			t.Errorf("%d lines, want %d:\n%s", lines, want, errs.String())
		}
		if err == nil || !strings.HasPrefix(err.Error(), "objects that failed: 25") || strings.Contains(err.Error(), "--verbose") == verbose || out.String() != "2 exported, 0 deleted, 0 left as they are, 25 failed\n" {
			t.Errorf("%v, %s", err, out.String())
		}
	}
}
