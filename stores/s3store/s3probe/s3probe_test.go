package s3probe

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

func configOf(t *testing.T, env testenv.S3) Config {
	t.Helper()
	return Config{Client: clientOf(t, env, env.Endpoint), Bucket: env.Bucket}
}

// everything lists what a bucket has: keys, and uploads that are open.
func everything(t *testing.T, env testenv.S3) (all []string) {
	t.Helper()
	client := clientOf(t, env, env.Endpoint)
	objects, err := client.ListObjectsV2(context.WithoutCancel(t.Context()), &s3.ListObjectsV2Input{Bucket: &env.Bucket})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects.Contents {
		all = append(all, *o.Key)
	}
	uploads, err := client.ListMultipartUploads(context.WithoutCancel(t.Context()), &s3.ListMultipartUploadsInput{Bucket: &env.Bucket})
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range uploads.Uploads {
		all = append(all, "upload of "+*u.Key)
	}
	return all
}

func wantFinding(t *testing.T, r Report, name string, o Outcome, note string) {
	t.Helper()
	if f, ok := r.Finding(name); !ok || f.Outcome != o || !strings.Contains(f.Note, note) {
		t.Errorf("%s: %q %q, want %q with %q", name, f.Outcome, f.Note, o, note)
	}
}

func TestRun(t *testing.T) {
	env := testenv.Bucket(t)
	cfg := configOf(t, env)
	cfg.Prefix = "some/where/"
	foreign := []string{"a", "some/where/.fencegate-doctor/other", "some/where/blobs/b", "upload of some/where/.fencegate-doctor/open"}
	for _, key := range foreign[:3] {
		if _, err := cfg.Client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &env.Bucket, Key: &key, Body: strings.NewReader("x")}); err != nil {
			t.Fatal(err)
		}
	}
	open := strings.TrimPrefix(foreign[3], "upload of ")
	if _, err := cfg.Client.CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: &env.Bucket, Key: &open}); err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict != Safe || len(r.Faults) > 0 {
		t.Errorf("verdict %s: %v", r.Verdict, r.Faults)
	}
	var names []string
	for _, f := range r.Findings {
		names = append(names, f.Name)
		if f.Name != tornUploads && f.Outcome != Honours || f.Attend {
			t.Errorf("%+v", f)
		}
	}
	want := []string{cleanUp}
	for _, p := range probes() {
		want = append(want, p.finds...)
	}
	slices.Sort(want)
	slices.Sort(names)
	if !slices.Equal(names, want) {
		t.Errorf("findings %q, want %q", names, want)
	}
	// versitygw answers 200 to half a body, unless a checksum tells.
	wantFinding(t, r, tornUploads, Wrong, "a torn upload without a checksum is answered 200")
	if f, _ := r.Finding(tornUploads); f.Needed || strings.Contains(f.Note, "blob") {
		t.Errorf("%+v", f)
	}
	if left := everything(t, env); !slices.Equal(left, foreign) {
		t.Errorf("left behind: %q, want %q", left, foreign)
	}
	if advice := fmt.Sprint(r.Advice); !strings.Contains(advice, "no fencing on any store") || !strings.Contains(advice, "a part of it") || strings.Contains(advice, "Build no locks") {
		t.Errorf("advice: %s", advice)
	}
}

func TestBucketThatTakesNothing(t *testing.T) {
	env := testenv.Bucket(t)
	cfg := configOf(t, env)
	cfg.Bucket = "no-such-bucket"
	if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "bucket no-such-bucket: 404 NoSuchBucket") {
		t.Errorf("%v", err)
	}
	env.SecretKey = "wrong-secret"
	if _, err := Run(t.Context(), configOf(t, env)); err == nil || !strings.Contains(err.Error(), "403") || strings.Contains(err.Error(), "wrong-secret") {
		t.Errorf("%v", err)
	}
	env.Endpoint = "http://127.0.0.1:1"
	cfg = configOf(t, env)
	cfg.ProbeTimeout, cfg.CleanupTimeout = 300*time.Millisecond, 300*time.Millisecond
	if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "refused") && !strings.Contains(err.Error(), "deadline") {
		t.Errorf("%v", err)
	}
}

