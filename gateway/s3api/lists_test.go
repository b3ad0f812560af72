package s3api_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

func decoded(t *testing.T, key string) string {
	t.Helper()
	text, err := url.QueryUnescape(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestLists(t *testing.T) {
	w := newWorld(t)
	g, client, ctx := w.grant("scratch"), w.client(), t.Context()
	for i, key := range []string{"a", "b/1", "b/2", "c/d/1", "e"} {
		_, err := client.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String("scratch"), Key: &key, Body: strings.NewReader(key), Metadata: token(g.First() + tokenOf(i))})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		prefix, delimiter string
		want              string
	}{
		{"", "", "a b/1 b/2 c/d/1 e"},
		{"", "/", "a e b/* c/*"},
		{"b/", "/", "b/1 b/2"},
		{"c/", "/", "c/d/*"},
		{"none", "", ""},
	} {
		for _, page := range []int32{1, 2, 1000} {
			t.Run(fmt.Sprintf("V2 %s %s %d", tt.prefix, tt.delimiter, page), func(t *testing.T) {
				var keys, groups []string
				for pages := s3.NewListObjectsV2Paginator(client, &s3.ListObjectsV2Input{Bucket: aws.String("scratch"), Prefix: &tt.prefix, Delimiter: &tt.delimiter, MaxKeys: &page}); pages.HasMorePages(); {
					p, err := pages.NextPage(ctx)
					if err != nil {
						t.Fatal(err)
					}
					for _, o := range p.Contents {
						keys = append(keys, *o.Key)
						if *o.ETag != md5Of(*o.Key) || *o.Size != int64(len(*o.Key)) || o.LastModified.IsZero() {
							t.Errorf("%+v", o)
						}
					}
					for _, c := range p.CommonPrefixes {
						groups = append(groups, *c.Prefix+"*")
					}
					if n := len(p.Contents) + len(p.CommonPrefixes); n != int(*p.KeyCount) || n > int(page) {
						t.Errorf("%d entries, told as %d", n, *p.KeyCount)
					}
				}
				if got := strings.Join(append(keys, groups...), " "); got != tt.want {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			})
		}
		t.Run("V1 "+tt.prefix+" "+tt.delimiter, func(t *testing.T) {
			var keys, groups []string
			for marker := aws.String(""); marker != nil; {
				p, err := client.ListObjects(ctx, &s3.ListObjectsInput{Bucket: aws.String("scratch"), Prefix: &tt.prefix, Delimiter: &tt.delimiter, MaxKeys: aws.Int32(2), Marker: marker})
				if err != nil {
					t.Fatal(err)
				}
				for _, o := range p.Contents {
					keys = append(keys, *o.Key)
				}
				for _, c := range p.CommonPrefixes {
					groups = append(groups, *c.Prefix+"*")
				}
				if marker = p.NextMarker; *p.IsTruncated != (marker != nil) {
					t.Fatalf("%+v", p)
				}
			}
			if got := strings.Join(append(keys, groups...), " "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	t.Run("StartAfter", func(t *testing.T) {
		p, err := client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: aws.String("scratch"), StartAfter: aws.String("b/1")})
		if err != nil || len(p.Contents) != 3 || *p.Contents[0].Key != "b/2" {
			t.Errorf("%+v %v", p, err)
		}
	})
	t.Run("None", func(t *testing.T) {
		p, err := client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: aws.String("scratch"), MaxKeys: aws.Int32(0)})
		if err != nil || len(p.Contents) != 0 || *p.IsTruncated {
			t.Errorf("%+v %v", p, err)
		}
	})
	t.Run("ForeignToken", func(t *testing.T) {
		if _, err := client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: aws.String("scratch"), ContinuationToken: aws.String("!")}); status(err) != 400 {
			t.Error(err)
		}
	})
}

func TestBuckets(t *testing.T) {
	w := newWorld(t)
	client, ctx := w.client(), t.Context()
	list, err := client.ListBuckets(ctx, &s3.ListBucketsInput{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, b := range list.Buckets {
		names = append(names, *b.Name)
	}
	if !slices.Equal(names, []string{"reports", "scratch"}) {
		t.Errorf("%q", names)
	}
	if _, err := client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: aws.String("reports")}); err != nil {
		t.Error(err)
	}
	if _, err := client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: aws.String("nowhere")}); status(err) != 404 {
		t.Error(err)
	}
	if _, err := client.GetBucketLocation(ctx, &s3.GetBucketLocationInput{Bucket: aws.String("reports")}); err != nil {
		t.Error(err)
	}
	if _, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String("reports")}); code(err) != "BucketAlreadyOwnedByYou" {
		t.Error(err)
	}
	if _, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String("more")}); status(err) != 501 {
		t.Error(err)
	}
}
