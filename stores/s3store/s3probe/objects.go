package s3probe

import (
	"context"
	"fmt"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

const (
	objectList  = "list of objects"
	copies      = "copy in the store"
	copyIfMatch = "copy if the source matches"
)

// tryList pages through two objects, one at a time, and looks again when one is deleted.
func tryList(ctx context.Context, t *trial) error {
	below := t.root + "list/"
	for _, name := range []string{"a", "b"} {
		if _, err := t.put(ctx, t.key("list/"+name), random(10), nil); err != nil {
			return err
		}
	}
	for _, want := range []string{"[a b]", "[b]"} {
		var found []string
		in := &s3.ListObjectsV2Input{Bucket: &t.cfg.Bucket, Prefix: &below, MaxKeys: aws.Int32(1)}
		// A store that never says that it is done is not asked for ever.
		for range 3 {
			out, err := t.api.ListObjectsV2(ctx, in)
			if err != nil {
				return err
			}
			for _, o := range out.Contents {
				key := aws.ToString(o.Key)
				found = append(found, key[min(len(below), len(key)):])
			}
			if in.ContinuationToken = out.NextContinuationToken; !aws.ToBool(out.IsTruncated) {
				break
			}
		}
		if got := fmt.Sprint(found); got != want {
			t.find(objectList, Wrong, fmt.Sprintf("%d keys are listed, page by page, where there are %d", len(found), len(want)/2))
			return nil
		}
		if err := t.delete(ctx, below+"a"); err != nil {
			return err
		}
	}
	t.find(objectList, Honours, "")
	return nil
}

func tryCopy(ctx context.Context, t *trial) error {
	from, body := t.key("copy-from"), random(bodySize)
	out, err := t.put(ctx, from, body, nil)
	if err != nil {
		return err
	}
	copyTo := func(name string, ifMatch *string) (string, error) {
		to := t.key(name)
		_, err := t.api.CopyObject(ctx, &s3.CopyObjectInput{
			Bucket: &t.cfg.Bucket, Key: &to, CopySource: aws.String(url.PathEscape(t.cfg.Bucket) + "/" + from), CopySourceIfMatch: ifMatch,
		})
		return to, err
	}
	to, err := copyTo("copy-to", nil)
	if err != nil {
		return err
	}
	wrong, err := t.differs(ctx, to, body)
	if err != nil {
		return err
	}
	t.find(copies, outcomeOf(wrong), wrong)

	other := aws.String(`"00000000000000000000000000000000"`)
	var refused string
	outcome, note, err := contrast(
		func() error { _, err := copyTo("copy-if-match", out.ETag); return err },
		func() error { refused, err = copyTo("copy-if-other", other); return err },
	)
	if err != nil {
		return err
	}
	if outcome == Honours {
		if _, err := t.length(ctx, refused); err == nil {
			outcome, note = Wrong, "refused, and copied all the same"
		} else if !hides(err) {
			return err
		}
	}
	t.find(copyIfMatch, outcome, note)
	return nil
}
