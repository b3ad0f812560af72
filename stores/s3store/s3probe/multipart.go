package s3probe

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

const (
	multipart  = "multipart uploads"
	abort      = "aborted uploads"
	uploadList = "list of uploads"

	smallPart = 64 << 10
	// leastPart is what S3 demands of every part but the last.
	leastPart = 5 << 20
)

// begin creates a multipart upload as the gateway does, and remembers that it is to be aborted.
func (s *session) begin(ctx context.Context, name string) (upload, error) {
	up, _, err := s.beginWith(ctx, name, types.ChecksumAlgorithmSha256, types.ChecksumTypeComposite)
	return up, err
}

// beginWith creates one whose parts carry checksums of a kind, and returns whether the server says that it knows that.
func (s *session) beginWith(ctx context.Context, name string, sum types.ChecksumAlgorithm, of types.ChecksumType) (up upload, known bool, err error) {
	key := s.key(name)
	out, err := s.api.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{
		Bucket: &s.cfg.Bucket, Key: &key, ContentType: aws.String("application/octet-stream"), ChecksumAlgorithm: sum, ChecksumType: of,
	})
	if err != nil {
		return upload{}, false, err
	}
	up = upload{key, aws.ToString(out.UploadId)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uploads = append(s.uploads, up)
	return up, out.ChecksumAlgorithm == sum, nil
}

func (s *session) sendPart(ctx context.Context, up upload, n int32, part []byte) (types.CompletedPart, error) {
	sum := sha256.Sum256(part)
	out, err := s.api.UploadPart(ctx, &s3.UploadPartInput{
		Bucket: &s.cfg.Bucket, Key: &up.key, UploadId: &up.id, PartNumber: aws.Int32(n),
		Body: bytes.NewReader(part), ContentLength: aws.Int64(int64(len(part))), ChecksumSHA256: checksum(sum[:]),
	}, signedAs(sum))
	if err != nil {
		return types.CompletedPart{}, err
	}
	return types.CompletedPart{PartNumber: aws.Int32(n), ETag: out.ETag, ChecksumSHA256: checksum(sum[:])}, nil
}

func (s *session) complete(ctx context.Context, up upload, parts ...types.CompletedPart) error {
	_, err := s.api.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: &s.cfg.Bucket, Key: &up.key, UploadId: &up.id, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	})
	return err
}

func (s *session) abort(ctx context.Context, up upload) error {
	_, err := s.api.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &s.cfg.Bucket, Key: &up.key, UploadId: &up.id})
	return err
}

// tryMultipart joins two parts, and completes the upload twice, as the SDK does when the first answer was lost.
func tryMultipart(ctx context.Context, t *trial) error {
	up, body, parts, note, err := t.completed(ctx)
	if err != nil {
		return err
	}
	wrong, err := t.joined(ctx, up.key, body)
	if err != nil {
		return err
	}
	if wrong != "" {
		t.find(multipart, Wrong, wrong)
		return nil
	}
	again := "completing twice succeeds"
	if err := t.complete(ctx, up, parts...); err != nil {
		// The gateway takes NoSuchUpload for the success of the first, when the length is right.
		again = "completing twice: " + brief(err)
		switch {
		case !saysNo(err):
			return err
		case codeOf(err) != "NoSuchUpload":
			t.find(multipart, Wrong, again)
			return nil
		}
	}
	if wrong, err = t.joined(ctx, up.key, body); err != nil {
		return err
	}
	if wrong != "" {
		t.find(multipart, Wrong, "after completing twice: "+wrong)
		return nil
	}
	t.find(multipart, Honours, note+again)
	return nil
}

// completed completes an upload of two parts: small ones, or of the size that S3 demands, if that is not too slow. Else it
// has one part.
func (s *session) completed(ctx context.Context) (up upload, body []byte, parts []types.CompletedPart, note string, err error) {
	up, body, parts, err = s.sendParts(ctx, "small-parts", smallPart, 1000)
	if err == nil {
		err = s.complete(ctx, up, parts...)
	}
	if err == nil || !saysNo(err) {
		return up, body, parts, "", err
	}
	refused := brief(err)
	limited, cancel := context.WithTimeout(ctx, timeLeft(ctx)*2/3)
	defer cancel()
	up, body, parts, err = s.sendParts(limited, "full-parts", leastPart, 1000)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		note = "one part only, as small ones are refused (" + refused + ") and large ones take too long; "
		up, body, parts, err = s.sendParts(ctx, "one-part", smallPart)
	}
	if err == nil {
		err = s.complete(ctx, up, parts...)
	}
	return up, body, parts, note, err
}

