package s3store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/tracing"
)

// Config says where the S3 is and how it is used.
type Config struct {
	// Endpoint is the server's URL. Defaults to AWS's endpoint of the region.
	Endpoint string
	// PublicEndpoint is the server's URL as clients reach it, for the requests that are signed for them. Defaults to Endpoint.
	PublicEndpoint string
	// Region is the region that requests are signed for. Defaults to that of AWS's own configuration, and to
	// us-east-1 with an access key.
	Region string
	// AccessKey and SecretKey are the credentials. Defaults to AWS's own chain: environment, shared files, roles.
	AccessKey, SecretKey string
	// PathStyle puts the bucket into the path instead of the host name. Defaults to false.
	PathStyle bool
	// Prefix comes before the keys of blobs. Defaults to ".fencegate/".
	Prefix string
	// BlobBucket is the bucket that all blobs lie in. Defaults to each object's own.
	BlobBucket string
	// PartSize is the length in bytes of the parts that a longer body is cut into, at least 5 MiB. An object has
	// at most 10 000 parts. Defaults to 8 MiB.
	PartSize int64
	// Memory is how many bytes all uploads together may buffer; more uploads wait. Bodies up to 64 KiB do not count.
	// At least PartSize. Defaults to 128 MiB.
	Memory int64
	// DialTimeout bounds each of the three attempts to connect. Defaults to 1.5 s.
	DialTimeout time.Duration
	// AnswerTimeout bounds the wait for an answer once a request was sent. Defaults to 30 s.
	AnswerTimeout time.Duration
	// CallTimeout bounds a call with all its attempts, but for the body of a download. Defaults to 5 min.
	CallTimeout time.Duration
	// Tracer is told of the SDK's calls and their attempts. Defaults to nobody.
	Tracer tracing.TracerProvider
}

const (
	mebi = 1 << 20

	defaultPrefix = ".fencegate/"
	defaultRegion = "us-east-1"
	minPartSize   = 5 * mebi

	// attempts and maxBackoff keep a dead S3 from holding a request for longer than three connection timeouts.
	attempts   = 3
	maxBackoff = 200 * time.Millisecond

	// idleConns is enough for the uploads that the default memory admits at once.
	idleConns = 32
)

func (c Config) withDefaults() Config {
	c.Prefix = cmp.Or(c.Prefix, defaultPrefix)
	c.PartSize = cmp.Or(c.PartSize, 8*mebi)
	c.Memory = cmp.Or(c.Memory, max(128*mebi, c.PartSize))
	c.DialTimeout = cmp.Or(c.DialTimeout, 1500*time.Millisecond)
	c.AnswerTimeout = cmp.Or(c.AnswerTimeout, 30*time.Second)
	c.CallTimeout = cmp.Or(c.CallTimeout, 5*time.Minute)
	if c.AccessKey != "" {
		c.Region = cmp.Or(c.Region, defaultRegion)
	}
	return c
}

func (c Config) validate() error {
	switch {
	case (c.AccessKey == "") != (c.SecretKey == ""):
		return fmt.Errorf("s3: an access key and a secret key go together")
	case c.PartSize < minPartSize:
		return fmt.Errorf("s3: a part has at least %d bytes, not %d", minPartSize, c.PartSize)
	case c.Memory < c.PartSize:
		return fmt.Errorf("s3: a memory of %d bytes does not hold a part of %d", c.Memory, c.PartSize)
	case c.DialTimeout < 0 || c.AnswerTimeout < 0 || c.CallTimeout < 0:
		return fmt.Errorf("s3: timeouts must be positive: dial %v, answer %v, call %v", c.DialTimeout, c.AnswerTimeout, c.CallTimeout)
	case !validPrefix(c.Prefix):
		return fmt.Errorf("s3: the prefix %q must be letters, digits and ._-/, not start with / and end with it", c.Prefix)
	}
	if c.BlobBucket != "" {
		if err := checkBucket(c.BlobBucket); err != nil {
			return fmt.Errorf("s3: the bucket of blobs: %w", err)
		}
	}
	return errors.Join(checkEndpoint("endpoint", c.Endpoint), checkEndpoint("public endpoint", c.PublicEndpoint))
}

func checkEndpoint(what, endpoint string) error {
	if endpoint == "" {
		return nil
	}
	// The URL itself stays out of the error: it may hold a password.
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("s3: the %s must be an http or https URL", what)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("s3: the %s has only a scheme, a host and a path; credentials are settings of their own", what)
	}
	return nil
}

func validPrefix(p string) bool {
	for _, c := range []byte(p) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("._-/", c) >= 0:
		default:
			return false
		}
	}
	return p[0] != '/' && strings.HasSuffix(p, "/")
}

// newClient makes the SDK's client. Without an access key it reads AWS's own configuration, which may take time.
func newClient(ctx context.Context, c Config, h *awshttp.BuildableClient) (*s3.Client, error) {
	configure := func(o *s3.Options) {
		if c.Endpoint != "" {
			o.BaseEndpoint = aws.String(c.Endpoint)
		}
		if b, ok := o.HTTPClient.(*awshttp.BuildableClient); ok {
			// A client of the SDK's cannot close its connections.
			o.HTTPClient = &http.Client{Transport: b.GetTransport(), CheckRedirect: sameMethodOnly}
		}
		if c.Tracer != nil {
			o.TracerProvider = c.Tracer
		}
		o.UsePathStyle = c.PathStyle
		o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts = attempts
			o.MaxBackoff = maxBackoff
			o.Retryables = append(o.Retryables, retry.RetryableErrorCode{Codes: map[string]struct{}{"ConditionalRequestConflict": {}}})
		})
		// Every upload carries its own checksum; other stores do not know the SDK's default ones.
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		o.DisableLogOutputChecksumValidationSkipped = true
	}
	if c.AccessKey != "" {
		return s3.New(s3.Options{
			Region:      c.Region,
			Credentials: credentials.NewStaticCredentialsProvider(c.AccessKey, c.SecretKey, ""),
			HTTPClient:  h,
		}, configure), nil
	}
	// By default the SDK writes plain lines to standard error, into the program's log.
	load := []func(*config.LoadOptions) error{config.WithHTTPClient(h), config.WithLogger(logging.Nop{})}
	if c.Region != "" {
		load = append(load, config.WithRegion(c.Region))
	}
	shared, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, err
	}
	return s3.NewFromConfig(shared, configure), nil
}

func newHTTP(c Config) *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = c.DialTimeout }).
		WithTransportOptions(func(t *http.Transport) {
			// Bytes come back as they were stored, whatever a store says of their encoding.
			t.DisableCompression = true
			t.MaxIdleConnsPerHost = idleConns
			t.ResponseHeaderTimeout = c.AnswerTimeout
			t.TLSHandshakeTimeout = 2 * c.DialTimeout
		})
}

// sameMethodOnly follows the redirects that repeat a request as it was, such as S3's to another region.
func sameMethodOnly(r *http.Request, via []*http.Request) error {
	const most = 5
	switch r.Response.StatusCode {
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		if len(via) < most {
			return nil
		}
	}
	return http.ErrUseLastResponse
}
