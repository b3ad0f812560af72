package gateway

import (
	"strings"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway/openapi"
	"github.com/fencegate/fencegate/lease"
)

// addQueryParameters adds the shared parameters of queries.
func addQueryParameters(add func(key, in, name, text string, s *openapi.Schema), all *openapi.Ordered[*openapi.Parameter]) {
	text := func() *openapi.Schema { return &openapi.Schema{Type: openapi.Types{"string"}} }
	page := func(most int64) *openapi.Schema {
		s := openapi.Integer(1, most, "")
		s.Default = defaultPage
		return s
	}
	after := "The next of the page before."
	add("leasePrefix", "query", "prefix", "What the names begin with.", text())
	add("leaseLimit", "query", "limit", "How many leases a page has at most.", page(lease.MaxPage))
	add("after", "query", "after", after, text())

	add("eventPrefix", "query", "prefix", "Only of leases whose names begin with this.", text())
	var kinds []string
	for _, k := range eventKinds() {
		kinds = append(kinds, string(k))
	}
	one := "(" + strings.Join(kinds, "|") + ")"
	add("eventKinds", "query", "kinds", "Only these, separated by commas.", &openapi.Schema{Type: openapi.Types{"string"}, Pattern: "^" + one + "(," + one + ")*$"})
	add("eventAfter", "query", "after", "Go on behind the event with this id.", text())
	add("eventFrom", "query", "from", "Begin with the oldest event that is kept, or with what happens from now on.", &openapi.Schema{Type: openapi.Types{"string"}, Enum: []any{"oldest", "now"}, Default: "now"})

	add("select", "query", "select", `The columns that are answered, separated by commas and quoted as in SQL where they need it: id,"User Id".`, text())
	add("order", "query", "order", "The columns that the rows are sorted by, each with .asc or .desc and .nullsfirst or .nullslast behind it where wanted: owner.desc.nullslast,id.", text())
	add("rowLimit", "query", "limit", "How many rows a page has at most.", page(fence.MaxRows))
	explode := true
	all.Add("filters", &openapi.Parameter{
		Name: "filters", In: "query", Style: "form", Explode: &explode,
		Description: "Conditions that all hold, each written column=op.value with the column's name as the parameter's: owner=eq.ann. A name that needs quotes in SQL, or is that of another " +
			`parameter, stands in quotes: "User Id"=gt.7. in takes a list in parentheses: in.(a,"b,c"); is takes null, not_null, true, false or unknown; like has SQL's % and _.`,
		// Validators take all of the query for the object's members, so these are not said to be filters.
		Schema: &openapi.Schema{Type: openapi.Types{"object"}, Additional: text()},
	})
	add("objectPrefix", "query", "prefix", "What the keys begin with.", text())
	add("delimiter", "query", "delimiter", "Keys that have it behind the prefix are told as a group: /", text())
	add("objectLimit", "query", "limit", "How many objects and groups a page has at most.", page(fence.MaxObjects))
	add("version", "query", "token", "The token under which the version that is read was published, or 0 for the one that was imported.", &openapi.Schema{Type: openapi.Types{"string"}, Pattern: "^(0|[1-9][0-9]{0,14})$"})
	add("versionLimit", "query", "limit", "How many versions a page has at most.", page(maxVersions))
	add("before", "query", "before", "The next of the page before.", &openapi.Schema{Type: openapi.Types{"string"}, Pattern: tokenPattern})
	add("presign", "query", "presign", "Given without a value: the client stores the body itself, by the request that is answered.", &openapi.Schema{Type: openapi.Types{"string"}, Enum: []any{""}})
	add("uploadKey", "query", "key", "The key of the object that the upload is for. Who may write some keys of a bucket only names it.", text())
}

func filterSchema() *openapi.Schema {
	var ops []string
	for _, op := range filterOps() {
		ops = append(ops, string(op))
	}
	return &openapi.Schema{Type: openapi.Types{"string"}, Description: "A condition: op.value.", Pattern: "^(" + strings.Join(ops, "|") + `)\.`, Examples: []any{"eq.ann"}}
}
