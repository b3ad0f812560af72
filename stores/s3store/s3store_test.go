package s3store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/stores"
	"github.com/fencegate/fencegate/stores/s3store"
	"github.com/fencegate/fencegate/stores/storetest"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

func open(t testing.TB, cfg s3store.Config) *s3store.Store {
	t.Helper()
	s, err := s3store.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func configOf(env testenv.S3) s3store.Config {
	return s3store.Config{Endpoint: env.Endpoint, Region: env.Region, AccessKey: env.AccessKey, SecretKey: env.SecretKey, PathStyle: true}
}

func TestBlobs(t *testing.T) {
	storetest.RunBlobs(t, func(t *testing.T) (stores.Blobs, string) {
		env := testenv.Bucket(t)
		return open(t, configOf(env)), env.Bucket
	})
}

// With memory for one part only, every upload has one buffer and waits for the one before it.
func TestBlobsWithOneBuffer(t *testing.T) {
	storetest.RunBlobs(t, func(t *testing.T) (stores.Blobs, string) {
		env := testenv.Bucket(t)
		cfg := configOf(env)
		cfg.PartSize, cfg.Memory = 5<<20, 5<<20
		return open(t, cfg), env.Bucket
	})
}

const id = "0123456789abcdef"

func TestBlobLiesBelowThePrefix(t *testing.T) {
	env := testenv.Bucket(t)
	cfg := configOf(env)
	cfg.Prefix = "some/where/"
	if err := open(t, cfg).Put(t.Context(), env.Bucket, id, strings.NewReader("body"), 4); err != nil {
		t.Fatal(err)
	}
	list, err := env.Client().ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &env.Bucket})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Contents) != 1 || *list.Contents[0].Key != "some/where/blobs/"+id {
		t.Errorf("objects: %+v", list.Contents)
	}
}

func TestFailedUploadLeavesNoParts(t *testing.T) {
	env := testenv.Bucket(t)
	err := open(t, configOf(env)).Put(t.Context(), env.Bucket, id, strings.NewReader(strings.Repeat("x", 20<<20)), 21<<20)
	if fence.CodeOf(err) != fence.CodeInvalidRequest {
		t.Errorf("put: %v", err)
	}
	list, err := env.Client().ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: &env.Bucket})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Uploads) != 0 {
		t.Errorf("uploads: %+v", list.Uploads)
	}
}

func TestMissingBucketIsNamed(t *testing.T) {
	s := open(t, configOf(testenv.Bucket(t)))
	err := s.Put(t.Context(), "no-such-bucket", id, strings.NewReader("body"), 4)
	if fence.CodeOf(err) != fence.CodeStoreUnavailable || !strings.Contains(err.Error(), "no-such-bucket") {
		t.Errorf("put: %v", err)
	}
	if _, err := s.Open(t.Context(), "no-such-bucket", id, 0, 1); fence.CodeOf(err) != fence.CodeStoreUnavailable {
		t.Errorf("open: %v", err)
	}
	if err := s.Delete(t.Context(), "no-such-bucket", id); err != nil {
		t.Errorf("delete: %v", err)
	}
}

func TestWrongSecretIsNotTold(t *testing.T) {
	env := testenv.Bucket(t)
	cfg := configOf(env)
	cfg.SecretKey = "wrong-secret-value"
	err := open(t, cfg).Put(t.Context(), env.Bucket, id, strings.NewReader("body"), 4)
	if fence.CodeOf(err) != fence.CodeStoreUnavailable {
		t.Fatalf("put: %v", err)
	}
	if strings.Contains(err.Error(), cfg.SecretKey) || strings.Contains(err.Error(), env.SecretKey) {
		t.Error("the error tells a secret")
	}
}

func TestCredentialsOfTheEnvironment(t *testing.T) {
	env := testenv.Bucket(t)
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_REGION", env.Region)
	for name, c := range map[string]struct {
		access, secret string
		want           fence.Code
	}{"Right": {env.AccessKey, env.SecretKey, fence.CodeAccepted}, "None": {"", "", fence.CodeStoreUnavailable}} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("AWS_ACCESS_KEY_ID", c.access)
			t.Setenv("AWS_SECRET_ACCESS_KEY", c.secret)
			s := open(t, s3store.Config{Endpoint: env.Endpoint, PathStyle: true})
			if err := s.Put(t.Context(), env.Bucket, id, strings.NewReader("body"), 4); fence.CodeOf(err) != c.want {
				t.Errorf("put: %v, want %s", err, c.want)
			}
		})
	}
}

func TestBadConfigIsRefused(t *testing.T) {
	for name, cfg := range map[string]s3store.Config{
		"HalfCredentials":  {AccessKey: "a"},
		"SmallParts":       {PartSize: 5<<20 - 1},
		"MemoryBelowAPart": {PartSize: 8 << 20, Memory: 8<<20 - 1},
		"NegativeTimeout":  {DialTimeout: -1},
		"RootedPrefix":     {Prefix: "/x/"},
		"OpenPrefix":       {Prefix: "x"},
		"OddPrefix":        {Prefix: "x y/"},
		"OddBlobBucket":    {BlobBucket: "a/b"},
		"NoScheme":         {Endpoint: "127.0.0.1:7070"},
		"OddScheme":        {Endpoint: "ftp://host"},
		"Password":         {Endpoint: "http://user:s3cret@host"},
		"Unparsable":       {Endpoint: "http://user:s3cret@ho st"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s3store.New(cfg)
			if err == nil {
				t.Fatal("no error")
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error tells a secret: %v", err)
			}
		})
	}
}
