package testenv

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencegate/fencegate/internal/localservers"
)

// S3 is a bucket of the test's own on an S3. Requests are path-style.
type S3 struct {
	Endpoint  string
	Region    string
	AccessKey string
	SecretKey string
	Bucket    string
}

// Bucket makes an empty bucket on the test binary's S3.
func Bucket(t testing.TB) S3 {
	t.Helper()
	server, err := mustShared(t).s3Server()
	if err != nil {
		t.Fatalf("testenv: S3: %v", err)
	}
	return bucketOn(t, server)
}

// S3Server starts an S3 of the test's own, with a bucket, for tests that pause or kill it.
func S3Server(t testing.TB) (*localservers.S3, S3) {
	t.Helper()
	program, err := versitygw()
	if err != nil {
		t.Fatalf("testenv: S3: %v", err)
	}
	server, err := localservers.StartS3(t.Context(), localservers.S3Config{Dir: QuickDir(t), Program: program})
	if err != nil {
		t.Fatalf("testenv: S3: %v", err)
	}
	stopAfter(t, server)
	return server, bucketOn(t, server)
}

// Client returns a client for the bucket's server.
func (s S3) Client() *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(s.Endpoint),
		Region:       s.Region,
		Credentials:  credentials.NewStaticCredentialsProvider(s.AccessKey, s.SecretKey, ""),
		UsePathStyle: true,
	})
}

func bucketOn(t testing.TB, server *localservers.S3) S3 {
	t.Helper()
	s := S3{
		Endpoint: server.Endpoint(), Region: server.Region(), AccessKey: server.AccessKey, SecretKey: server.SecretKey,
		Bucket: "test-" + strings.ToLower(rand.Text()),
	}
	if _, err := s.Client().CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &s.Bucket}); err != nil {
		t.Fatalf("testenv: create a bucket: %v", err)
	}
	return s
}

// versitygw finds the program: on PATH, else where make tools puts it.
func versitygw() (string, error) {
	if program, err := exec.LookPath("versitygw"); err == nil {
		return program, nil
	}
	root, err := repository()
	if err != nil {
		return "", err
	}
	program := filepath.Join(root, ".cache", "bin", "versitygw")
	if _, err := exec.LookPath(program); err != nil {
		return "", fmt.Errorf("versitygw is neither on PATH nor at %s: run make tools", program)
	}
	return program, nil
}

// repository returns the folder of go.mod. Tests run in their package's folder.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working folder")
		}
		dir = parent
	}
}
