package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"golang.org/x/sync/errgroup"

	"github.com/fencegate/fencegate/internal/localservers"
	"github.com/fencegate/fencegate/stores/pgstore"
)

// deployment is a gateway in front of private servers.
type deployment struct {
	postgres *localservers.Postgres
	redis    *localservers.Redis
	s3       *localservers.S3
	program  string
	process  *exec.Cmd
	url      string
	client   *http.Client
	api      *s3.Client
	bucket   string
	block    []byte
	idle     int64 // resident memory of the gateway before it did anything, in bytes
	closing  []func() error

	mu    sync.Mutex
	token int64 // guarded by mu
	last  int64 // guarded by mu
}

func startDeployment(ctx context.Context, o options) (d *deployment, err error) {
	d = &deployment{program: o.gateway, bucket: "bench-bucket", block: make([]byte, 1<<20), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}}
	_, _ = rand.Read(d.block)
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	dir, err := os.MkdirTemp("", "fencegate-bench-")
	if err != nil {
		return d, err
	}
	d.closing = append(d.closing, func() error { return os.RemoveAll(dir) })
	if d.postgres, err = localservers.StartPostgres(ctx, localservers.PostgresConfig{Dir: filepath.Join(dir, "postgres")}); err != nil {
		return d, err
	}
	d.closing = append(d.closing, d.postgres.Stop)
	if d.redis, err = localservers.StartRedis(ctx, localservers.RedisConfig{Dir: filepath.Join(dir, "redis")}); err != nil {
		return d, err
	}
	d.closing = append(d.closing, d.redis.Stop)
	if d.s3, err = localservers.StartS3(ctx, localservers.S3Config{Dir: filepath.Join(dir, "s3"), Program: o.versitygw}); err != nil {
		return d, err
	}
	d.closing = append(d.closing, d.s3.Stop)
	if _, err := pgstore.Migrate(ctx, d.postgres.URL("")); err != nil {
		return d, err
	}
	store, err := pgstore.Open(pgstore.Config{URL: d.postgres.URL("")})
	if err != nil {
		return d, err
	}
	defer store.Close()
	if err := store.ProtectBucket(ctx, d.bucket, "", "bench"); err != nil {
		return d, err
	}
	d.api = s3.New(s3.Options{
		BaseEndpoint: aws.String(d.s3.Endpoint()), Region: d.s3.Region(), UsePathStyle: true,
		Credentials:                credentials.NewStaticCredentialsProvider(d.s3.AccessKey, d.s3.SecretKey, ""),
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired, ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
	})
	if _, err := d.api.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &d.bucket}); err != nil {
		return d, err
	}
	return d, d.startGateway()
}

func (d *deployment) close() (err error) {
	d.stopGateway()
	for i := len(d.closing) - 1; i >= 0; i-- {
		err = errors.Join(err, d.closing[i]())
	}
	d.closing = nil
	return err
}

func (d *deployment) startGateway() error {
	d.process = exec.Command(d.program, "serve", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--drain-delay=0s", "--log-level=warn",
		"--database-url="+d.postgres.URL(""), "--redis-url="+d.redis.URL(), "--s3-endpoint="+d.s3.Endpoint(),
		"--s3-access-key="+d.s3.AccessKey, "--s3-secret-key="+d.s3.SecretKey, "--s3-region="+d.s3.Region())
	d.process.Stderr = os.Stderr
	out, err := d.process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := d.process.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, url, found := strings.Cut(lines.Text(), "ready on "); found {
			d.url = url
			break
		}
	}
	if d.url == "" {
		return errors.New("the gateway does not become ready")
	}
	go func() {
		for lines.Scan() { // it must not wait for a reader
		}
	}()
	d.mu.Lock()
	d.token, d.last = 0, 0
	d.mu.Unlock()
	d.idle, err = d.resident("VmHWM")
	return err
}

func (d *deployment) stopGateway() {
	if d.process == nil || d.process.Process == nil {
		return
	}
	_ = d.process.Process.Signal(syscall.SIGTERM)
	_ = d.process.Wait()
	d.process, d.url = nil, ""
}

// nextToken is one that was not spent yet.
func (d *deployment) nextToken(ctx context.Context) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.token < d.last {
		d.token++
		return d.token, nil
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url+"/v1/leases/bench", strings.NewReader(`{"ttl":"100ms","wait":"10s"}`))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	var text strings.Builder
	if err := d.send(r, &text); err != nil {
		return 0, err
	}
	var grant struct {
		Token int64 `json:"token"`
		Last  int64 `json:"token_last"`
	}
	if err := json.Unmarshal([]byte(text.String()), &grant); err != nil {
		return 0, err
	}
	d.token, d.last = grant.Token, grant.Last
	return d.token, nil
}

// peak starts a gateway anew, does something so many times at once, and returns the most memory that it had, in bytes.
func (d *deployment) peak(ctx context.Context, at int, do func(context.Context) error) (int64, error) {
	d.stopGateway()
	if err := d.startGateway(); err != nil {
		return 0, err
	}
	all, ctx := errgroup.WithContext(ctx)
	for range at {
		all.Go(func() error { return do(ctx) })
	}
	if err := all.Wait(); err != nil && at == 1 {
		return 0, err // of several, those that come late are refused: their tokens are old
	}
	return d.resident("VmHWM")
}

var digits = regexp.MustCompile(`\d+`)

// resident reads a line of the process's status, in bytes. It is there on Linux only.
func (d *deployment) resident(line string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.process.Process.Pid))
	if os.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for l := range strings.Lines(string(text)) {
		if strings.HasPrefix(l, line+":") {
			n, err := strconv.ParseInt(digits.FindString(l), 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("there is no %s in the status of the gateway", line)
}

func (d *deployment) about() string {
	return fmt.Sprintf("versitygw on loopback, %s, %d CPUs, %s", runtime.Version(), runtime.NumCPU(), time.Now().UTC().Format(time.DateOnly))
}
