package s3probe

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

const (
	readBack    = "read after write"
	rangedReads = "ranged reads"
	emptyBlobs  = "empty blobs"
	absentKeys  = "absent keys"
	deletes     = "deletes"
	blobKeys    = "blob keys"
	wrongBytes  = "wrong bytes are refused"
	wrongPart   = "wrong bytes of a part are refused"
)

// tryReads stores a few blobs, one after the other, and reads each at once.
func tryReads(ctx context.Context, t *trial) error {
	const tries = 3
	outcome, note := Honours, ""
	for i := range tries {
		body, key := random(bodySize+i), t.key(fmt.Sprintf("read-%d", i))
		if err := t.putBlob(ctx, key, body); err != nil {
			return err
		}
		wrong, err := t.differs(ctx, key, body)
		if err != nil {
			return err
		}
		if wrong != "" {
			outcome, note = Wrong, wrong
			break
		}
	}
	t.find(readBack, outcome, note)
	return nil
}

// differs tells how what is stored differs from the body; empty when it does not.
func (s *session) differs(ctx context.Context, key string, body []byte) (string, error) {
	length, err := s.length(ctx, key)
	switch {
	case isAbsent(err):
		return "what was stored is not there", nil
	case err != nil:
		return "", err
	case length != int64(len(body)):
		return fmt.Sprintf("%d bytes were stored, HEAD tells of %d", len(body), length), nil
	}
	got, err := s.get(ctx, key, "", len(body))
	switch {
	case isAbsent(err):
		return "HEAD finds what was stored, GET does not", nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "GET ends early", nil
	case err != nil:
		return "", err
	case len(got) != len(body):
		return fmt.Sprintf("%d bytes were stored, GET has %d", len(body), len(got)), nil
	case !bytes.Equal(got, body):
		return "GET has other bytes than were stored", nil
	}
	return "", nil
}

// tryRanges reads parts of an object, as the gateway reads all of them.
func tryRanges(ctx context.Context, t *trial) error {
	body, key := random(bodySize), t.key("ranges")
	if err := t.putBlob(ctx, key, body); err != nil {
		return err
	}
	for _, span := range [][2]int{{0, 0}, {100, 199}, {len(body) - 7, len(body) - 1}, {0, len(body) - 1}} {
		want := body[span[0] : span[1]+1]
		asked := fmt.Sprintf("bytes=%d-%d", span[0], span[1])
		got, err := t.get(ctx, key, asked, len(body))
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF):
			t.find(rangedReads, Wrong, asked+" ends early")
			return nil
		case err != nil:
			return err
		case bytes.Equal(got, want):
		case bytes.Equal(got, body):
			t.find(rangedReads, Ignores, asked+" has the whole object")
			return nil
		default:
			t.find(rangedReads, Wrong, fmt.Sprintf("%s has %d bytes that are not those", asked, len(got)))
			return nil
		}
	}
	if _, err := t.get(ctx, key, fmt.Sprintf("bytes=%d-%d", len(body), len(body)+9), len(body)); err == nil {
		t.find(rangedReads, Wrong, "a range behind the end is no error")
		return nil
	} else if !saysNo(err) {
		return err
	}
	t.find(rangedReads, Honours, "")
	return nil
}

func tryEmpty(ctx context.Context, t *trial) error {
	key := t.key("empty")
	if err := t.putBlob(ctx, key, nil); err != nil {
		return err
	}
	wrong, err := t.differs(ctx, key, nil)
	if err != nil {
		return err
	}
	t.find(emptyBlobs, outcomeOf(wrong), wrong)
	return nil
}

// outcomeOf is Wrong when there is something to say.
func outcomeOf(wrong string) Outcome {
	if wrong != "" {
		return Wrong
	}
	return Honours
}

func tryAbsent(ctx context.Context, t *trial) error {
	key := t.root + "never-stored"
	wrong, err := t.stillThere(ctx, key)
	if err != nil {
		return err
	}
	if wrong == "" {
		if _, err := t.length(ctx, key); mayNotAsk(err) {
			t.attend(absentKeys, Refuses, "403 for what is absent: give these credentials the right to list the bucket, so that a lost blob is told as lost")
			return nil
		}
	}
	t.find(absentKeys, outcomeOf(wrong), wrong)
	return nil
}

// stillThere tells what finds the object; empty when nothing does.
func (s *session) stillThere(ctx context.Context, key string) (string, error) {
	if _, err := s.length(ctx, key); err == nil {
		return "HEAD finds an object that is not there", nil
	} else if !hides(err) {
		return "", err
	}
	if _, err := s.get(ctx, key, "", bodySize); err == nil {
		return "GET finds an object that is not there", nil
	} else if !hides(err) {
		return "", err
	}
	return "", nil
}

