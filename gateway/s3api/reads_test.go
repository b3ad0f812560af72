package s3api_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencegate/fencegate/fence"
)

func TestRanges(t *testing.T) { ranges(t, newWorld(t)) }

func ranges(t *testing.T, w *world) {
	w.mustPut("a", "0123456789", w.grant("report:a").First())
	w.mustPut("empty", "", w.grant("report:empty").First())
	for _, tt := range []struct {
		key, asked string
		status     int
		body       string
	}{
		{"a", "bytes=0-0", 206, "0"},
		{"a", "bytes=2-4", 206, "234"},
		{"a", "bytes=7-", 206, "789"},
		{"a", "bytes=-3", 206, "789"},
		{"a", "bytes=5-100", 206, "56789"},
		{"a", "bytes=10-", 416, ""},
		{"a", "bytes=-0", 416, ""},
		{"a", "bytes=33-10", 200, "0123456789"},
		{"a", "bytes=x-", 200, "0123456789"},
		{"a", "lines=1-2", 200, "0123456789"},
		{"empty", "bytes=0-0", 416, ""},
		{"empty", "bytes=0-", 416, ""},
		{"empty", "", 200, ""},
	} {
		t.Run(tt.key+" "+tt.asked, func(t *testing.T) {
			answer := w.send(w.signed(http.MethodGet, "/reports/"+tt.key, "", "Range", tt.asked))
			body, err := io.ReadAll(answer.Body)
			if err != nil || answer.StatusCode != tt.status || tt.status != 416 && string(body) != tt.body {
				t.Errorf("%d %q %v", answer.StatusCode, body, err)
			}
		})
	}
}

// An object that came in one piece is its own only part, as in S3.
func TestPartsOfReads(t *testing.T) {
	w := newWorld(t)
	g := w.grant("report:a")
	w.mustPut("whole", "0123456789", w.grant("report:whole").First())
	w.mustPut("empty", "", w.grant("report:empty").First())
	u := w.begin(t, g.First())
	u.part(1, strings.Repeat("1", 5<<20))
	u.part(2, "two")
	if err := u.complete(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		key, part, says string
		status          int
	}{
		{"whole", "1", "0123456789", 206},
		{"whole", "2", "InvalidPartNumber", 416},
		{"whole", "0", "InvalidArgument", 400},
		{"whole", "x", "InvalidArgument", 400},
		{"whole", "10001", "InvalidArgument", 400},
		{"empty", "1", "", 200},
		{"a", "1", "NotImplemented", 501},
		{"a", "2", "NotImplemented", 501},
		{"a", "3", "<ActualPartCount>2<", 416},
		{"none", "1", "NoSuchKey", 404},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			t.Run(method+tt.key+tt.part, func(t *testing.T) {
				answer := w.send(w.signed(method, "/reports/"+tt.key+"?partNumber="+tt.part, ""))
				body, _ := io.ReadAll(answer.Body)
				if answer.StatusCode != tt.status || method == http.MethodGet && !strings.Contains(string(body), tt.says) {
					t.Errorf("%s %s", answer.Status, body)
				}
				if answer.Header.Get("X-Amz-Mp-Parts-Count") != "" || (answer.Header.Get("Content-Range") == "bytes 0-9/10") != (tt.status == 206) {
					t.Errorf("%v", answer.Header)
				}
			})
		}
	}
	if answer := w.send(w.signed(http.MethodGet, "/reports/whole?partNumber=1", "", "Range", "bytes=0-1")); answer.StatusCode != http.StatusBadRequest {
		t.Errorf("with a range, too: %s", answer.Status)
	}
	t.Run("OnePart", func(t *testing.T) {
		u := w.begin(t, g.First()+1)
		u.part(3, "three")
		if err := u.complete(); err != nil {
			t.Fatal(err)
		}
		out, err := w.client().GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("reports"), Key: aws.String("a"), PartNumber: aws.Int32(1)})
		if err != nil || aws.ToInt32(out.PartsCount) != 1 || *out.ContentLength != 5 {
			t.Errorf("%+v %v", out, err)
		}
	})
}

