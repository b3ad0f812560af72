package s3api_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/s3api"
	"github.com/fencegate/fencegate/lease"
)

// Where the bucket says so, a delete without a token takes the lease, and only for as long as it takes.
func TestDeletesTakeTheLease(t *testing.T) {
	w := newWorldOn(t, nil, func(c *s3api.Config) { c.DeleteWait = 100 * time.Millisecond })
	client, ctx := w.client(), t.Context()
	if err := w.store.SetOptions(ctx, "reports", "", map[string]any{"deletes": "lease"}); err != nil {
		t.Fatal(err)
	}
	remove := func(client *s3.Client, key string) error {
		_, err := client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: aws.String("reports"), Key: &key})
		return err
	}
	held, err := w.manager.Acquire(ctx, lease.Request{Name: "report:a", Principal: "q"})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.manager.Release(ctx, lease.Ref{Name: "report:a", Principal: "q", ID: held.ID}); err != nil {
		t.Fatal(err)
	}
	w.mustPut("a", "one", w.grant("report:a").First())
	t.Run("Free", func(t *testing.T) {
		if err := remove(client, "a"); err != nil {
			t.Fatal(err)
		}
		w.absent(t, "a")
		if v, err := w.manager.Inspect(ctx, "report:a"); err == nil {
			t.Errorf("the lease is held still: %+v", v)
		}
	})
	t.Run("Absent", func(t *testing.T) {
		if err := remove(client, "a"); err != nil {
			t.Error(err)
		}
		if err := remove(client, "never"); err != nil {
			t.Error(err)
		}
		_, err := client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: aws.String("reports"), Key: aws.String("never"), IfMatch: aws.String("*")})
		if code(err) != "NoSuchKey" {
			t.Errorf("what had to be there: %v", err)
		}
	})
	t.Run("Held", func(t *testing.T) {
		held, err := w.manager.Acquire(ctx, lease.Request{Name: "report:b", Principal: "p"})
		if err != nil {
			t.Fatal(err)
		}
		w.mustPut("b", "one", held.First())
		if err := remove(client, "b"); code(err) != "LeaseHeld" || status(err) != 409 {
			t.Error(err)
		}
		if got := w.get("b"); got != "one" {
			t.Error(got)
		}
	})
	t.Run("NotAllowed", func(t *testing.T) {
		w.callers["WRITERWRITERWRITER"] = caller{name: "writer", may: func(a gateway.Action) bool { return a.Lease == "" }}
		w.mustPut("c", "one", w.grant("report:c").First())
		if err := remove(w.clientOf("WRITERWRITERWRITER"), "c"); code(err) != "AccessDenied" {
			t.Error(err)
		}
	})
	t.Run("Several", func(t *testing.T) {
		w.mustPut("d", "one", w.grant("report:d").First())
		out, err := client.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: aws.String("reports"), Delete: &types.Delete{Objects: []types.ObjectIdentifier{
			{Key: aws.String("b")}, {Key: aws.String("d")}, {Key: aws.String("never")},
		}}})
		if err != nil || len(out.Deleted) != 2 || len(out.Errors) != 1 || *out.Errors[0].Key != "b" || *out.Errors[0].Code != "LeaseHeld" {
			t.Errorf("%+v %v", out, err)
		}
		w.absent(t, "d")
	})
}

func TestDeleteSeveralUnderATokens(t *testing.T) { deleteSeveralUnderATokens(t, newWorld(t)) }

func deleteSeveralUnderATokens(t *testing.T, w *world) {
	g, ctx := w.grant("scratch"), t.Context()
	for i, key := range []string{"a", "b"} {
		if _, err := w.client().PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String("scratch"), Key: &key, Metadata: token(g.First() + tokenOf(i))}); err != nil {
			t.Fatal(err)
		}
	}
	objects := &types.Delete{Objects: []types.ObjectIdentifier{{Key: aws.String("a")}, {Key: aws.String("b")}}}
	out, err := w.client().DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: aws.String("scratch"), Delete: objects})
	if err != nil || len(out.Errors) != 2 || *out.Errors[0].Code != "FenceTokenRequired" {
		t.Errorf("without a token: %+v %v", out, err)
	}
	out, err = w.client(header("X-Fence-Token", (g.First()+5).String())).DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: aws.String("scratch"), Delete: objects})
	if err != nil || len(out.Deleted) != 2 {
		t.Errorf("%+v %v", out, err)
	}
}
