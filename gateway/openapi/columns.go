package openapi

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fencegate/fencegate/fence"
)

const (
	// maxComment is how much of a comment is shown, in bytes.
	maxComment = 1000
	// maxLabels is how many labels of an enum are listed.
	maxLabels = 500

	digits = `^-?[0-9]+$`
	// number is how numeric writes itself, and reads what others write.
	number = `^([+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|NaN|[+-]?Infinity)$`
	float  = `^(NaN|-?Infinity)$`
	hex    = `^\\x([0-9a-fA-F]{2})*$`
)

// answered describes the values of a column in answers.
func answered(c fence.ColumnDescription) *Schema {
	s := valueSchema(c)
	s.Description, s.ReadOnly = columnText(c), !c.Settable
	return orNull(s, c.Nullable)
}

// sent describes the values of a column in requests. What PostgreSQL reads besides is not told.
func sent(c fence.ColumnDescription) *Schema {
	s := valueSchema(c)
	if element, array := strings.CutSuffix(c.Base, "[]"); element == "bytea" {
		encoded := Object(Ordered[*Schema]{{"$base64", &Schema{Type: Types{"string"}, Format: "byte"}}}, "$base64")
		encoded.Additional = Closed()
		if array {
			s.Items = &Schema{AnyOf: []*Schema{s.Items, encoded}}
		} else {
			s = &Schema{AnyOf: []*Schema{s, encoded}}
		}
	}
	if s.Type == nil && s.AnyOf == nil && !c.Nullable {
		s.Type = Types{"object", "array", "string", "number", "boolean"} // null would be SQL's
	}
	s.Description = columnText(c)
	return orNull(s, c.Nullable)
}

// valueSchema describes the values of a column's type that are not null.
func valueSchema(c fence.ColumnDescription) *Schema {
	element, array := strings.CutSuffix(c.Base, "[]")
	if !array {
		return scalar(c)
	}
	// PostgreSQL declares no number of dimensions: what stands in an array may be one.
	item := c
	item.Type, item.Base, item.Labels = element, element, nil
	items := orNull(scalar(item), true)
	if items.Type != nil {
		items.Type = append(items.Type, "array")
	}
	return &Schema{Type: Types{"array"}, Items: items}
}

// orNull lets a value be null, too.
func orNull(s *Schema, nullable bool) *Schema {
	switch {
	case !nullable:
	case s.AnyOf != nil:
		s.AnyOf = append(s.AnyOf, &Schema{Type: Types{"null"}})
	case s.Type != nil:
		s.Type = append(s.Type, "null")
		if s.Enum != nil {
			s.Enum = append(s.Enum, nil)
		}
	}
	return s
}

func scalar(c fence.ColumnDescription) *Schema {
	switch c.Base {
	case "smallint":
		return Integer(math.MinInt16, math.MaxInt16, "")
	case "integer":
		s := Integer(math.MinInt32, math.MaxInt32, "")
		s.Format = "int32"
		return s
	case "bigint":
		return &Schema{Type: Types{"integer", "string"}, Format: "int64", Pattern: digits}
	case "numeric":
		return &Schema{Type: Types{"number", "string"}, Pattern: number}
	case "real", "double precision":
		return &Schema{Type: Types{"number", "string"}, Pattern: float}
	case "boolean":
		return &Schema{Type: Types{"boolean"}}
	case "json", "jsonb":
		return &Schema{}
	}
	if s, ok := text(c); ok {
		s.Type = Types{"string"}
		return s
	}
	return &Schema{} // of a type that PostgreSQL may show as an object
}

// text describes a type whose values are strings.
func text(c fence.ColumnDescription) (s *Schema, ok bool) {
	if len(c.Labels) > 0 {
		s = &Schema{}
		for _, label := range c.Labels {
			if len(c.Labels) <= maxLabels {
				s.Enum = append(s.Enum, label)
			}
		}
		return s, true
	}
	switch c.Base {
	case "uuid":
		return &Schema{Format: "uuid"}, true
	case "date":
		return &Schema{Format: "date"}, true
	case "timestamp with time zone":
		return &Schema{Format: "date-time"}, true
	case "timestamp without time zone":
		return &Schema{Format: "date-time-local"}, true
	case "time without time zone":
		return &Schema{Format: "time-local"}, true
	case "bytea":
		return &Schema{Pattern: hex}, true
	case "character varying", "character":
		return &Schema{MaxLength: length(c.Type)}, true
	case "text", "name", `"char"`, "citext", "interval", "time with time zone", "bit", "bit varying", "inet", "cidr", "macaddr", "macaddr8", "money", "xml",
		"tsvector", "tsquery", "point", "line", "lseg", "box", "path", "polygon", "circle", "pg_lsn", "oid", "regclass",
		"int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange",
		"int4multirange", "int8multirange", "nummultirange", "tsmultirange", "tstzmultirange", "datemultirange":
		return &Schema{}, true
	}
	return nil, false
}

// length is the number in parentheses behind a type's name, 0 when there is none.
func length(typ string) int {
	_, rest, _ := strings.Cut(typ, "(")
	n, _ := strconv.Atoi(strings.TrimSuffix(rest, ")"))
	return n
}

// columnText is what people are told of a column: its comment, and the type as SQL writes it.
func columnText(c fence.ColumnDescription) string {
	text := "`" + c.Type + "`"
	switch c.Base {
	case "date", "timestamp with time zone", "timestamp without time zone":
		// No format of JSON Schema has these, and a format is no promise.
		text += ", also `infinity` and `-infinity`"
	}
	if c.Comment == "" {
		return text
	}
	return text + ": " + Clip(c.Comment)
}

// Clip cuts a comment to what is shown of it.
func Clip(s string) string {
	if len(s) <= maxComment {
		return s
	}
	end := maxComment
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
