package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// The candidates, by what they do.
const (
	putDirect   = "PUT direct"
	putKnown    = "PUT known length"
	putUnknown  = "PUT unknown length"
	getDirect   = "GET direct"
	getStreamed = "GET streamed"
	getRedirect = "GET redirected"
)

// turn is what one candidate does once. It returns when the last byte is there.
type turn struct {
	name string
	do   func(ctx context.Context, s size) error
}

// measure does it as often as the size says, and returns the median of the times.
func (t turn) measure(ctx context.Context, s size) (time.Duration, error) {
	took := make([]float64, s.times)
	for i := range took {
		began := time.Now()
		if err := t.do(ctx, s); err != nil {
			return 0, err
		}
		took[i] = float64(time.Since(began))
	}
	return time.Duration(median(took)), nil
}

func (d *deployment) turns(s size) []turn {
	return []turn{
		{putDirect, d.putDirect}, {putKnown, d.putKnown}, {putUnknown, d.putUnknown},
		{getDirect, d.getDirect}, {getStreamed, d.getStreamed}, {getRedirect, d.getRedirected},
	}
}

// body is what is sent, made of one block again and again, so that making it costs next to nothing.
func (d *deployment) body(s size) io.Reader {
	return io.LimitReader(&repeating{block: d.block}, s.bytes)
}

type repeating struct {
	block []byte
	at    int
}

func (r *repeating) Read(p []byte) (int, error) {
	n := copy(p, r.block[r.at:])
	r.at = (r.at + n) % len(r.block)
	return n, nil
}

func key(s size) string { return fmt.Sprintf("body-%d", s.bytes) }

func (d *deployment) putDirect(ctx context.Context, s size) error {
	_, err := d.api.PutObject(ctx, &s3.PutObjectInput{Bucket: &d.bucket, Key: aws.String("direct-" + key(s)), Body: onlyReader{d.body(s)}, ContentLength: &s.bytes},
		s3.WithAPIOptions(v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware))
	return err
}

// onlyReader hides what else a body can do.
type onlyReader struct{ io.Reader }

func (d *deployment) putKnown(ctx context.Context, s size) error { return d.put(ctx, s, s.bytes) }

func (d *deployment) putUnknown(ctx context.Context, s size) error { return d.put(ctx, s, -1) }

func (d *deployment) put(ctx context.Context, s size, length int64) error {
	token, err := d.nextToken(ctx)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, d.url+"/v1/objects/"+d.bucket+"/"+key(s), onlyReader{d.body(s)})
	if err != nil {
		return err
	}
	r.ContentLength = length
	r.Header.Set("X-Fence-Token", fmt.Sprint(token))
	return d.send(r, nil)
}

// send sends a request, and reads the answer to its end into a sink.
func (d *deployment) send(r *http.Request, sink io.Writer) error {
	answer, err := d.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return fmt.Errorf("%s %s: %s: %s", r.Method, r.URL.Path, answer.Status, bytes.TrimSpace(text))
	}
	if sink == nil {
		sink = io.Discard
	}
	_, err = io.Copy(sink, answer.Body)
	return err
}

func (d *deployment) getDirect(ctx context.Context, s size) error {
	out, err := d.api.GetObject(ctx, &s3.GetObjectInput{Bucket: &d.bucket, Key: aws.String("direct-" + key(s))})
	if err != nil {
		return err
	}
	defer out.Body.Close()
	return whole(io.Copy(io.Discard, out.Body))(s)
}

// whole demands that all of a body was read.
func whole(n int64, err error) func(size) error {
	return func(s size) error {
		if err == nil && n != s.bytes {
			err = fmt.Errorf("%d of %d bytes", n, s.bytes)
		}
		return err
	}
}

func (d *deployment) getStreamed(ctx context.Context, s size) error { return d.get(ctx, s, "stream") }

func (d *deployment) getRedirected(ctx context.Context, s size) error {
	return d.get(ctx, s, "redirect")
}

func (d *deployment) get(ctx context.Context, s size, how string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+"/v1/objects/"+d.bucket+"/"+key(s), nil)
	if err != nil {
		return err
	}
	r.Header.Set("Prefer", how)
	var n counter
	if err := d.send(r, &n); err != nil {
		return err
	}
	return whole(int64(n), nil)(s)
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