func TestConditionalReads(t *testing.T) {
	w := newWorld(t)
	g := w.grant("report:a")
	etag := w.mustPut("a", "one", g.First())
	future, past := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat), time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)
	for name, tt := range map[string]struct {
		headers []string
		status  int
	}{
		"Match":             {[]string{"If-Match", etag}, 200},
		"MatchOneOf":        {[]string{"If-Match", `"x", ` + etag}, 200},
		"MatchAny":          {[]string{"If-Match", "*"}, 200},
		"MatchOther":        {[]string{"If-Match", `"x"`}, 412},
		"NoneMatch":         {[]string{"If-None-Match", etag}, 304},
		"NoneMatchOther":    {[]string{"If-None-Match", `"x"`}, 200},
		"ModifiedSince":     {[]string{"If-Modified-Since", past}, 200},
		"NotModifiedSince":  {[]string{"If-Modified-Since", future}, 304},
		"Unmodified":        {[]string{"If-Unmodified-Since", future}, 200},
		"ModifiedMeanwhile": {[]string{"If-Unmodified-Since", past}, 412},
		"RangeOfThis":       {[]string{"If-Range", etag, "Range", "bytes=0-0"}, 206},
		"RangeOfOther":      {[]string{"If-Range", `"x"`, "Range", "bytes=0-0"}, 200},
		"GrantStands":       {[]string{"X-Fence-Token", g.First().String()}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			if answer := w.send(w.signed(http.MethodGet, "/reports/a", "", tt.headers...)); answer.StatusCode != tt.status {
				t.Error(answer.Status)
			}
		})
	}
	w.grant("report:a")
	if answer := w.send(w.signed(http.MethodGet, "/reports/a", "", "X-Fence-Token", g.First().String())); answer.StatusCode != http.StatusPreconditionFailed {
		t.Errorf("a read with a token of an older grant: %s", answer.Status)
	}
}

// A write's condition on the ETag is held against the mark, so that nothing comes between.
func TestConditionalWrites(t *testing.T) {
	w := newWorld(t)
	g := w.grant("report:a")
	put := func(n int, body, match string) error {
		_, err := w.client().PutObject(t.Context(), &s3.PutObjectInput{
			Bucket: aws.String("reports"), Key: aws.String("a"), Body: strings.NewReader(body), Metadata: token(g.First() + tokenOf(n)), IfMatch: aws.String(match),
		})
		return err
	}
	if err := put(0, "x", md5Of("one")); code(err) != "NoSuchKey" {
		t.Error(err)
	}
	w.mustPut("a", "one", g.First())
	if err := put(1, "two", md5Of("one")); err != nil {
		t.Error(err)
	}
	if err := put(2, "three", md5Of("one")); code(err) != "PreconditionFailed" {
		t.Error(err)
	}
	if got := w.get("a"); got != "two" {
		t.Error(got)
	}
	w.beforeWrite = func() { w.beforeWrite = nil; w.mustPut("a", "between", g.First()+3) }
	if err := put(4, "five", md5Of("two")); code(err) != "PreconditionFailed" || w.get("a") != "between" {
		t.Errorf("written since the ETag was compared: %v", err)
	}
}

// Keys are any UTF-8, and are never cleaned.
func TestKeys(t *testing.T) {
	w := newWorld(t)
	keys := []string{
		"a//b", "a/b", "/foo", "foo", "foo/", "//", "/", "..", ".", "a/../b", "a/./b", "10+2.jpg", "image(1).jpg", "images/mac@2x.png", "a b", "%2F", "a%20b",
		"caf\u00e9", "cafe\u0301", "a?b", "a#b", "a&b=c", "a:b*c", "日本", strings.Repeat("k", 1024), "\x01", "a\nb", "uploads", "A", "a",
	}
	g := w.grant("scratch")
	client, ctx := w.client(), t.Context()
	for i, key := range keys {
		_, err := client.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String("scratch"), Key: &key, Body: strings.NewReader(key), Metadata: token(g.First() + tokenOf(i))})
		if err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
	for _, key := range keys {
		got, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("scratch"), Key: &key})
		if err != nil {
			t.Errorf("%q: %v", key, err)
			continue
		}
		if body, err := io.ReadAll(got.Body); err != nil || string(body) != key {
			t.Errorf("%q is %q, %v", key, body, err)
		}
		got.Body.Close()
	}
	list := allKeys(t, client, "scratch", 7)
	slices.Sort(keys)
	if !slices.Equal(list, keys) {
		t.Errorf("listed %q\nwant   %q", list, keys)
	}
}

// allKeys lists a bucket in pages, keys encoded as URLs.
func allKeys(t *testing.T, client *s3.Client, bucket string, page int32) (keys []string) {
	t.Helper()
	for pages := s3.NewListObjectsV2Paginator(client, &s3.ListObjectsV2Input{Bucket: &bucket, MaxKeys: &page, EncodingType: "url"}); pages.HasMorePages(); {
		p, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range p.Contents {
			keys = append(keys, decoded(t, *o.Key))
		}
	}
	return keys
}

