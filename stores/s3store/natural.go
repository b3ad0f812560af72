package s3store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores"
)

var _ stores.Naturals = (*Store)(nil)

// Stat implements stores.Naturals. Credentials that may not list a bucket are told 403 of a key that is absent, which is an error here.
func (s *Store) Stat(ctx context.Context, bucket, key string) (stores.Natural, error) {
	if err := s.checkNatural(bucket, key); err != nil {
		return stores.Natural{}, err
	}
	api, err := s.client(ctx)
	if err != nil {
		return stores.Natural{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer cancel()
	out, err := api.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &bucket, Key: &key})
	if err == nil && folds(key) || statusOf(err) == http.StatusBadRequest {
		if listed, other := s.listed(ctx, api, bucket, key); other != nil {
			return stores.Natural{}, other
		} else if !listed {
			return stores.Natural{}, errNoNatural(bucket, nil)
		}
	}
	if err != nil {
		return stores.Natural{}, naturalFailure(err, "describe", bucket)
	}
	return stores.Natural{
		Key: key, Size: aws.ToInt64(out.ContentLength), ETag: unquote(out.ETag), ModifiedAt: aws.ToTime(out.LastModified), Header: headerOf(out),
		Exported: exportedVersion(out.Metadata),
	}, nil
}

// OpenNatural implements stores.Naturals.
func (s *Store) OpenNatural(ctx context.Context, bucket string, n stores.Natural, offset, length int64) (io.ReadCloser, error) {
	if err := s.checkNatural(bucket, n.Key); err != nil {
		return nil, err
	}
	if offset < 0 || length < 0 || offset > n.Size-length {
		return nil, fence.Errorf(fence.CodeInternal, "the object has %d bytes, not %d from %d", n.Size, length, offset)
	}
	if length == 0 {
		// There is no empty range to ask for.
		now, err := s.Stat(ctx, bucket, n.Key)
		if err == nil && !same(n, now) {
			err = errChanged(bucket, nil)
		}
		return http.NoBody, err
	}
	api, err := s.client(ctx)
	if err != nil {
		return nil, err
	}
	out, err := api.GetObject(ctx, &s3.GetObjectInput{
		Bucket: &bucket, Key: &n.Key, IfMatch: quoted(n.ETag), Range: aws.String(fmt.Sprintf("bytes=%d-%d", offset, offset+length-1)),
	})
	if err != nil {
		return nil, naturalFailure(err, "read", bucket)
	}
	// Not every S3 heeds If-Match, and an object without an ETag has nothing to match.
	now := stores.Natural{Size: n.Size, ETag: unquote(out.ETag), ModifiedAt: aws.ToTime(out.LastModified)}
	switch {
	case !same(n, now):
		err = errChanged(bucket, nil)
	case aws.ToInt64(out.ContentLength) != length:
		err = fence.Errorf(fence.CodeStoreUnavailable, "the S3 answered %d bytes of an object instead of %d", aws.ToInt64(out.ContentLength), length)
	}
	if err != nil {
		out.Body.Close()
		return nil, err
	}
	return out.Body, nil
}

// Remove implements stores.Naturals. In a bucket with versions it leaves a delete marker.
func (s *Store) Remove(ctx context.Context, bucket, key string) error {
	if err := s.checkNatural(bucket, key); err != nil {
		if errors.Is(err, stores.ErrMissing) {
			return nil
		}
		return err
	}
	api, err := s.client(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer cancel()
	if folds(key) {
		if listed, err := s.listed(ctx, api, bucket, key); err != nil || !listed {
			return err
		}
	}
	_, err = api.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &bucket, Key: &key})
	if statusOf(err) == http.StatusBadRequest {
		// A key that the server cannot hold is absent.
		if listed, other := s.listed(ctx, api, bucket, key); other != nil || !listed {
			return other
		}
	}
	if err = naturalFailure(err, "delete", bucket); errors.Is(err, stores.ErrMissing) {
		return nil
	}
	return err
}

// checkNatural refuses what no natural object can be: those below the reserved prefix are absent.
func (s *Store) checkNatural(bucket, key string) error {
	if err := checkBucket(bucket); err != nil {
		return err
	}
	if key == "" || s.Reserved(key) {
		return errNoNatural(bucket, nil)
	}
	return nil
}

// Reserved implements stores.Reserver.
func (s *Store) Reserved(key string) bool { return strings.HasPrefix(key, s.cfg.Prefix) }

