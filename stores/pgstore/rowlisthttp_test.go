package pgstore_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/gatewaytest"
)

// gateway serves the world's rows over HTTP, to callers who may do everything.
func (w *world) gateway() func(target string, headers ...string) (int, string) {
	w.t.Helper()
	m := gatewaytest.New()
	g, err := gateway.New(gateway.Config{Leases: m, Rows: w.Store, Objects: m, Readiness: m, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.t.Fatal(err)
	}
	return func(target string, headers ...string) (int, string) {
		path, query, _ := strings.Cut(target, "?")
		r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil)
		r.URL = &url.URL{Path: path, RawPath: path, RawQuery: query}
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			r.Header.Set(name, value)
		}
		answer := httptest.NewRecorder()
		g.ServeHTTP(answer, r)
		return answer.Code, answer.Body.String()
	}
}

// What a client writes into a query arrives at PostgreSQL as it was meant, and nothing else does.
func TestListOverHTTP(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE SCHEMA "a.b"; CREATE TABLE "a.b"."Reply" ("User Id" bigint PRIMARY KEY, "select" text, "Order" numeric, plain text);
		INSERT INTO "a.b"."Reply" VALUES (1, 'a,b', 1234567890123456789012345678901234567890.12, 'x'), (2, 'say "hi"', 2, 'a%25b'), (3, '100%', 3, 'a%b'), (4, '1.2.3', 4, 'a+b'),
			(5, '); DROP TABLE wallets; --', 5, 'a b'), (6, 'back\slash', 6, NULL), (9007199254740993, 'ü', 7, '');
		SELECT fence.protect('"a.b"."Reply"', 'r')`)
	get := w.gateway()
	const table = "/v1/rows/%22a.b%22.%22Reply%22?"
	for query, want := range map[string]string{
		`%22select%22=eq.a,b`:                       "1",
		`%22select%22=eq.a%2Cb`:                     "1",
		`%22select%22=in.("a,b","say \"hi\"")`:      "1 2",
		`%22select%22=eq.say+"hi"`:                  "2",
		`%22select%22=eq.100%25`:                    "3",
		`%22select%22=like.100\%25`:                 "3",
		`%22select%22=like.%25%25%25`:               "1 2 3 4 5 6 9007199254740993",
		`%22select%22=eq.1.2.3`:                     "4",
		`%22select%22=eq.);+DROP+TABLE+wallets;+--`: "5",
		`%22select%22=in.("back\\slash",ü)`:         "6 9007199254740993",
		`plain=eq.a%2525b`:                          "2",
		`plain=eq.a%25b`:                            "3",
		`plain=eq.a%2Bb`:                            "4",
		`plain=eq.a+b`:                              "5",
		`plain=is.null`:                             "6",
		`plain=eq.`:                                 "9007199254740993",
		`plain=neq.x&plain=neq.`:                    "2 3 4 5",
		`%22User+Id%22=gt.9007199254740992`:         "9007199254740993",
		`%22User%20Id%22=in.(1,3)&%22Order%22=gt.3`: "1",
		`%22Order%22=eq.1234567890123456789012345678901234567890.12`: "1",
		`order="Order".desc.nullslast,"User Id"&limit=2`:             "1 9007199254740993",
		`order=plain.asc.nullsfirst&limit=2`:                         "6 9007199254740993",
	} {
		code, body := get(table + `select="User+Id"&` + query)
		var answer struct {
			Rows []struct {
				ID json.Number `json:"User Id"`
			}
		}
		if err := json.Unmarshal([]byte(body), &answer); code != 200 || err != nil {
			t.Errorf("%s: %d %s", query, code, body)
			continue
		}
		var got []string
		for _, r := range answer.Rows {
			got = append(got, r.ID.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	code, body := get(table+`limit=1&%22select%22=gte.a`, "Prefer: count=exact, numbers=string")
	if code != 200 || !strings.HasPrefix(body, `{"rows":[{"User Id":"1","select":"a,b","Order":"1234567890123456789012345678901234567890.12","plain":"x"}],"next":"`) || !strings.HasSuffix(body, `","count":4}`+"\n") {
		t.Errorf("%d %s", code, body)
	}
	for query, field := range map[string]string{
		"nope=eq.1": "nope", "%22order%22=eq.1": "order", "%22Order%22=eq.x": "Order", "after=AQ": "after", "plain=like.a%5C": "plain",
	} {
		code, body := get(table + query)
		var p struct{ Field string }
		if err := json.Unmarshal([]byte(body), &p); code != 400 || err != nil || p.Field != field {
			t.Errorf("%s: %d %s", query, code, body)
		}
	}
}

// Whatever a client sends, it is answered, or told what is wrong: nothing it makes up breaks a statement.
func FuzzListOverHTTP(f *testing.F) {
	for _, s := range []string{
		"i=eq.1&order=t.desc&limit=2", `t=in.("a","b\"c")&select=t,"x y"`, "x%20y=is.null", `"x y"=like.%25%5C_`, `"x y"=eq.a';--&order="x y".desc.nullsfirst`,
		"r=eq.[1,2)&d=lt.2026-01-01", "m=in.(sad,x)&a=eq.{1,2}", "j=eq.{}", "b=eq.\\x0g", "c=eq.%28%22%22%22%2C1%29", "n=gt.1e400000&order=n", "i=eq.1&after=AQAAAAAAAAAA",
		`"a""; DROP TABLE f; --"=eq.1`, "order=c,j", "ts=eq.now&o=is.true", "z=eq.X&order=z&z=like.x%25", "n=eq.Infinity&n=neq.NaN&limit=1", "ctid=eq.(0,1)&tableoid=eq.1&xmin=eq.1",
	} {
		f.Add("f", s)
	}
	f.Add(`"f`, "")
	f.Add(`f" AS x; --`, "i=eq.1")
	f.Add("fence.marks", "token=gt.0")
	get := fuzzedWorld(f)
	f.Fuzz(func(t *testing.T, table, query string) {
		code, body := get("/v1/rows/"+url.PathEscape(table)+"?"+query, "Prefer: count=exact")
		if code/100 != 2 && code/100 != 4 {
			t.Fatalf("%q?%q: %d %s", table, query, code, body)
		}
	})
}

