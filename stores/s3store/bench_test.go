package s3store_test

import (
	"crypto/rand"
	"fmt"
	"io"
	"testing"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencegate/fencegate/internal/testenv"
)

// onlyReader hides what else a body can do.
type onlyReader struct{ io.Reader }

// BenchmarkPut stores bodies of known length through the store and with the SDK alone, in turn, and reports the ratio of their best times.
func BenchmarkPut(b *testing.B) {
	for _, size := range []int64{64 << 20, 1 << 30} {
		b.Run(fmt.Sprint(size>>20, "MiB"), func(b *testing.B) {
			env := testenv.Bucket(b)
			store, api := open(b, configOf(env)), env.Client()
			block := make([]byte, 1<<20)
			_, _ = rand.Read(block)
			body := func() io.Reader { return onlyReader{io.LimitReader(&blocks{block: block}, size)} }
			var ours, direct time.Duration
			for i := 0; b.Loop(); i++ {
				name := fmt.Sprint(id, i)
				ours = shorter(b, ours, func() error { return store.Put(b.Context(), env.Bucket, name, body(), size) })
				if err := store.Delete(b.Context(), env.Bucket, name); err != nil {
					b.Fatal(err)
				}
				direct = shorter(b, direct, func() error {
					_, err := api.PutObject(b.Context(), &s3.PutObjectInput{Bucket: &env.Bucket, Key: &name, Body: body(), ContentLength: &size},
						s3.WithAPIOptions(v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware))
					return err
				})
				if _, err := api.DeleteObject(b.Context(), &s3.DeleteObjectInput{Bucket: &env.Bucket, Key: &name}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(direct)/float64(ours), "of-direct")
			b.ReportMetric(float64(size)/ours.Seconds()/1e6, "MB/s")
		})
	}
}

func shorter(b *testing.B, best time.Duration, f func() error) time.Duration {
	b.Helper()
	start := time.Now()
	if err := f(); err != nil {
		b.Fatal(err)
	}
	if took := time.Since(start); best == 0 || took < best {
		return took
	}
	return best
}

// blocks repeats a block for ever.
type blocks struct {
	block []byte
	at    int
}

func (r *blocks) Read(p []byte) (int, error) {
	n := copy(p, r.block[r.at:])
	r.at = (r.at + n) % len(r.block)
	return n, nil
}
