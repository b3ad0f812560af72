package gateway_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/gatewaytest"
)

// tables are protected tables with columns of every kind.
func tables() gatewaytest.Catalogue {
	return gatewaytest.Catalogue{
		{
			Table: fence.TableName{Schema: "a.b", Name: "Reply"}, Template: "reply:{User Id}", Key: []string{"User Id", "k,2"}, Comment: "What was <answered>.",
			Columns: []fence.ColumnDescription{
				{Name: "User Id", Type: "bigint", Base: "bigint", HasDefault: true},
				{Name: "k,2", Type: "text", Base: "text", Settable: true, Comment: "with a comma"},
				{Name: "select", Type: "public.mood", Base: "public.mood", Labels: []string{"happy", `it's "so-so"`}, Nullable: true, Settable: true},
				{Name: "when", Type: "timestamp with time zone", Base: "timestamp with time zone", HasDefault: true, Settable: true},
				{Name: "twice", Type: "numeric", Base: "numeric", Nullable: true},
			},
		},
		{
			Table: fence.TableName{Schema: "public", Name: "payments"}, Template: "payments", Key: []string{"id"},
			Columns: []fence.ColumnDescription{
				{Name: "id", Type: "integer", Base: "integer", HasDefault: true, Settable: true},
				{Name: "amount", Type: "public.price", Base: "numeric", Settable: true},
				{Name: "receipt", Type: "bytea", Base: "bytea", Nullable: true, Settable: true},
				{Name: "parts", Type: "numeric[]", Base: "numeric[]", Nullable: true, Settable: true},
				{Name: "detail", Type: "json", Base: "json", Nullable: true, Settable: true},
			},
		},
		{
			Table: fence.TableName{Schema: "public", Name: "wallets"}, Template: "wallets:{id}", Key: []string{"id"},
			Columns: []fence.ColumnDescription{
				{Name: "id", Type: "bigint", Base: "bigint", Settable: true},
				{Name: "owner", Type: "character varying(40)", Base: "character varying", Nullable: true, Settable: true},
				{Name: "balance", Type: "numeric(20,2)", Base: "numeric", HasDefault: true, Settable: true},
			},
		},
	}
}

// document is what the tests look at.
type document struct {
	OpenAPI string
	Info    struct{ Description string }
	Paths   map[string]map[string]json.RawMessage
	Comp    struct {
		Schemas map[string]schema
	} `json:"components"`
	Security []map[string][]string
}

type schema struct {
	Type       any
	Properties map[string]json.RawMessage
	Required   []string
}

func (a *api) document(headers ...string) document {
	a.t.Helper()
	var d document
	if err := json.Unmarshal([]byte(a.want(200, "GET", "/openapi.json", "", headers...).text), &d); err != nil {
		a.t.Fatal(err)
	}
	return d
}

var updateDocument = flag.Bool("update-openapi", false, "write the document in testdata anew")

// internal/openapitest validates this document, and the transcripts against it.
func TestOpenAPI(t *testing.T) {
	a := serve(t, func(c *gateway.Config) { c.Catalogue = tables() })
	first, second := a.want(200, "GET", "/openapi.json", ""), a.want(200, "GET", "/openapi.json", "")
	if first.text != second.text || first.Header.Get("Content-Type") != "application/json" || first.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("not the same twice, or %v", first.Header)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(first.text), "", " "); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", "openapi.json")
	if *updateDocument {
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Fatalf("%s differs (rewrite it with -update-openapi):\n%s", file, firstDifference(string(want), b.String()))
	}
	a.want(200, "HEAD", "/openapi.json", "")
	a.refused(405, "method-not-allowed", "POST", "/openapi.json", "{}")
	a.refused(400, "invalid-request", "GET", "/openapi.json?x=1", "")
}