// folds tells of a key that a server which keeps objects as files may take for another: a//b, a/./b and x/../a/b for a/b. That other
// may even lie below the reserved prefix.
func folds(key string) bool {
	segments := strings.Split(key, "/")
	for i, s := range segments {
		if s == "." || s == ".." || s == "" && i < len(segments)-1 {
			return true
		}
	}
	return false
}

// listed tells whether a bucket has exactly this key. Lists name objects as they are, whatever a server makes of a path.
func (s *Store) listed(ctx context.Context, api *s3.Client, bucket, key string) (bool, error) {
	page, err := s.listPage(ctx, api, listQuery{bucket: bucket, prefix: key, most: 1})
	return err == nil && len(page.items) > 0 && page.items[0].Key == key, err
}

// same tells whether an object is the one that it was. Equal ETags are equal bytes; without them its time must do.
func same(was, is stores.Natural) bool {
	return was.ETag == is.ETag && was.Size == is.Size && (was.ETag != "" || was.ModifiedAt.Equal(is.ModifiedAt))
}

// exportedVersion is what an export says of the copies that it makes; empty for any other object.
func exportedVersion(meta map[string]string) string {
	for name, value := range meta {
		if strings.EqualFold(name, stores.ExportedMeta) {
			return value
		}
	}
	return ""
}

// headerOf leaves out what an export added: whoever takes the object for his own would carry it along.
func headerOf(out *s3.HeadObjectOutput) fence.ObjectHeader {
	h := fence.ObjectHeader{
		ContentType:        text(aws.ToString(out.ContentType)),
		ContentEncoding:    text(withoutFraming(aws.ToString(out.ContentEncoding))),
		ContentDisposition: text(aws.ToString(out.ContentDisposition)),
		CacheControl:       text(aws.ToString(out.CacheControl)),
	}
	for name, value := range out.Metadata {
		if strings.EqualFold(name, stores.ExportedMeta) {
			continue
		}
		if h.Meta == nil {
			h.Meta = make(map[string]string, len(out.Metadata))
		}
		// S3 answers what is not ASCII in the encoding of mails.
		if decoded, err := new(mime.WordDecoder).DecodeHeader(value); err == nil {
			value = decoded
		}
		h.Meta[strings.ToLower(name)] = text(value)
	}
	return h
}

// text makes of a header what a ledger can hold.
func text(s string) string { return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\uFFFD") }

// withoutFraming leaves out aws-chunked, which some servers keep as if the stored bytes still had it.
func withoutFraming(encoding string) string {
	var kept []string
	for e := range strings.SplitSeq(encoding, ",") {
		if e = strings.TrimSpace(e); e != "" && !strings.EqualFold(e, "aws-chunked") {
			kept = append(kept, e)
		}
	}
	return strings.Join(kept, ", ")
}

func unquote(etag *string) string {
	return strings.Trim(strings.TrimPrefix(aws.ToString(etag), "W/"), `"`)
}

func quoted(etag string) *string {
	if etag == "" {
		return nil
	}
	return aws.String(`"` + etag + `"`)
}

// statusOf returns the HTTP status of S3's answer; 0 if it did not answer, or answered well.
func statusOf(err error) int {
	var answer *awshttp.ResponseError
	if errors.As(err, &answer) {
		return answer.HTTPStatusCode()
	}
	return 0
}

func errNoNatural(bucket string, cause error) error {
	return fence.Wrap(fence.CodeNotFound, errors.Join(stores.ErrMissing, cause), "there is no such object in bucket %s", bucket)
}

func errChanged(bucket string, cause error) error {
	return fence.Wrap(fence.CodeContention, errors.Join(stores.ErrChanged, cause), "the object in bucket %s is another one now", bucket)
}

// naturalFailure turns an error of a call about a natural object into one of ours.
func naturalFailure(err error, verb, bucket string) error {
	if err == nil {
		return nil
	}
	switch apiCode(err) {
	case "NoSuchBucket":
		return fence.Wrap(fence.CodeStoreUnavailable, err, "the S3 has no bucket %s", bucket)
	case "InvalidRange":
		// What had these bytes when it was described is shorter now.
		return errChanged(bucket, err)
	}
	switch statusOf(err) {
	case http.StatusNotFound:
		return errNoNatural(bucket, err)
	case http.StatusPreconditionFailed:
		return errChanged(bucket, err)
	}
	return fence.Wrap(fence.CodeStoreUnavailable, err, "%s an object in bucket %s on S3", verb, bucket)
}
