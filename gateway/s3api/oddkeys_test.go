package s3api_test

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"testing"
)

// A list of 1001 keys, with characters that mean something in a URL or in XML, goes on behind each of them, on both fronts. Its ends are listed
// key by key.
func TestPagesOfOneKey(t *testing.T) {
	s := newServers(t)
	keys := make([]string, 1001)
	for i := range keys {
		keys[i] = fmt.Sprintf("%c%d !'/+&<%c", "az "[i%3], i%10, rune('A'+i/10))
	}
	slices.Sort(keys)
	s.exec(t, `SELECT fence.set_options($1, '', '{"existing":false}')`, s.Bucket)
	s.exec(t, `WITH b AS (INSERT INTO fence.blobs (bucket, principal, state) VALUES ($1, 'p', 'committed') RETURNING id)
		INSERT INTO fence.objects (bucket, key, blob, size, deleted, modified_at, token) SELECT $1, k, b.id, 1, false, now(), 7 FROM unnest($2::text[]) k, b`, s.Bucket, keys)
	b := s.open(t, 0)
	ask := func(r *http.Request) []byte {
		t.Helper()
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s %s %v", answer.Status, text, err)
		}
		return text
	}
	for name, page := range map[string]func(after string, limit int) (got []string, next string){
		"HTTP": func(after string, limit int) (got []string, next string) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.api+"/v1/objects/"+b.Bucket+"?limit="+strconv.Itoa(limit)+"&after="+url.QueryEscape(after), nil)
			if err != nil {
				t.Fatal(err)
			}
			var p struct {
				Objects []struct{ Key string }
				Next    string
			}
			if err := json.Unmarshal(ask(r), &p); err != nil {
				t.Fatal(err)
			}
			for _, o := range p.Objects {
				got = append(got, o.Key)
			}
			return got, p.Next
		},
		"S3": func(after string, limit int) (got []string, next string) {
			query := "?list-type=2&max-keys=" + strconv.Itoa(limit)
			if after != "" {
				query += "&continuation-token=" + url.QueryEscape(after)
			}
			var p struct {
				Contents              []struct{ Key string }
				NextContinuationToken string
			}
			if err := xml.Unmarshal(ask(b.signed(http.MethodGet, "/"+b.Bucket+query, "")), &p); err != nil {
				t.Fatal(err)
			}
			for _, o := range p.Contents {
				got = append(got, o.Key)
			}
			return got, p.NextContinuationToken
		},
		"S3V1": func(after string, limit int) (got []string, next string) {
			var p struct {
				Contents    []struct{ Key string }
				IsTruncated bool
			}
			if err := xml.Unmarshal(ask(b.signed(http.MethodGet, "/"+b.Bucket+"?encoding-type=url&max-keys="+strconv.Itoa(limit)+"&marker="+url.QueryEscape(after), "")), &p); err != nil {
				t.Fatal(err)
			}
			for _, o := range p.Contents {
				got = append(got, decoded(t, o.Key))
			}
			if p.IsTruncated {
				next = got[len(got)-1]
			}
			return got, next
		},
	} {
		t.Run(name, func(t *testing.T) {
			var all []string
			for after, more := "", true; more && len(all) <= len(keys); more = after != "" {
				limit, got := 1, []string(nil)
				if len(all) == 21 {
					limit = 960
				}
				if got, after = page(after, limit); len(got) > limit {
					t.Fatalf("a page of %d has %q", limit, got)
				}
				all = append(all, got...)
			}
			if !slices.Equal(all, keys) {
				t.Errorf("listed %d keys %.300q, want %d", len(all), all, len(keys))
			}
		})
	}
}

// Every key is one object, whichever front it comes through, and none is another's.
func TestKeysOfBothFronts(t *testing.T) {
	b := newServers(t).open(t, 0)
	keys := []string{"/foo", "foo", "a//b", "a/b", "10+2.jpg", "10 2.jpg", "image(1).jpg", "images/mac@2x.png", "images/mac%402x.png", "caf\u00e9", "cafe\u0301", "%2F", "it's!*~", "a;b=c&d"}
	for i, key := range keys {
		if answer := b.send(b.put(i%2 == 0, key, "of "+key, b.grant("report:"+key).First())); answer.StatusCode/100 != 2 {
			t.Errorf("put %q: %s", key, answer.Status)
		}
	}
	for _, key := range keys {
		for _, overS3 := range []bool{false, true} {
			if status, body := b.read(overS3, key); status != http.StatusOK || body != "of "+key {
				t.Errorf("%q, over S3: %t: %d %q", key, overS3, status, body)
			}
		}
	}
	b.wantBlobs(t, int64(len(keys)))
}
