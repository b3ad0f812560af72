package s3store_test

import (
	"encoding/xml"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores"
	"github.com/fencegate/fencegate/stores/s3store"
)

// lister is an S3 that lists as AWS does: keys are encoded if one asks for it, and a group is listed again as long as there are keys in it
// behind the one to start after. With whole it is one that leaves out a group once the list begins in it, and does not encode.
type lister struct {
	keys  []string // in order
	whole bool
	calls int
}

type listed struct {
	XMLName      xml.Name `xml:"ListBucketResult"`
	EncodingType string   `xml:",omitempty"`
	IsTruncated  bool
	Contents     []struct{ Key string }
	Prefixes     []struct{ Prefix string } `xml:"CommonPrefixes"`
}

func (l *lister) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.calls++
	q := r.URL.Query()
	most, err := strconv.Atoi(q.Get("max-keys"))
	if err != nil || q.Get("list-type") != "2" || q.Get("encoding-type") != "url" {
		failWith(w, http.StatusBadRequest, "InvalidArgument")
		return
	}
	encode, answer := url.QueryEscape, listed{EncodingType: "url"}
	if l.whole {
		encode, answer.EncodingType = func(s string) string { return s }, ""
	}
	prefix, delimiter, after, last := q.Get("prefix"), q.Get("delimiter"), q.Get("start-after"), ""
	for _, key := range l.keys {
		rest, ok := strings.CutPrefix(key, prefix)
		if !ok || key <= after {
			continue
		}
		item, group := key, false
		if at := strings.Index(rest, delimiter); delimiter != "" && at >= 0 {
			item, group = prefix+rest[:at+len(delimiter)], true
		}
		if group && (item == last || l.whole && item <= after) {
			continue
		}
		if len(answer.Contents)+len(answer.Prefixes) == most {
			answer.IsTruncated = true
			break
		}
		if last = item; group {
			answer.Prefixes = append(answer.Prefixes, struct{ Prefix string }{encode(item)})
		} else {
			answer.Contents = append(answer.Contents, struct{ Key string }{encode(item)})
		}
	}
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(answer)
}

// expected is what a list must have, from the keys alone.
func expected(keys []string, q stores.NaturalQuery, reserved string) (items []string, more bool) {
	for _, key := range keys {
		rest, ok := strings.CutPrefix(key, q.Prefix)
		if !ok || key <= q.After || strings.HasPrefix(key, reserved) {
			continue
		}
		if behind, ok := strings.CutPrefix(q.After, q.Prefix); ok && q.Delimiter != "" && strings.HasSuffix(behind, q.Delimiter) && strings.HasPrefix(key, q.After) {
			continue
		}
		item := key
		if at := strings.Index(rest, q.Delimiter); q.Delimiter != "" && at >= 0 {
			item = q.Prefix + rest[:at+len(q.Delimiter)] + "|"
		}
		if len(items) > 0 && items[len(items)-1] == item {
			continue
		}
		if len(items) == q.Limit {
			return items, true
		}
		items = append(items, item)
	}
	return items, false
}

// Random lists are those that the keys alone give, on servers of both kinds, in pages of any size, around and in the reserved prefix.
func TestListsAreThoseOfTheKeys(t *testing.T) {
	const reserved = "b/f/"
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	word := func(most int) string {
		var b strings.Builder
		for range random.IntN(most + 1) {
			b.WriteString([]string{"a", "b", "f", "/", "/", "+", " ", "é"}[random.IntN(8)])
		}
		return b.String()
	}
	l := &lister{}
	s := httptest.NewServer(l)
	defer s.Close()
	blobs := open(t, s3store.Config{Endpoint: s.URL, AccessKey: "access", SecretKey: "secret", PathStyle: true, Prefix: reserved})
	for round := range 60 {
		l.whole, l.keys = round%2 == 0, nil
		for range random.IntN(40) {
			l.keys = append(l.keys, "a"+word(5), word(4)+"x", reserved+word(3)+"y", "b/"+word(3)+"z")
		}
		slices.Sort(l.keys)
		l.keys = slices.Compact(l.keys)
		for range 10 {
			q := stores.NaturalQuery{
				Bucket: "bucket", Limit: 1 + random.IntN(6), Prefix: []string{"", "", "a", "b", "b/", "b/f", reserved, word(2)}[random.IntN(8)],
				Delimiter: []string{"", "/", "/", "f", "a/"}[random.IntN(5)], After: []string{"", word(4), "b/f/x", reserved}[random.IntN(4)],
			}
			want, more := expected(l.keys, q, reserved)
			l.calls = 0
			page, err := blobs.ListNatural(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, n := range page.Objects {
				got = append(got, n.Key)
			}
			for _, g := range page.Groups {
				got = append(got, g+"|")
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) || page.More != more {
				t.Fatalf("seed %d, list %+v of %q: %q, more: %t, want %q, %t", seed, q, l.keys, got, page.More, want, more)
			}
			if l.calls > 8 {
				t.Errorf("seed %d, list %+v of %q took %d requests", seed, q, l.keys, l.calls)
			}
		}
	}
}

// The blobs of a bucket are stepped over, not read.
func TestReservedKeysAreSteppedOver(t *testing.T) {
	l := &lister{}
	for i := range 5000 {
		l.keys = append(l.keys, fmt.Sprintf(".fencegate/blobs/%04d", i))
	}
	l.keys = append(l.keys, "a", "b")
	s := httptest.NewServer(l)
	defer s.Close()
	blobs := open(t, s3store.Config{Endpoint: s.URL, AccessKey: "access", SecretKey: "secret", PathStyle: true})
	page, err := blobs.ListNatural(t.Context(), stores.NaturalQuery{Bucket: "bucket", Limit: 10})
	if err != nil || len(page.Objects) != 2 || page.More || l.calls > 2 {
		t.Errorf("%+v, %v after %d requests", page, err, l.calls)
	}
}

func TestListThatDoesNotGoOnIsAnError(t *testing.T) {
	s := newScript(t, func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		fmt.Fprint(w, `<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>a</Key></Contents></ListBucketResult>`)
		return true
	})
	if _, err := open(t, s.config()).ListNatural(t.Context(), stores.NaturalQuery{Bucket: "bucket", Limit: 10}); fence.CodeOf(err) != fence.CodeStoreUnavailable {
		t.Errorf("list: %v", err)
	}
	if s.count("GET") > 3 {
		t.Errorf("%d requests", s.count("GET"))
	}
}
