package s3probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

const (
	presignedGet    = "presigned GET"
	presignedPut    = "presigned PUT"
	presignedLength = "presigned PUT: signed length"
	presignedSum    = "presigned PUT: signed checksum"
	unsigned        = "unsigned requests are refused"
)

func tryPresignedGet(ctx context.Context, t *trial) error {
	key, body := t.key("presigned-get"), random(bodySize)
	if _, err := t.put(ctx, key, body, nil); err != nil {
		return err
	}
	pre, err := t.presigner().PresignGetObject(ctx, &s3.GetObjectInput{Bucket: &t.cfg.Bucket, Key: &key})
	if err != nil {
		return err
	}
	for _, span := range []string{"", "bytes=100-199"} {
		r, err := presigned(ctx, pre)
		if err != nil {
			return err
		}
		want := body
		if span != "" {
			// A range may be asked for without being signed.
			r.Header.Set("Range", span)
			want = body[100:200]
		}
		answer, err := t.send(r)
		if saysNo(err) {
			t.find(presignedGet, Refuses, brief(err))
			return nil
		}
		if err != nil {
			return err
		}
		got, err := io.ReadAll(io.LimitReader(answer.Body, bodySize+1))
		answer.Body.Close()
		if err != nil {
			return err
		}
		if !bytes.Equal(got, want) {
			t.find(presignedGet, Wrong, "other bytes than asked for")
			return nil
		}
	}
	t.find(presignedGet, Honours, "")
	return nil
}

// tryPresignedPut signs the length and the checksum of a body, and sends that body, a longer one and another one.
func tryPresignedPut(ctx context.Context, t *trial) error {
	body := random(bodySize)
	send := func(name string, sent []byte) func() error {
		return func() error {
			key := t.key("presigned-put-" + name)
			pre, err := t.presigner().PresignPutObject(ctx, &s3.PutObjectInput{
				Bucket: &t.cfg.Bucket, Key: &key, ContentLength: aws.Int64(bodySize), ChecksumSHA256: checksum(sumSHA256(body)),
			})
			if err != nil {
				return err
			}
			r, err := presigned(ctx, pre)
			if err != nil {
				return err
			}
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(sent)), int64(len(sent))
			answer, err := t.send(r)
			if err != nil {
				return err
			}
			return answer.Body.Close()
		}
	}
	right := send("right", body)
	outcome, note, err := contrast(right, send("other", but(body)))
	if err != nil {
		return err
	}
	if outcome == Refuses {
		t.find(presignedPut, Refuses, note)
		t.find(presignedLength, Refuses, note)
		t.find(presignedSum, Refuses, note)
		return nil
	}
	t.find(presignedPut, Honours, "")
	t.find(presignedSum, outcome, note)
	// The checksum would give away a longer body, too: this one has none.
	longer := func() error {
		key := t.key("presigned-put-longer")
		pre, err := t.presigner().PresignPutObject(ctx, &s3.PutObjectInput{Bucket: &t.cfg.Bucket, Key: &key, ContentLength: aws.Int64(bodySize)})
		if err != nil {
			return err
		}
		r, err := presigned(ctx, pre)
		if err != nil {
			return err
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(random(bodySize+1))), bodySize+1
		answer, err := t.send(r)
		if err != nil {
			return err
		}
		return answer.Body.Close()
	}
	outcome, note, err = contrast(func() error { return nil }, longer)
	if err != nil {
		return err
	}
	t.find(presignedLength, outcome, note)
	return nil
}

// tryUnsigned reads and writes without credentials. A bucket that lets anybody write has a way around the gateway.
func tryUnsigned(ctx context.Context, t *trial) error {
	key := t.key("unsigned")
	signed, err := t.signedPut(ctx, key, 0, nil)
	if err != nil {
		return err
	}
	for _, method := range []string{http.MethodPut, http.MethodGet} {
		r, err := http.NewRequestWithContext(ctx, method, signed.URL.String(), nil)
		if err != nil {
			return err
		}
		if method == http.MethodPut {
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(random(100))), 100
		}
		answer, err := t.send(r)
		switch {
		case err == nil:
			answer.Body.Close()
			does := map[string]string{http.MethodPut: "write: a way around the gateway", http.MethodGet: "read"}[method]
			t.attend(unsigned, Wrong, "without credentials anybody may "+does)
			return nil
		case !saysNo(err):
			return err
		}
		if method == http.MethodPut {
			// So that there is something to read.
			if _, err := t.put(ctx, key, random(100), nil); err != nil {
				return err
			}
		}
	}
	t.find(unsigned, Honours, "")
	return nil
}

func (s *session) presigner() *s3.PresignClient {
	return s3.NewPresignClient(s.api, func(o *s3.PresignOptions) { o.Expires = time.Minute })
}

// rawAnswer is the answer to a request that was not the SDK's.
type rawAnswer struct{ status int }

func (a *rawAnswer) Error() string { return fmt.Sprintf("status %d", a.status) }

// send makes a request that is signed already, with the client's connections and without its retries.
func (s *session) send(r *http.Request) (*http.Response, error) {
	client := s.api.Options().HTTPClient
	if client == nil {
		client = http.DefaultClient
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode >= 300 {
		answer.Body.Close()
		return nil, &rawAnswer{answer.StatusCode}
	}
	return answer, nil
}

// presigned makes a request of a presigned one.
func presigned(ctx context.Context, pre *v4.PresignedHTTPRequest) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, pre.Method, pre.URL, nil)
	if err != nil {
		return nil, errors.New("the client made a URL that cannot be parsed")
	}
	for name, values := range pre.SignedHeader {
		if name != "Host" && name != "Content-Length" {
			r.Header[name] = values
		}
	}
	return r, nil
}
