package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"

	"github.com/fencegate/fencegate/stores/s3store/s3probe"
)

// probeOnly judges an S3 by one bucket, and looks at nothing else.
func (c *doctorCmd) probeOnly(ctx context.Context, r *report) error {
	if c.BlobDir != "" || c.S3Endpoint == "" {
		return errors.New("--s3-bucket needs --s3-endpoint (aws for AWS itself), and no --blob-dir")
	}
	if err := c.s3Flags.check(""); err != nil {
		return err
	}
	// What a gateway refuses is refused here, too.
	_, _, closeStore, err := openBlobs(c.s3Flags, "")
	if err != nil {
		return err
	}
	if err := closeStore(); err != nil {
		return err
	}
	c.probeBucket(ctx, r, c.S3Bucket)
	return nil
}

// probeBucket tells what the S3 of a bucket gets wrong, and whether fencegate is safe on it.
func (c *doctorCmd) probeBucket(ctx context.Context, r *report, bucket string) {
	what := "bucket " + bucket
	client, closeClient, err := c.s3Client(ctx)
	if err != nil {
		r.fail(what, "%v", err)
		return
	}
	defer closeClient()
	found, err := s3probe.Run(ctx, s3probe.Config{
		Client: client, Bucket: bucket, Prefix: c.S3Prefix, ProbeTimeout: c.Timeout / 2, Timeout: 2 * c.Timeout, CleanupTimeout: c.Timeout,
	})
	if err != nil {
		r.fail(what, "%s: %v", c.s3Place(), err)
		return
	}
	for _, f := range found.Findings {
		tellFinding(r, what+": "+f.Name, f, c.Verbose)
	}
	if c.Verbose {
		for _, advice := range found.Advice {
			r.ok(what+": advice", "%s", advice)
		}
	}
	tellVerdict(r, what+": verdict", c.s3Place(), found)
}

func tellFinding(r *report, what string, f s3probe.Finding, all bool) {
	text := strings.TrimSuffix(fmt.Sprintf("%s: %s", f.Outcome, f.Note), ": ")
	switch {
	case f.Needed && f.Outcome != s3probe.Honours:
		r.fail(what, "%s; fencegate needs this", text)
	case f.Attend:
		r.warn(what, "%s", text)
	case all && !f.Needed && f.Outcome != s3probe.Honours:
		r.ok(what, "%s; fencegate does not need this", text)
	case all:
		r.ok(what, "%s", text)
	}
}

func tellVerdict(r *report, what, where string, found s3probe.Report) {
	faults := strings.Join(found.Faults, ", ")
	switch found.Verdict {
	case s3probe.Unsafe:
		r.fail(what, "%s is unsafe for fencegate: %s", where, faults)
	case s3probe.Unknown:
		r.fail(what, "%s is not shown to be safe for fencegate, not measured: %s", where, faults)
	default:
		r.ok(what, "%s is safe for fencegate (%v)%s", where, found.Took.Round(10*time.Millisecond), otherwise(found.Findings))
	}
}

// otherwise lists what a safe store does not do.
func otherwise(findings []s3probe.Finding) string {
	var names []string
	for _, f := range findings {
		if f.Outcome != s3probe.Honours {
			names = append(names, fmt.Sprintf("%s (%s)", f.Name, f.Outcome))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; not needed: " + strings.Join(names, ", ")
}

// s3Place names the S3 without a secret.
func (f s3Flags) s3Place() string {
	if f.S3Endpoint == "aws" {
		return "AWS S3 in " + f.S3Region
	}
	return "S3 at " + redact(f.S3Endpoint)
}

// s3Client returns a client with connections of its own, which the second result ends.
func (f s3Flags) s3Client(ctx context.Context) (*s3.Client, func(), error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true
	transport.ResponseHeaderTimeout = s3AnswerTimeout
	web := &http.Client{Transport: transport, CheckRedirect: sameRequestOnly}
	configure := func(o *s3.Options) {
		if f.S3Endpoint != "aws" {
			o.BaseEndpoint = aws.String(f.S3Endpoint)
		}
		o.UsePathStyle, o.RetryMaxAttempts = f.S3PathStyle, 2
	}
	if f.S3AccessKey != "" {
		return s3.New(s3.Options{
			Region: f.S3Region, HTTPClient: web, Credentials: credentials.NewStaticCredentialsProvider(f.S3AccessKey, f.S3SecretKey, ""),
		}, configure), transport.CloseIdleConnections, nil
	}
	shared, err := config.LoadDefaultConfig(ctx, config.WithHTTPClient(web), config.WithLogger(logging.Nop{}), config.WithRegion(cmp.Or(f.S3Region, "us-east-1")))
	if err != nil {
		return nil, nil, fmt.Errorf("read the AWS configuration: %w", err)
	}
	return s3.NewFromConfig(shared, configure), transport.CloseIdleConnections, nil
}

// sameRequestOnly follows the redirects that repeat a request as it was, such as AWS's for a bucket that is new.
func sameRequestOnly(r *http.Request, via []*http.Request) error {
	const most = 3
	status := r.Response.StatusCode
	if (status == http.StatusTemporaryRedirect || status == http.StatusPermanentRedirect) && len(via) < most {
		return nil
	}
	return http.ErrUseLastResponse
}