func TestBadConfigIsRefused(t *testing.T) {
	client := s3.New(s3.Options{})
	for name, cfg := range map[string]Config{
		"NoClient":        {Bucket: "b"},
		"NoBucket":        {Client: client},
		"OpenPrefix":      {Client: client, Bucket: "b", Prefix: "x"},
		"RootedPrefix":    {Client: client, Bucket: "b", Prefix: "/x/"},
		"NegativeTimeout": {Client: client, Bucket: "b", Timeout: -1},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Run(t.Context(), cfg); err == nil || !strings.HasPrefix(err.Error(), "probe S3: ") {
				t.Errorf("%v", err)
			}
		})
	}
}

// However far it came, a run that is given up leaves nothing behind, even of a request that is done late.
func TestCancelledRunCleansUp(t *testing.T) {
	for _, after := range []int64{2, 60} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			env := testenv.Bucket(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f := newFront(t, env, func(f *front, e *exchange) {
				if f.requests.Add(1) == after {
					cancel()
					time.Sleep(50 * time.Millisecond)
				}
				e.pass()
			})
			r, err := Run(ctx, f.config())
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
			if r.Verdict == Safe {
				t.Errorf("%+v", r)
			}
			f.Close() // when the late request is done
			if left := everything(t, env); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// A server that hangs is told so, in time: by each probe, and by all together.
func TestRunIsBounded(t *testing.T) {
	for name, limits := range map[string][2]time.Duration{"Each": {50 * time.Millisecond, time.Hour}, "All": {time.Hour, 150 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			hang := make(chan struct{})
			f := newFront(t, testenv.Bucket(t), func(f *front, e *exchange) {
				if f.requests.Add(1) > 1 {
					select {
					case <-e.r.Context().Done():
					case <-hang:
					}
					return
				}
				e.pass()
			})
			defer close(hang)
			cfg := f.config()
			cfg.ProbeTimeout, cfg.Timeout, cfg.CleanupTimeout = limits[0], limits[1], 100*time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			r, err := Run(ctx, cfg)
			if err != nil {
				t.Errorf("%v after %v", err, r.Took)
			}
			if r.Verdict != Unknown || !slices.Contains(r.Faults, multipart) {
				t.Errorf("verdict %s: %v", r.Verdict, r.Faults)
			}
			wantFinding(t, r, readBack, NotMeasured, "no answer within")
			wantFinding(t, r, cleanUp, NotMeasured, "cannot be listed")
		})
	}
}

func TestJudge(t *testing.T) {
	good := Finding{Name: "good", Outcome: Honours, Needed: true}
	other := Finding{Name: "other", Outcome: Wrong}
	open := Finding{Name: "open", Outcome: NotMeasured, Needed: true}
	for _, c := range []struct {
		findings []Finding
		want     Verdict
		faults   string
	}{
		{[]Finding{good, other}, Safe, "[]"},
		{[]Finding{good, open}, Unknown, "[open]"},
		{[]Finding{open, {Name: "bad", Outcome: Ignores, Needed: true}}, Unsafe, "[bad]"},
		{[]Finding{{Name: "bad", Outcome: Refuses, Needed: true}}, Unsafe, "[bad]"},
		{[]Finding{{Name: "bad", Outcome: Wrong, Needed: true}}, Unsafe, "[bad]"},
	} {
		if got, faults := judge(c.findings); got != c.want || fmt.Sprint(faults) != c.faults {
			t.Errorf("%+v: %s %v, want %s %s", c.findings, got, faults, c.want, c.faults)
		}
	}
}

func TestChecksumVectors(t *testing.T) {
	check := []byte("123456789")
	for want, got := range map[string][]byte{"ae8b14860a799888": crc64NVME(check), "e3069283": crc32C(check)} {
		if hex.EncodeToString(got) != want {
			t.Errorf("%x, want %s", got, want)
		}
	}
	if b := random(100); bytes.Equal(b, but(b)) {
		t.Error("the other bytes are the same")
	}
}
