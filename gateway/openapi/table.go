package openapi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fencegate/fencegate/fence"
)

// Table is a protected table as one caller may see it.
type Table struct {
	fence.TableDescription
	// Read and Write say what the caller may do.
	Read, Write bool
	// Shown and Settable are the columns to which it is limited, those of the key aside; nil when it is not.
	Shown, Settable []string
}

// Name names the table among components and in operation ids: letters, digits, underscores and dots stand for themselves, all else for
// its bytes.
func (t Table) Name() string { return escape(t.Table.Schema) + "." + escape(t.Table.Name) }

func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '_', c >= '0' && c <= '9', c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "-%02X", c)
		}
	}
	return b.String()
}

func (t Table) isKey(name string) bool { return slices.Contains(t.Key, name) }

// KeyChoosesLease reports whether the rows have leases of their own, so that none can be made whose key is not known.
func (t Table) KeyChoosesLease() bool { return strings.Contains(t.Template, "{") }

// ReadColumns are those that the caller may read.
func (t Table) ReadColumns() []fence.ColumnDescription { return t.allowed(t.Shown) }

func (t Table) allowed(only []string) []fence.ColumnDescription {
	var columns []fence.ColumnDescription
	for _, c := range t.Columns {
		if only == nil || t.isKey(c.Name) || slices.Contains(only, c.Name) {
			columns = append(columns, c)
		}
	}
	return columns
}

// Row describes a row as it is answered. A list may leave columns out, so none is required.
func (t Table) Row() *Schema {
	s := Object(nil)
	s.Description, s.Lease = Clip(t.Comment), t.Template
	for _, c := range t.ReadColumns() {
		s.Properties = append(s.Properties, Member[*Schema]{c.Name, answered(c)})
	}
	return s
}

// WholeRow is a Row with all its columns.
func (t Table) WholeRow(ref *Schema) *Schema {
	for _, c := range t.ReadColumns() {
		ref.Required = append(ref.Required, c.Name)
	}
	return ref
}

// body describes the members of a body. The key may stand in it only as it is in the path.
func (t Table) body() *Schema {
	s := Object(nil)
	s.Additional = Closed()
	for _, c := range t.allowed(t.Settable) {
		if c.Settable || t.isKey(c.Name) {
			s.Properties = append(s.Properties, Member[*Schema]{c.Name, sent(c)})
		}
	}
	return s
}

// Change describes the body of a PATCH.
func (t Table) Change() *Schema {
	s := t.body()
	s.MinProperties = 1
	return s
}

// Put describes the body of a PUT, whose key stands in the path.
func (t Table) Put() *Schema {
	s := t.body()
	s.Required = t.needed(func(c fence.ColumnDescription) bool { return !t.isKey(c.Name) })
	return s
}

// Insert describes the body of a POST.
func (t Table) Insert() *Schema {
	s := t.body()
	s.Required = t.needed(func(fence.ColumnDescription) bool { return true })
	return s
}

// needed are the columns that the database does not fill.
func (t Table) needed(of func(fence.ColumnDescription) bool) []string {
	var names []string
	for _, c := range t.allowed(t.Settable) {
		if of(c) && c.Settable && !c.Nullable && !c.HasDefault {
			names = append(names, c.Name)
		}
	}
	return names
}

// KeyParameter describes the parameter key of the path: one value, or several that are separated by commas.
func (t Table) KeyParameter(name string) *Parameter {
	p := &Parameter{Name: name, In: "path", Required: true, Description: "The key: `" + strings.Join(t.Key, ",") + "`."}
	var parts []*Schema
	for _, k := range t.Key {
		part := &Schema{Type: Types{"string"}}
		for _, c := range t.Columns {
			if c.Name == k {
				part = valueSchema(c)
				part.Description = columnText(c)
			}
		}
		parts = append(parts, part)
	}
	if len(parts) == 1 {
		p.Schema = parts[0]
		return p
	}
	p.Style, p.Schema = "simple", &Schema{Type: Types{"array"}, PrefixItems: parts, MinItems: len(parts), MaxItems: len(parts)}
	return p
}
