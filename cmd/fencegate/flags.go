package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/stores"
	"github.com/fencegate/fencegate/stores/s3store"
)

// databaseFlag names the database that holds the ledger and the protected tables.
type databaseFlag struct {
	DatabaseURL string `required:"" env:"FENCEGATE_DATABASE_URL" secret:"" placeholder:"URL" help:"PostgreSQL URL of the database that holds the ledger and the protected tables."`
}

// Validate refuses what is no URL of a database, without quoting it: pgx masks passwords in its errors as well as it can
// find them. A URL a part of whose password would be shown as something else is refused too.
func (f databaseFlag) Validate() error {
	_, err := pgconn.ParseConfig(f.DatabaseURL)
	if err == nil {
		return passwordIsEscaped(f.DatabaseURL)
	}
	const text = "--database-url cannot be parsed; special characters of a password are percent-encoded in a URL and quoted in a keyword string"
	var bad *pgconn.ParseConfigError
	if cause := error(nil); errors.As(err, &bad) {
		if cause = bad.Unwrap(); cause != nil && !quotes(cause) {
			return fmt.Errorf("%s: %w", text, cause)
		}
	}
	return errors.New(text)
}

// quotes tells whether an error repeats a part of what could not be parsed.
func quotes(err error) bool {
	var u *url.Error
	var n *strconv.NumError
	return errors.As(err, &u) || errors.As(err, &n)
}

// backendFlags bound the waits for PostgreSQL and Redis, and name what is kept there.
type backendFlags struct {
	PgBouncer    bool          `name:"pgbouncer" help:"PostgreSQL is behind a pooler in transaction mode, such as PgBouncer."`
	LockTimeout  time.Duration `default:"5s" help:"Longest wait for a lock in PostgreSQL; then the answer is contention."`
	WriteLanes   int           `default:"1" help:"How many transactions at once are made of the writes that come together; 0 gives each write its own."`
	RedisTimeout time.Duration `default:"1s" help:"Longest wait for Redis."`
	RedisPrefix  string        `placeholder:"PREFIX" help:"Prefix of the keys in Redis. Defaults to fencegate: and the id of the ledger, so that two deployments on one Redis do not meet."`
}

// s3AnswerTimeout bounds the wait for S3's answer. The SDK makes three attempts, so an S3 that hangs is reported after
// half a minute.
const s3AnswerTimeout = 10 * time.Second

// limitFlags bound what one request may cost.
type limitFlags struct {
	MaxBody       int64         `default:"1048576" help:"Largest JSON body, in bytes."`
	MaxDepth      int           `default:"64" help:"How deep JSON may nest."`
	MaxPath       int           `default:"16384" help:"Longest request path, in bytes; bounds every name."`
	MaxHeader     int           `default:"65536" help:"Largest request header, in bytes."`
	MaxObject     int64         `default:"5368709120" help:"Largest object, in bytes."`
	MaxMeta       int           `default:"8192" help:"Largest X-Meta-* headers of an object together, in bytes."`
	UploadLimit   time.Duration `default:"1h" help:"Longest upload of one object."`
	DownloadLimit time.Duration `default:"1h" help:"Longest download of one object."`
	AcquireRate   float64       `default:"0" help:"How many acquires a second one principal may make, after a burst of ten seconds' worth; further ones are told 429. Each new lease name costs the ledger a row for ever. 0 is any number."`
	IdleTimeout   time.Duration `default:"2m" help:"How long a connection is kept between requests."`
}

func (f limitFlags) gateway() gateway.Config {
	return gateway.Config{
		MaxPath: f.MaxPath, MaxBody: f.MaxBody, MaxDepth: f.MaxDepth, MaxObject: f.MaxObject, MaxMeta: f.MaxMeta,
		UploadLimit: f.UploadLimit, DownloadLimit: f.DownloadLimit, AcquireRate: f.AcquireRate,
	}
}

// atLeast refuses a time that is too short to make sense.
func atLeast(flag string, d, least time.Duration) error {
	if d < least {
		return fmt.Errorf("%s is at least %v, not %v", flag, least, d)
	}
	return nil
}

// lanes is how pgstore.Config has it.
func (f backendFlags) lanes() int {
	if f.WriteLanes == 0 {
		return -1
	}
	return f.WriteLanes
}

func (f backendFlags) validate() error {
	if f.LockTimeout > time.Hour {
		return fmt.Errorf("--lock-timeout is at most 1h, not %v", f.LockTimeout)
	}
	if f.WriteLanes < 0 || f.WriteLanes > 64 {
		return fmt.Errorf("--write-lanes is 0 to 64, not %d", f.WriteLanes)
	}
	return errors.Join(atLeast("--lock-timeout", f.LockTimeout, 10*time.Millisecond), atLeast("--redis-timeout", f.RedisTimeout, 10*time.Millisecond))
}

