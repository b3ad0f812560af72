package localservers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
)

// portAttempts is how many free ports are tried: another program can take one between its choice and its use.
const portAttempts = 5

// S3Config says where an S3 keeps its objects.
type S3Config struct {
	// Dir is the server's folder. It is made if absent and never shared with anything else. Required.
	Dir string
	// Program is the path of versitygw. Defaults to the one on PATH.
	Program string
	// Log hears what is started and where. Defaults to nothing.
	Log *slog.Logger
}

// S3 is a running versitygw over a folder. Started again it has another endpoint and other keys.
type S3 struct {
	*Process
	// AccessKey and SecretKey are the server's only credentials.
	AccessKey, SecretKey string
	address              string
	health               string
}

// StartS3 starts the versitygw of a folder on a free loopback port and returns when it answers. Without the program
// the error says how to build it. The context bounds the start only.
func StartS3(ctx context.Context, c S3Config) (*S3, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Program == "" {
		program, err := exec.LookPath("versitygw")
		if err != nil {
			return nil, errors.New("versitygw is not installed: run make tools")
		}
		c.Program = program
	}
	dir, err := makeFolder(c.Dir, 0o700)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"objects", "attributes"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			return nil, err
		}
	}
	var failures []error
	for range portAttempts {
		s, err := startS3(ctx, c, dir)
		if err == nil {
			c.Log.Info("S3 is ready", "dir", dir, "endpoint", s.Endpoint(), "pid", s.Pid())
			return s, nil
		}
		failures = append(failures, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(failures...)
}

func startS3(ctx context.Context, c S3Config, dir string) (*S3, error) {
	lock, err := lockFolder(ctx, dir, dir)
	if err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		lock.release()
		return nil, err
	}
	// Nobody else answers on this path, so that an answer comes from this server and not from another on its port.
	s := &S3{AccessKey: rand.Text(), SecretKey: rand.Text(), address: address, health: "/health-" + rand.Text()}
	s.Process, err = startProcess(command{
		name: "versitygw", path: c.Program, dir: dir, logFile: filepath.Join(dir, "server.log"), lock: lock, exited: lock.release,
		args: []string{
			"--port", address, "--health", s.health, "--quiet", "--keep-alive",
			// Not every file system has extended attributes.
			"posix", "--sidecar", filepath.Join(dir, "attributes"), filepath.Join(dir, "objects"),
		},
		env: append(os.Environ(), "ROOT_ACCESS_KEY="+s.AccessKey, "ROOT_SECRET_KEY="+s.SecretKey),
	})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(lock.record(s.Pid()), s.waitReady(ctx, s.answers)); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// Endpoint returns the server's URL.
func (s *S3) Endpoint() string { return "http://" + s.address }

// Region returns the region that requests are signed for.
func (s *S3) Region() string { return "us-east-1" }

func (s *S3) answers() bool {
	client := http.Client{Timeout: probeTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(s.Endpoint() + s.health)
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}