func tryDeletes(ctx context.Context, t *trial) error {
	key := t.key("deleted")
	if err := t.putBlob(ctx, key, random(bodySize)); err != nil {
		return err
	}
	if err := t.delete(ctx, key); err != nil {
		return err
	}
	wrong, err := t.stillThere(ctx, key)
	if err != nil {
		return err
	}
	if wrong == "" {
		// The gateway takes a 404 for it, too.
		if err := t.delete(ctx, key); err != nil && !isAbsent(err) {
			wrong = "deleting what is not there: " + brief(err)
		}
	}
	t.find(deletes, outcomeOf(wrong), wrong)
	return nil
}

// tryKeys uses the longest id that a blob may have, all of its characters, and two ids that differ in case only.
func tryKeys(ctx context.Context, t *trial) error {
	const alphabet = "abcdefghijklmnopqrstuvwxyz0123456789-_ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	bodies := make(map[string][]byte)
	for _, id := range []string{strings.Repeat(alphabet, 2), "blob-id", "BLOB-id"} {
		key, body := t.key("blobs/"+id), random(100)
		if err := t.putBlob(ctx, key, body); err != nil {
			return err
		}
		bodies[key] = body
	}
	for key, body := range bodies {
		wrong, err := t.differs(ctx, key, body)
		if err != nil {
			return err
		}
		if wrong != "" {
			t.find(blobKeys, Wrong, "of a few keys, some differing in case: "+wrong)
			return nil
		}
	}
	t.find(blobKeys, Honours, "")
	return nil
}

// tryWrongBytes sends other bytes than those whose SHA-256 the request carries, as the gateway carries it: as a
// checksum and in the signature. One of the two is enough.
func tryWrongBytes(ctx context.Context, t *trial) error {
	body := random(bodySize)
	sum := sha256.Sum256(body)
	key := t.key("wrong-bytes")
	_, err := t.put(ctx, key, but(body), func(in *s3.PutObjectInput) { in.ChecksumSHA256 = checksum(sum[:]) }, signedAs(sum))
	outcome, note := Honours, brief(err)
	switch {
	case err == nil:
		outcome, note = Ignores, "bytes that were changed on the way are stored"
	case !saysNo(err):
		return err
	default:
		if _, err := t.length(ctx, key); err == nil {
			outcome, note = Wrong, "they are refused, and visible"
		} else if !hides(err) {
			return err
		}
	}
	t.find(wrongBytes, outcome, note)

	note, err = t.wrongPart(ctx, body)
	switch {
	case err == nil:
		t.find(wrongPart, Ignores, note)
	case !saysNo(err):
		return err
	default:
		t.find(wrongPart, Honours, brief(err))
	}
	return nil
}

// wrongPart sends other bytes than those whose checksum a part carries: a CRC where the server says that it knows that, which must also not
// confirm it, else a SHA-256, in the signature too. It is no error when the bytes pass.
func (t *trial) wrongPart(ctx context.Context, body []byte) (note string, err error) {
	up, known, err := t.beginWith(ctx, "wrong-part-crc", types.ChecksumAlgorithmCrc64nvme, types.ChecksumTypeFullObject)
	if err != nil && !saysNo(err) {
		return "", err
	}
	if err == nil && known {
		sum := checksum(crc64NVME(body))
		out, err := t.api.UploadPart(ctx, &s3.UploadPartInput{
			Bucket: &t.cfg.Bucket, Key: &up.key, UploadId: &up.id, PartNumber: aws.Int32(1),
			Body: bytes.NewReader(but(body)), ContentLength: aws.Int64(bodySize), ChecksumCRC64NVME: sum,
		}, s3.WithAPIOptions(v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware))
		if err == nil && aws.ToString(out.ChecksumCRC64NVME) == *sum {
			return "the CRC of bytes that were changed on the way is confirmed", nil
		}
		if err != nil && !saysNo(err) {
			return "", err
		}
	}
	if up, _, err = t.beginWith(ctx, "wrong-part", types.ChecksumAlgorithmSha256, types.ChecksumTypeComposite); err != nil {
		return "", err
	}
	sum := sha256.Sum256(body)
	_, err = t.api.UploadPart(ctx, &s3.UploadPartInput{
		Bucket: &t.cfg.Bucket, Key: &up.key, UploadId: &up.id, PartNumber: aws.Int32(1),
		Body: bytes.NewReader(but(body)), ContentLength: aws.Int64(bodySize), ChecksumSHA256: checksum(sum[:]),
	}, signedAs(sum))
	return "bytes that were changed on the way are stored", err
}