func (f limitFlags) validate() error {
	for flag, bytes := range map[string]int64{
		"--max-path": int64(f.MaxPath), "--max-body": f.MaxBody, "--max-depth": int64(f.MaxDepth), "--max-object": f.MaxObject,
	} {
		if bytes < 1 {
			return fmt.Errorf("%s must be positive", flag)
		}
	}
	switch {
	case f.MaxHeader < 4096:
		return errors.New("--max-header is at least 4096")
	case f.MaxMeta < 0:
		return errors.New("--max-meta is not negative")
	case !(f.AcquireRate >= 0 && f.AcquireRate <= 1e6):
		return errors.New("--acquire-rate is 0 (any number) to 1000000")
	}
	return errors.Join(atLeast("--upload-limit", f.UploadLimit, time.Second), atLeast("--download-limit", f.DownloadLimit, time.Second),
		atLeast("--idle-timeout", f.IdleTimeout, time.Second))
}

// collectFlags say when superseded and abandoned blobs are deleted.
type collectFlags struct {
	GCGrace    time.Duration `name:"gc-grace" env:"FENCEGATE_GC_GRACE" default:"24h" help:"How long a superseded blob is kept. Must be longer than the longest upload and download."`
	GCInterval time.Duration `name:"gc-interval" env:"FENCEGATE_GC_INTERVAL" default:"1m" help:"Time between two collections."`
}

func (f collectFlags) validate() error {
	return errors.Join(atLeast("--gc-interval", f.GCInterval, 100*time.Millisecond), atLeast("--gc-grace", f.GCGrace, time.Second))
}

func (f collectFlags) collector(limits limitFlags, log *slog.Logger) stores.CollectorConfig {
	return stores.CollectorConfig{
		Interval: f.GCInterval, Grace: f.GCGrace, UploadLimit: limits.UploadLimit, DownloadLimit: limits.DownloadLimit, Log: log,
	}
}

// s3Flags select a blob store on S3 in place of a directory.
type s3Flags struct {
	S3Endpoint   string `name:"s3-endpoint" env:"FENCEGATE_S3_ENDPOINT" secret:"" placeholder:"URL" help:"Keep blobs in S3 at this endpoint instead of a directory; aws means AWS itself."`
	S3Public     string `name:"s3-public-endpoint" env:"FENCEGATE_S3_PUBLIC_ENDPOINT" secret:"" placeholder:"URL" help:"The S3 as clients reach it, for direct uploads and redirected reads. Defaults to the endpoint."`
	S3Region     string `name:"s3-region" env:"FENCEGATE_S3_REGION" default:"us-east-1" help:"S3 region."`
	S3AccessKey  string `name:"s3-access-key" env:"FENCEGATE_S3_ACCESS_KEY" secret:"" placeholder:"KEY" help:"S3 access key; without one AWS's own chain is asked."`
	S3SecretKey  string `name:"s3-secret-key" env:"FENCEGATE_S3_SECRET_KEY" secret:"" placeholder:"KEY" help:"S3 secret key."`
	S3PathStyle  bool   `name:"s3-path-style" env:"FENCEGATE_S3_PATH_STYLE" default:"true" negatable:"" help:"Put the bucket into the path, not the host name."`
	S3Prefix     string `name:"s3-prefix" env:"FENCEGATE_S3_PREFIX" default:".fencegate/" help:"Reserved key prefix below which blobs are kept in each bucket."`
	S3BlobBucket string `name:"s3-blob-bucket" env:"FENCEGATE_S3_BLOB_BUCKET" placeholder:"BUCKET" help:"Keep all blobs in this bucket instead of each in that of its object. Blobs that exist do not move along."`
}

// check wants one place for blobs: a directory, or S3.
func (f s3Flags) check(dir string) error {
	switch {
	case dir == "" && f.S3Endpoint == "":
		return errors.New("name where blobs are kept: --blob-dir, or --s3-endpoint (aws for AWS itself)")
	case dir != "" && (f.S3Endpoint != "" || f.S3AccessKey != ""):
		return errors.New("blobs are kept in one place: give --blob-dir, or --s3-endpoint and its keys")
	case (f.S3AccessKey == "") != (f.S3SecretKey == ""):
		return errors.New("--s3-access-key and --s3-secret-key go together")
	}
	return nil
}

func (f s3Flags) store() s3store.Config {
	endpoint := f.S3Endpoint
	if endpoint == "aws" {
		endpoint = "" // the SDK's own choice for the region
	}
	return s3store.Config{
		Endpoint: endpoint, PublicEndpoint: f.S3Public, Region: f.S3Region, AccessKey: f.S3AccessKey, SecretKey: f.S3SecretKey,
		PathStyle: f.S3PathStyle, Prefix: f.S3Prefix, BlobBucket: f.S3BlobBucket,
		AnswerTimeout: s3AnswerTimeout,
	}
}

// logFlags choose what is logged. Lines are JSON, on standard error.
type logFlags struct {
	LogLevel string `enum:"debug,info,warn,error" default:"info" help:"Least level to log: debug, info, warn or error."`
}

func (f logFlags) logger(std *streams) *slog.Logger {
	var level slog.Level
	// The enum above leaves nothing to refuse.
	_ = level.UnmarshalText([]byte(f.LogLevel))
	return slog.New(slog.NewJSONHandler(std.err, &slog.HandlerOptions{Level: level}))
}
