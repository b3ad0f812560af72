package s3api

import (
	"strings"
	"time"

	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
)

func (c *call) listBuckets(in s3response.ListBucketsInput) (s3response.ListAllMyBucketsResult, error) {
	answer := s3response.ListAllMyBucketsResult{Owner: s3response.CanonicalUser{ID: c.caller.Principal()}, Prefix: in.Prefix}
	if err := c.admit(); err != nil {
		return answer, err
	}
	names, err := c.cfg.Objects.Buckets(c.r.Context())
	if err != nil {
		return answer, err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, in.Prefix) || name <= in.ContinuationToken || !c.caller.MayBelow(gateway.Action{Verb: gateway.VerbRead, Bucket: name}) {
			continue
		}
		if len(answer.Buckets.Bucket) == int(in.MaxBuckets) {
			answer.ContinuationToken = answer.Buckets.Bucket[len(answer.Buckets.Bucket)-1].Name
			break
		}
		// When a bucket was made nobody knows here; clients want a time all the same.
		answer.Buckets.Bucket = append(answer.Buckets.Bucket, s3response.ListAllMyBucketsEntry{Name: name, CreationDate: time.Unix(0, 0)})
	}
	return answer, nil
}

// headBucket tells whether the bucket is protected and the caller may read something of it. To others it says no more than that they may not.
func (c *call) headBucket(bucket string) error {
	if err := c.beginList(bucket, ""); err != nil {
		return err
	}
	_, err := c.cfg.Objects.ListObjects(c.r.Context(), fence.ObjectQuery{Bucket: bucket, Limit: 1})
	return err
}

func (c *call) createBucket(bucket string) error {
	if err := c.headBucket(bucket); fence.CodeOf(err) == fence.CodeNotFound {
		return notImplemented("making buckets: make it where blobs are kept, and protect it with fencegate protect --bucket;")
	} else if err != nil {
		return err
	}
	return s3err.GetBucketErr(s3err.ErrBucketAlreadyOwnedByYou, bucket)
}
