package s3probe

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

const (
	clock      = "clock"
	frees      = "frees deleted bytes"
	lifecycle  = "lifecycle rules keep blobs"
	objectLock = "no object lock"

	rulesEndUploads = "one ends uploads that were never completed"
	hasNoRules      = "the store has no such rules"

	// skewWorthTelling is how far the clocks may be apart: S3 refuses signatures that are 15 minutes off, and a
	// presigned URL lives shorter or longer by it.
	skewWorthTelling = time.Minute
)

func tryClock(ctx context.Context, t *trial) error {
	out, err := t.api.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &t.cfg.Bucket, Key: aws.String(t.root + "first")}, once)
	if err != nil {
		return err
	}
	there, ok := awsmiddleware.GetServerTime(out.ResultMetadata)
	here, ok2 := awsmiddleware.GetResponseAt(out.ResultMetadata)
	if !ok || !ok2 || there.IsZero() {
		t.find(clock, NotMeasured, "answers have no Date")
		return nil
	}
	// A Date has no fractions of a second.
	skew := there.Add(500 * time.Millisecond).Sub(here)
	if skew.Abs() > skewWorthTelling {
		t.attend(clock, Wrong, fmt.Sprintf("%v away from this machine's: run NTP", skew.Round(time.Second)))
		return nil
	}
	t.find(clock, Honours, fmt.Sprintf("within %v of this machine's", max(skew.Abs(), time.Second).Round(time.Second)))
	return nil
}

func tryVersioning(ctx context.Context, t *trial) error {
	out, err := t.api.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &t.cfg.Bucket})
	switch {
	case unknownToIt(err):
		t.find(frees, Honours, "the store has no versions")
	case err != nil:
		return err
	case out.Status == types.BucketVersioningStatusEnabled:
		t.attend(frees, Ignores, "the bucket keeps versions, so deleted blobs take space until a lifecycle rule ends noncurrent versions")
	default:
		t.find(frees, Honours, "")
	}
	return nil
}

func tryLock(ctx context.Context, t *trial) error {
	out, err := t.api.GetObjectLockConfiguration(ctx, &s3.GetObjectLockConfigurationInput{Bucket: &t.cfg.Bucket})
	switch {
	case unknownToIt(err), isAbsent(err):
		t.find(objectLock, Honours, "")
	case err != nil:
		return err
	case out.ObjectLockConfiguration == nil || out.ObjectLockConfiguration.Rule == nil || out.ObjectLockConfiguration.Rule.DefaultRetention == nil:
		t.find(objectLock, Honours, "no default retention")
	default:
		t.attend(objectLock, Wrong, "the bucket locks every object by default, so blobs are kept that nothing refers to")
	}
	return nil
}

func tryLifecycle(ctx context.Context, t *trial) error {
	out, err := t.api.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: &t.cfg.Bucket})
	switch {
	case unknownToIt(err):
		t.find(lifecycle, Honours, hasNoRules)
		return nil
	case isAbsent(err) || codeOf(err) == "NoSuchLifecycleConfiguration":
		t.find(lifecycle, Honours, "there is none")
		return nil
	case mayNotAsk(err):
		t.find(lifecycle, NotMeasured, "these credentials may not read the rules: see that none deletes or archives below "+t.cfg.Prefix)
		return nil
	case err != nil:
		return err
	}
	aborts := false
	for _, rule := range out.Rules {
		some, all := reaches(rule, t.cfg.Prefix+"blobs/")
		if rule.Status != types.ExpirationStatusEnabled || !some {
			continue
		}
		aborts = aborts || all && rule.AbortIncompleteMultipartUpload != nil
		if does := harm(rule); does != "" {
			t.findNeeded(lifecycle, Wrong, fmt.Sprintf("rule %s %s below %s", plain(aws.ToString(rule.ID)), does, t.cfg.Prefix))
			return nil
		}
	}
	note := "none ends uploads that were never completed"
	if aborts {
		note = rulesEndUploads
	}
	t.find(lifecycle, Honours, note)
	return nil
}

// harm says what a rule does to blobs; empty when it leaves the current version where it can be read.
func harm(rule types.LifecycleRule) string {
	if e := rule.Expiration; e != nil && (e.Date != nil || aws.ToInt32(e.Days) > 0) {
		return "deletes blobs"
	}
	for _, move := range rule.Transitions {
		switch move.StorageClass {
		case types.TransitionStorageClassGlacier, types.TransitionStorageClassDeepArchive:
			return "archives blobs, which cannot be read then,"
		}
	}
	return ""
}

// reaches tells whether a rule is about some keys below the prefix, and about all. Blobs have no tags, and any length.
func reaches(rule types.LifecycleRule, prefix string) (some, all bool) {
	//lint:ignore SA1019 rules of before there were filters have it
	of, sized := aws.ToString(rule.Prefix), false
	if f := rule.Filter; f != nil {
		if f.Tag != nil || f.And != nil && len(f.And.Tags) > 0 {
			return false, false
		}
		sized = f.ObjectSizeGreaterThan != nil || f.ObjectSizeLessThan != nil
		if f.Prefix != nil {
			of = *f.Prefix
		}
		if f.And != nil {
			of = aws.ToString(f.And.Prefix)
			sized = f.And.ObjectSizeGreaterThan != nil || f.And.ObjectSizeLessThan != nil
		}
	}
	all = strings.HasPrefix(prefix, of)
	return all || strings.HasPrefix(of, prefix), all && !sized
}