func (d document) has(path string, methods ...string) bool {
	item, ok := d.Paths[path]
	var found []string
	for name := range item {
		if slices.Contains([]string{"get", "head", "put", "post", "patch", "delete"}, name) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return ok == (len(methods) > 0) && slices.Equal(found, methods)
}

// callers authenticates those whom X-User names.
func callers(known map[string]caller) func(*http.Request) (gateway.Caller, error) {
	return func(r *http.Request) (gateway.Caller, error) {
		c, ok := known[r.Header.Get("X-User")]
		if !ok {
			return nil, errors.New("a stranger")
		}
		return c, nil
	}
}

func TestOpenAPIShowsWhatTheCallerMay(t *testing.T) {
	on := func(table string, verbs ...gateway.Verb) func(gateway.Action) bool {
		return func(a gateway.Action) bool { return a.Table == table && slices.Contains(verbs, a.Verb) }
	}
	a := serve(t, func(c *gateway.Config) {
		c.Catalogue = tables()
		c.Authenticate = callers(map[string]caller{
			"reader": {name: "reader", may: on("wallets", gateway.VerbRead)},
			"writer": {name: "writer", may: on("payments", gateway.VerbWrite)},
			"nobody": {name: "nobody", may: func(gateway.Action) bool { return false }},
			"columns": {name: "columns", columns: func(a gateway.Action) []string {
				return map[gateway.Verb][]string{gateway.VerbRead: {"balance"}, gateway.VerbWrite: {"owner"}}[a.Verb]
			}},
		})
	})
	wallets, wallet, reply := "/v1/rows/public.wallets", "/v1/rows/public.wallets/{key}", "/v1/rows/%22a.b%22.%22Reply%22"
	d := a.document("X-User: reader")
	if !d.has(wallets, "get", "head") || !d.has(wallet, "get", "head") || !d.has(reply) || !d.has("/v1/rows/public.payments/{key}") || len(d.Comp.Schemas["change.public.wallets"].Properties) > 0 {
		t.Errorf("a reader of wallets sees %v", d.Paths)
	}
	if text := a.want(200, "GET", "/openapi.json", "", "X-User: nobody").text; strings.Contains(text, "%22Reply%22") || strings.Contains(text, "public.wallets") || strings.Contains(text, "amount") {
		t.Error("who may do nothing sees a table")
	}
	d = a.document("X-User: writer")
	if !d.has("/v1/rows/public.payments", "post") || !d.has("/v1/rows/public.payments/{key}", "delete", "patch", "put") || d.has(wallets, "get", "head") {
		t.Errorf("a writer of payments sees %v", d.Paths)
	}
	if s := d.Comp.Schemas["insert.public.payments"]; !slices.Equal(s.Required, []string{"amount"}) || len(s.Properties) != 5 || len(d.Comp.Schemas["row.public.payments"].Properties) > 0 {
		t.Errorf("a writer of payments sees %+v", s)
	}
	d = a.document("X-User: columns")
	row, change := d.Comp.Schemas["row.public.wallets"].Properties, d.Comp.Schemas["change.public.wallets"].Properties
	if len(row) != 2 || row["balance"] == nil || row["id"] == nil || len(change) != 2 || change["owner"] == nil || change["id"] == nil {
		t.Errorf("limited columns: %v %v", row, change)
	}
	if len(d.Security) != 2 {
		t.Errorf("security: %v", d.Security)
	}
	a.refused(401, "unauthenticated", "GET", "/openapi.json", "", "X-User: stranger")
	open := serve(t, func(c *gateway.Config) { c.Authenticate, c.LoopbackOnly = nil, true })
	if d := open.document(); len(d.Security) != 0 || !strings.Contains(d.Info.Description, "in general only") {
		t.Errorf("without authentication: %+v", d.Security)
	}
}

func TestOpenAPIIsBounded(t *testing.T) {
	var many gatewaytest.Catalogue
	for i := range 203 {
		d := tables()[1]
		d.Table.Name = string(rune('a'+i/26)) + string(rune('a'+i%26))
		many = append(many, d)
	}
	a := serve(t, func(c *gateway.Config) { c.Catalogue = many })
	d := a.document()
	if !strings.Contains(d.Info.Description, " 3 that are too many") || !d.has("/v1/rows/public.aa/{key}", "delete", "get", "head", "patch", "put") || d.has("/v1/rows/public.hu/{key}", "delete", "get", "head", "patch", "put") {
		t.Errorf("%s", d.Info.Description)
	}
	for range 9_999 {
		many[1].Columns = append(many[1].Columns, fence.ColumnDescription{Name: "x", Type: "text", Base: "text"})
	}
	if d = a.document(); !strings.Contains(d.Info.Description, " 4 that are too many") {
		t.Errorf("%s", d.Info.Description)
	}
}