// The same where the query is well formed: any filter on any column, with any value, in the order of any other, page by page, and
// with values in the cursor that are none of the gateway's.
func FuzzListOfAnyType(f *testing.F) {
	columns := strings.Split(`i,t,"x y",r,d,m,a,j,b,c,n,ts,o,z,e`, ",")
	ops := []string{"eq", "neq", "lt", "lte", "gt", "gte", "in", "is", "like"}
	for i := range columns {
		f.Add(uint8(i), uint8(i), uint8(i), []string{"1", "x", "(1,2)", `\x00`, "{}", "2026-01-01", "NaN", "[1,2)", "'"}[i%9], "x")
	}
	get := fuzzedWorld(f)
	f.Fuzz(func(t *testing.T, column, op, order uint8, value, forged string) {
		by := ops[int(op)%len(ops)]
		if by == "in" {
			value = `("` + strings.NewReplacer(`"`, `\"`, `\`, `\\`).Replace(value) + `",1)`
		}
		target := "/v1/rows/f?limit=1&" + url.QueryEscape(columns[int(column)%len(columns)]) + "=" + by + "." + url.QueryEscape(value) +
			"&order=" + url.QueryEscape(columns[int(order)%len(columns)]) + []string{"", ".desc", ".nullsfirst", ".desc.nullslast"}[order>>6]
		after := ""
		for range 4 {
			code, body := get(target+"&after="+after, "Prefer: numbers=string")
			if code/100 != 2 && code/100 != 4 {
				t.Fatalf("%s after %q: %d %s", target, after, code, body)
			}
			var answer struct{ Next string }
			if code != 200 || json.Unmarshal([]byte(body), &answer) != nil || answer.Next == "" {
				return
			}
			if after = answer.Next; forged != "" {
				raw, err := base64.RawURLEncoding.DecodeString(after)
				if err != nil {
					t.Fatal(err)
				}
				raw = append(binary.AppendUvarint(raw[:9], uint64(len(forged)+1)), forged...)
				after, forged = base64.RawURLEncoding.EncodeToString(append(raw, 2, '1')), ""
			}
		}
	})
}

// fuzzedWorld has a protected table f with columns of many types.
func fuzzedWorld(f *testing.F) func(string, ...string) (int, string) {
	w := newWorld(f)
	w.exec(`CREATE EXTENSION citext; CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN day AS date CHECK (VALUE > '2000-01-01'); CREATE TYPE pair AS (a text, b int);
		CREATE TABLE f (i int PRIMARY KEY, t text, "x y" varchar(3), r int4range, d day, m mood, a int[], j json, b bytea, c pair, n numeric, ts timestamp, o boolean, z citext, e float8);
		INSERT INTO f SELECT i, 't' || i, 'x', '[1,2)', '2026-01-01', 'ok', '{1,2}', '{}', '', '(a,1)', i, now(), true, 'x', i FROM generate_series(1, 5) i;
		INSERT INTO f (i) VALUES (6); SELECT fence.protect('f', 'f')`)
	return w.gateway()
}