func TestPresigned(t *testing.T) {
	w := newWorld(t)
	g := w.grant("report:a")
	presign := s3.NewPresignClient(w.client())
	put, err := presign.PresignPutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("reports"), Key: aws.String("a"), Metadata: token(g.First())})
	if err != nil {
		t.Fatal(err)
	}
	send := func(method, url, body string, header http.Header) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, lines := range header {
			r.Header[name] = lines
		}
		return w.send(r)
	}
	if answer := send(http.MethodPut, put.URL, "one", put.SignedHeader); answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		t.Fatalf("%s %s", answer.Status, text)
	}
	other := put.SignedHeader.Clone()
	other.Set("X-Amz-Meta-Fence-Token", (g.First() + 1).String())
	if answer := send(http.MethodPut, put.URL, "two", other); answer.StatusCode != http.StatusForbidden {
		t.Errorf("with another token than was signed: %s", answer.Status)
	}
	bare, err := presign.PresignPutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("reports"), Key: aws.String("a")})
	if err != nil {
		t.Fatal(err)
	}
	unsigned := bare.SignedHeader.Clone()
	unsigned.Set("X-Fence-Token", (g.First() + 1).String())
	if answer := send(http.MethodPut, bare.URL, "two", unsigned); answer.StatusCode != http.StatusBadRequest {
		t.Errorf("with a token that was not signed: %s", answer.Status)
	}
	// A second signature, or list of what it covers, does not make it signed.
	for name, r := range map[string]struct {
		url    string
		header http.Header
	}{
		"Authorization":    {bare.URL, http.Header{"Authorization": {"AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, SignedHeaders=x-fence-token, Signature=00"}}},
		"BeforeTheList":    {strings.Replace(bare.URL, "X-Amz-SignedHeaders=", "X-Amz-SignedHeaders=x-fence-token&X-Amz-SignedHeaders=", 1), nil},
		"BehindTheList":    {bare.URL + "&X-Amz-SignedHeaders=x-fence-token", nil},
		"InsteadOfTheList": {strings.Replace(bare.URL, "X-Amz-SignedHeaders=host", "X-Amz-SignedHeaders=host;&X-Amz-SignedHeaders=x-fence-token", 1), nil},
	} {
		header := unsigned.Clone()
		for k, v := range r.header {
			header[k] = v
		}
		if answer := send(http.MethodPut, r.url, "two", header); answer.StatusCode != http.StatusBadRequest && answer.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s", name, answer.Status)
		}
	}
	if got := w.get("a"); got != "one" {
		t.Errorf("it is %q", got)
	}
	t.Run("TokenInTheURL", func(t *testing.T) { w.presignedToken(t, g.First()+1) })
	get, err := presign.PresignGetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("reports"), Key: aws.String("a")})
	if err != nil {
		t.Fatal(err)
	}
	answer := send(http.MethodGet, get.URL, "", nil)
	if body, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK || string(body) != "two" || answer.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%s %q", answer.Status, body)
	}
	if answer := send(http.MethodGet, get.URL+"0", "", nil); answer.StatusCode != http.StatusForbidden {
		t.Errorf("with another signature: %s", answer.Status)
	}
	if answer := send(http.MethodGet, w.url+"/reports/a", "", nil); answer.StatusCode != http.StatusForbidden {
		t.Errorf("without a signature: %s", answer.Status)
	}
}

// presignedToken puts reports/a as clients do that presign metadata as a part of the URL.
func (w *world) presignedToken(t *testing.T, token fence.Token) {
	presigned := func(query string) string {
		r := w.request(http.MethodPut, "/reports/a?X-Amz-Expires=60&"+query, "")
		url, _, err := v4.NewSigner().PresignHTTP(t.Context(), credentialsOf(accessKey), r, "UNSIGNED-PAYLOAD", "s3", "us-east-1", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimPrefix(url, w.url)
	}
	good := presigned("x-amz-meta-by=me&x-amz-meta-fence-token=" + token.String())
	for name, r := range map[string]*http.Request{
		"Changed": w.request(http.MethodPut, strings.Replace(good, token.String(), (token+1).String(), 1), "x"),
		"Twice":   w.request(http.MethodPut, good, "x", "X-Amz-Meta-Fence-Token", (token + 1).String()),
		"Beside":  w.request(http.MethodPut, presigned("x-fence-token="+token.String()), "x", "X-Fence-Token", (token + 1).String()),
		"Differ":  w.request(http.MethodPut, presigned("x-fence-token="+(token+1).String()+"&x-amz-meta-fence-token="+token.String()), "x"),
		"Added":   w.request(http.MethodPut, presigned("x=y")+"&X-Fence-Token="+token.String(), "x"),
	} {
		if answer := w.send(r); answer.StatusCode != http.StatusForbidden && answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", name, answer.Status)
		}
	}
	if got := w.get("a"); got != "one" {
		t.Errorf("it is %q", got)
	}
	if answer := w.send(w.request(http.MethodPut, good, "two")); answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		t.Fatalf("%s %s", answer.Status, text)
	}
	head, err := w.client().HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: aws.String("reports"), Key: aws.String("a")})
	if err != nil || *head.ETag != md5Of("two") || len(head.Metadata) != 1 || head.Metadata["by"] != "me" {
		t.Errorf("%+v %v", head, err)
	}
}
