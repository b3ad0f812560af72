package openapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fence"
)

func TestColumns(t *testing.T) {
	for _, c := range []struct {
		column         fence.ColumnDescription
		answered, sent string // sent is answered when it is empty
	}{
		{fence.ColumnDescription{Base: "bigint", Settable: true}, `"type":["integer","string"],"format":"int64","pattern":"^-?[0-9]+$"`, ""},
		{fence.ColumnDescription{Base: "smallint", Nullable: true, Settable: true}, `"type":["integer","null"],"minimum":-32768,"maximum":32767`, ""},
		{fence.ColumnDescription{Base: "boolean"}, `"type":"boolean","readOnly":true`, `"type":"boolean"`},
		{fence.ColumnDescription{Base: "double precision", Settable: true}, `"type":["number","string"],"pattern":"^(NaN|-?Infinity)$"`, ""},
		{fence.ColumnDescription{Base: "uuid", Nullable: true, Settable: true}, `"type":["string","null"],"format":"uuid"`, ""},
		{fence.ColumnDescription{Base: "text", Settable: true}, `"type":"string"`, ""},
		{fence.ColumnDescription{Type: "character varying(40)", Base: "character varying", Settable: true}, `"type":"string","maxLength":40`, ""},
		{fence.ColumnDescription{Type: "name", Base: "character varying", Settable: true}, `"type":"string"`, ""},
		{fence.ColumnDescription{Base: "int8range", Settable: true}, `"type":"string"`, ""},
		{fence.ColumnDescription{Base: "public.mood", Labels: []string{"a", "b"}, Nullable: true, Settable: true}, `"type":["string","null"],"enum":["a","b",null]`, ""},
		{fence.ColumnDescription{Base: "public.mood", Labels: strings.Split(strings.Repeat("x,", 501), ","), Settable: true}, `"type":"string"`, ""},
		{fence.ColumnDescription{Base: "jsonb", Settable: true}, ``, `"type":["object","array","string","number","boolean"]`},
		{fence.ColumnDescription{Base: "public.pair", Nullable: true, Settable: true}, ``, ""},
		{fence.ColumnDescription{Base: "bytea", Nullable: true, Settable: true}, `"type":["string","null"],"pattern":"^\\\\x([0-9a-fA-F]{2})*$"`,
			`"anyOf":[{"type":"string","pattern":"^\\\\x([0-9a-fA-F]{2})*$"},{"type":"object","properties":{"$base64":{"type":"string","format":"byte"}},"required":["$base64"],"additionalProperties":false},{"type":"null"}]`},
		{fence.ColumnDescription{Base: "integer[]", Settable: true}, `"type":"array","items":{"type":["integer","null","array"],"format":"int32","minimum":-2147483648,"maximum":2147483647}`, ""},
		{fence.ColumnDescription{Base: "public.mood[]", Nullable: true, Settable: true}, `"type":["array","null"],"items":{}`, ""},
	} {
		if c.column.Type == "" {
			c.column.Type = "x"
		}
		for what, got := range map[string]*Schema{"answered": answered(c.column), "sent": sent(c.column)} {
			want := c.answered
			if what == "sent" && c.sent != "" {
				want = c.sent
			}
			text, err := json.Marshal(got)
			described := `{"description":"` + "`" + c.column.Type + "`" + `"`
			if want != "" {
				described += ","
			}
			if err != nil || string(text) != described+want+"}" {
				t.Errorf("%s, %s: %s, %v", c.column.Base, what, text, err)
			}
		}
	}
}

func TestNamesStayApart(t *testing.T) {
	seen := map[string]fence.TableName{}
	for _, n := range []fence.TableName{{Schema: "a", Name: "b"}, {Schema: "A", Name: "b"}, {Schema: "a.b", Name: "c"}, {Schema: "a", Name: "b.c"}, {Schema: "a-2Eb", Name: "c"}, {Schema: "ü", Name: "a b"}, {Schema: "a", Name: `"`}} {
		name := Table{TableDescription: fence.TableDescription{Table: n}}.Name()
		if other, twice := seen[name]; twice {
			t.Errorf("%v and %v are both %s", n, other, name)
		}
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEF0123456789._-") != "" {
			t.Errorf("%s is no name of a component", name)
		}
		seen[name] = n
	}
}

func TestClip(t *testing.T) {
	for text, want := range map[string]string{"short": "short", strings.Repeat("ü", 500): strings.Repeat("ü", 500), "x" + strings.Repeat("ü", 500): "x" + strings.Repeat("ü", 499) + "…"} {
		if got := Clip(text); got != want {
			t.Errorf("%q is cut to %q", text, got)
		}
	}
}

func TestStruct(t *testing.T) {
	type value struct {
		A string `json:"a"`
		B *int   `json:"b,omitempty"`
	}
	s, err := Struct(value{}, nil, map[string]string{"a": "one", "b": "two"})
	if text, _ := json.Marshal(s); err != nil || string(text) != `{"type":"object","properties":{"a":{"description":"one","type":"string"},"b":{"description":"two","type":"integer","format":"int64"}},"required":["a"]}` {
		t.Errorf("%s, %v", text, err)
	}
	for _, about := range []map[string]string{{"a": "one"}, {"a": "one", "b": "two", "c": "three"}} {
		if _, err := Struct(value{}, nil, about); err == nil {
			t.Errorf("%v describes it", about)
		}
	}
}
