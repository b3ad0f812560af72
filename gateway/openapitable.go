package gateway

import (
	"net/http"
	"strings"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway/openapi"
)

const (
	rowsTemplate = "/v1/rows/{table}"
	rowTemplate  = "/v1/rows/{table}/{key}"
)

// table describes the paths of one table's rows, with what the caller may do there.
func (b *documentBuilder) table(t openapi.Table) {
	schemas := &b.doc.Components.Schemas
	ref := func(kind string) string { return kind + "." + t.Name() }
	own := swaps{
		suffix: "." + t.Name(), of: " of " + t.Table.String(), silent: !t.Read,
		schemas: map[string]*openapi.Schema{}, parameters: map[string][]*openapi.Parameter{},
	}
	if t.Read {
		schemas.Add(ref("row"), t.Row())
		own.schemas["Row"] = t.WholeRow(openapi.RefTo(ref("row")))
		own.schemas["RowPage"] = pageOf(openapi.RefTo(ref("row")))
		own.parameters["filters"] = filtersOf(t)
	}
	if t.Write {
		schemas.Add(ref("change"), t.Change())
		schemas.Add(ref("put"), t.Put())
		own.schemas["RowChange"], own.schemas["RowPut"] = openapi.RefTo(ref("change")), openapi.RefTo(ref("put"))
	}
	insertable := t.Write && !t.KeyChoosesLease()
	if insertable {
		schemas.Add(ref("insert"), t.Insert())
		own.schemas["RowInsert"] = openapi.RefTo(ref("insert"))
	}
	text := openapi.Clip(t.Comment)
	list := &openapi.PathItem{Description: text, Lease: t.Template}
	row := &openapi.PathItem{Description: text, Lease: t.Template, Parameters: []*openapi.Parameter{t.KeyParameter("key")}}
	f := family{api: "rows"}
	for _, o := range []struct {
		item         *openapi.PathItem
		method, path string
		may          bool
	}{
		{list, http.MethodGet, rowsTemplate, t.Read},
		{list, http.MethodPost, rowsTemplate, insertable},
		{row, http.MethodGet, rowTemplate, t.Read},
		{row, http.MethodPatch, rowTemplate, t.Write},
		{row, http.MethodPut, rowTemplate, t.Write},
		{row, http.MethodDelete, rowTemplate, t.Write},
	} {
		if o.may {
			b.operation(o.item, f, o.method, b.calls[o.method+" "+o.path], own)
		}
	}
	path := "/v1/rows/" + escapeName(t.Table.String())
	if list.Get != nil || list.Post != nil {
		b.doc.Paths.Add(path, list)
	}
	b.doc.Paths.Add(path+"/{key}", row)
}

// filtersOf are the parameters that filter by a column, each of which may be given several times.
func filtersOf(t openapi.Table) (filters []*openapi.Parameter) {
	explode := true
	for _, c := range t.ReadColumns() {
		if c.Base == "json" { // it has no operators
			continue
		}
		name := fence.QuoteColumn(c.Name)
		if reserved(strings.ToLower(c.Name)) {
			name = `"` + c.Name + `"`
		}
		filters = append(filters, &openapi.Parameter{
			Name: name, In: "query", Style: "form", Explode: &explode,
			Schema: &openapi.Schema{Type: openapi.Types{"array"}, Items: openapi.RefTo("Filter")},
		})
	}
	return filters
}
