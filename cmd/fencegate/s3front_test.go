//go:build !nos3

package main

import (
	"regexp"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Variables are named like flags; kong by itself makes S_3_FRONT of a field S3Front.
func TestVariablesKeepDigitsWhereTheyAre(t *testing.T) {
	parser, _ := newParser(t)
	split, seen := regexp.MustCompile(`_[0-9]+(_|$)`), 0
	var look func(*kong.Node)
	look = func(n *kong.Node) {
		for _, f := range n.Flags {
			for _, env := range f.Envs {
				seen++
				if split.MatchString(env) {
					t.Errorf("--%s of %s is %s in the environment", f.Name, n.FullPath(), env)
				}
			}
		}
		for _, child := range n.Children {
			look(child)
		}
	}
	look(parser.Model.Node)
	if seen < 100 {
		t.Errorf("only %d variables were looked at", seen)
	}
}

// The environment alone opens the front, as the env file of fencegate dev names it.
func TestS3FrontFromTheEnvironment(t *testing.T) {
	const access, secret = "FENCEGATE-OFTHEENV", "SecretOfTheEnvironment32CharactersOrMore"
	t.Setenv("FENCEGATE_S3_FRONT_LISTEN", "127.0.0.1:0")
	t.Setenv("FENCEGATE_S3_FRONT_ACCESS_KEY", access)
	t.Setenv("FENCEGATE_S3_FRONT_SECRET_KEY", secret)
	s := startServing(t)
	lines := s.log.lines("S3 front")
	for deadline := time.Now().Add(20 * time.Second); len(lines) == 0; lines = s.log.lines("S3 front") { // told after the gateway's own
		if time.Now().After(deadline) {
			t.Fatalf("the front was not opened: %s", s.log)
		}
		time.Sleep(10 * time.Millisecond)
	}
	list, err := s3.New(s3.Options{
		BaseEndpoint: aws.String(lines[0]["url"].(string)), Region: "us-east-1", UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(access, secret, ""),
	}).ListBuckets(t.Context(), &s3.ListBucketsInput{})
	if err != nil || len(list.Buckets) != 1 || aws.ToString(list.Buckets[0].Name) != s.bucket {
		t.Errorf("%+v, %v", list, err)
	}
}