func timeLeft(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Hour
	}
	return time.Until(deadline)
}

// sendParts sends parts of these sizes.
func (s *session) sendParts(ctx context.Context, name string, sizes ...int) (up upload, body []byte, parts []types.CompletedPart, err error) {
	if up, err = s.begin(ctx, name); err != nil {
		return up, nil, nil, err
	}
	for i, size := range sizes {
		part := random(size)
		sent, err := s.sendPart(ctx, up, int32(i+1), part)
		if err != nil {
			return up, nil, nil, err
		}
		body, parts = append(body, part...), append(parts, sent)
	}
	return up, body, parts, nil
}

// joined tells what is wrong with what was made of two parts: its length, or the bytes about the seam.
func (s *session) joined(ctx context.Context, key string, body []byte) (string, error) {
	length, err := s.length(ctx, key)
	switch {
	case isAbsent(err):
		return "an upload was completed, and nothing is there", nil
	case err != nil:
		return "", err
	case length != int64(len(body)):
		return fmt.Sprintf("parts of %d bytes were joined to %d", len(body), length), nil
	}
	from := len(body) - 1500
	got, err := s.get(ctx, key, fmt.Sprintf("bytes=%d-%d", from, len(body)-1), len(body))
	if err != nil {
		return "", err
	}
	if !bytes.Equal(got, body[from:]) && !bytes.Equal(got, body) {
		return "joined parts have other bytes", nil
	}
	return "", nil
}

// tryAbort aborts an upload, and sees that nothing can be made of it any more.
func tryAbort(ctx context.Context, t *trial) error {
	up, err := t.begin(ctx, "aborted")
	if err != nil {
		return err
	}
	part, err := t.sendPart(ctx, up, 1, random(1000))
	if err != nil {
		return err
	}
	if err := t.abort(ctx, up); err != nil {
		return err
	}
	if _, err := t.length(ctx, up.key); err == nil {
		t.find(abort, Wrong, "an upload was aborted, and is visible")
		return nil
	} else if !hides(err) {
		return err
	}
	err = t.complete(ctx, up, part)
	switch {
	case err == nil:
		t.find(abort, Ignores, "an aborted upload can be completed")
		return nil
	case statusOf(err) == 0:
		return err
	}
	// Some answer 500 to this; what counts is that nothing came of it.
	note := brief(err)
	if _, err := t.length(ctx, up.key); err == nil {
		t.find(abort, Wrong, "completing an aborted upload is refused, and makes an object")
		return nil
	} else if !hides(err) {
		return err
	}
	t.find(abort, Honours, note)
	return nil
}

// tryUploadList looks for an upload that was begun: a list finds what gateways that were killed left behind.
func tryUploadList(ctx context.Context, t *trial) error {
	up, err := t.begin(ctx, "listed/upload")
	if err != nil {
		return err
	}
	found, err := t.openUploads(ctx, strings.TrimSuffix(up.key, "upload"))
	if err != nil {
		return err
	}
	for _, u := range found {
		if u == up {
			t.find(uploadList, Honours, "")
			return nil
		}
	}
	t.find(uploadList, Wrong, "an upload is not listed below its prefix")
	return nil
}

// openUploads are the first thousand uploads below a prefix, of this run only.
func (s *session) openUploads(ctx context.Context, prefix string) (found []upload, err error) {
	out, err := s.api.ListMultipartUploads(ctx, &s3.ListMultipartUploadsInput{Bucket: &s.cfg.Bucket, Prefix: &prefix})
	if err != nil {
		return nil, err
	}
	for _, u := range out.Uploads {
		if key := aws.ToString(u.Key); s.ours(key) {
			found = append(found, upload{key, aws.ToString(u.UploadId)})
		}
	}
	return found, nil
}
