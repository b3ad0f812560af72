package pgstore_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/gatewaytest"
)

var updateDocument = flag.Bool("update-openapi", false, "write the document in testdata anew, and its transcript")

// The document describes what PostgreSQL answers: internal/openapitest validates both, and one against the other.
func TestOpenAPIOfEveryType(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE TYPE mood AS ENUM ('happy', 'it''s "so-so"'); CREATE DOMAIN price AS numeric(50,20) CHECK (VALUE >= 0); CREATE TYPE pair AS (a int, b text);
		CREATE TABLE things (id int8, part text, i8 int8, i2 int2, i4 int NOT NULL, n numeric, p price, f4 real, f8 double precision, t text, v varchar(5), c char(4), b bytea,
			j json, jb jsonb NOT NULL DEFAULT '{}', u uuid, m mood, ms mood[], d date, ts timestamp, tz timestamptz, ti time, tt timetz, iv interval,
			arr int8[], texts text[], nested int[], nums numeric[], bs bytea[], js jsonb[], r int4range, nr numrange, tr tstzrange, mr int4multirange,
			ip inet, net cidr, mac macaddr, bo boolean, bi bit(4), x xml, pt point, co pair, cos pair[], o oid, tv tsvector,
			gen int GENERATED ALWAYS AS (i2 * 2) STORED, ident bigint GENERATED ALWAYS AS IDENTITY, PRIMARY KEY (id, part));
		COMMENT ON COLUMN things.part IS 'a <part>, as <b>it</b> says';
		CREATE TABLE notes (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text NOT NULL, at timestamptz NOT NULL DEFAULT '2026-01-02T03:04:05Z');
		SELECT fence.protect('things', 'things'), fence.protect('notes', 'things'), fence.unprotect('wallets')`)
	token := w.grant("things", gateway.Anonymous, "1").First()
	m := gatewaytest.New()
	g, err := gateway.New(gateway.Config{Leases: m, Rows: w.Store, Objects: m, Readiness: m, Catalogue: w.Store, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	var transcript strings.Builder
	do := func(method, path, body string, headers ...string) string {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			r.Header.Set(name, value)
		}
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("X-Fence-Token", token.String())
			token++
		}
		answer := httptest.NewRecorder()
		g.ServeHTTP(answer, r)
		if answer.Code >= http.StatusMultipleChoices {
			t.Errorf("%s %s %s: %d %s", method, path, body, answer.Code, answer.Body)
		}
		recordExchange(&transcript, r, body, answer)
		return answer.Body.String()
	}
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(do("GET", "/openapi.json", "")), "", " "); err != nil {
		t.Fatal(err)
	}
	transcript.Reset()
	const thing = "/v1/rows/public.things/7,a%2Fb"
	do("PUT", thing, `{"i4":1}`, "If-None-Match: *")
	do("PUT", thing, `{"id":7,"part":"a/b","i8":8200357849092798618,"i2":7,"i4":-1,"n":"NaN","p":0.00000000000000000001,"f4":1.5,"f8":"Infinity","t":"a\"\u00e9","v":"abcde","c":"ab",
		"b":{"$base64":"AP8="},"j":[1.10, null],"jb":[null,5],"u":"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11","m":"it's \"so-so\"","ms":["happy",null],"d":"2026-02-28","ts":"2026-01-02T03:04:05.000001",
		"tz":"2026-01-02T03:04:05+02:00","ti":"23:59:59.5","tt":"23:59:59+02","iv":"1 mon","arr":[8200357849092798618,null],"texts":["a,b",""],"nested":[[1,2],[3,4]],"nums":[1.10,"NaN"],
		"bs":["\\x00",{"$base64":"/w=="},null],"js":[{"a":1},null],"r":"[1,5)","nr":"(0.5,1.50]","tr":"[\"2026-01-01 00:00:00+00\",)","mr":"{[1,3),[5,7)}","ip":"192.168.0.1","net":"10.0.0.0/8",
		"mac":"08:00:2b:01:02:03","bo":true,"bi":"0101","x":"<a/>","pt":"(1,2)","co":{"a":1,"b":"x"},"cos":[{"a":1,"b":null}],"o":"16384","tv":"'a' 'b'"}`)
	do("PATCH", thing, `{"n":-1234567890123456789012345678901234567890.12,"b":"\\xff00","nums":[[1e3],[null]]}`)
	do("GET", thing, "")
	do("GET", thing, "", "Prefer: numbers=string")
	do("GET", "/v1/rows/public.things?select=i8,n&i8=gt.1&part=neq.x&limit=5", "")
	do("GET", "/v1/rows/public.things?order=tz.desc", "", "Prefer: count=exact")
	do("POST", "/v1/rows/public.notes", `{"body":"first"}`)
	do("POST", "/v1/rows/public.notes", `{"body":"second","at":"2026-01-02T03:04:05Z"}`, "Prefer: return=minimal")
	for name, got := range map[string]string{"openapi.json": b.String(), "openapi.golden": transcript.String()} {
		file := filepath.Join("testdata", name)
		if *updateDocument {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(file); err != nil || got != string(want) {
			t.Errorf("%s differs (rewrite it with -update-openapi), %v:\n%s", file, err, got)
		}
	}
}

// recordExchange writes an exchange as the gateway's own transcripts are written.
func recordExchange(to *strings.Builder, r *http.Request, body string, answer *httptest.ResponseRecorder) {
	fmt.Fprintf(to, "# %s\n> %s %s\n", r.Method, r.Method, r.URL.RequestURI())
	headers := func(prefix string, h http.Header) {
		var names []string
		for name := range h {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			if name != "X-Trace-Id" {
				fmt.Fprintf(to, "%s %s: %s\n", prefix, name, h.Get(name))
			}
		}
	}
	headers(">", r.Header)
	if body != "" {
		fmt.Fprintf(to, ">\n> %s\n", strings.ReplaceAll(body, "\n", "\n> "))
	}
	fmt.Fprintf(to, "< %d %s\n", answer.Code, http.StatusText(answer.Code))
	headers("<", answer.Header())
	if text := strings.TrimSuffix(answer.Body.String(), "\n"); text != "" {
		fmt.Fprintf(to, "<\n< %s\n", text)
	}
	to.WriteString("\n")
}
