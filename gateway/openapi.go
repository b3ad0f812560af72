package gateway

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway/openapi"
)

const (
	// maxDescribed is how many tables one document describes each by itself, and maxDescribedColumns how many columns they have
	// together.
	maxDescribed        = 200
	maxDescribedColumns = 10_000
	// maxDocuments is how many documents are made at once: each table costs the gateway and the ledger about a millisecond.
	maxDocuments = 1
	// documentWait is how long a request waits for those before it.
	documentWait = 5 * time.Second
)

func (g *Gateway) openAPIEndpoint(string) (endpoint, error) {
	// Of the tables it shows those that the caller may read or write.
	return endpoint{piecewise: true, methods: []method{{name: http.MethodGet, op: "openapi", verb: VerbRead, serve: untargeted(g.openAPI)}}}, nil
}

// openAPI answers the document about everything that this gateway serves, as the caller may see it.
func (g *Gateway) openAPI(w http.ResponseWriter, r *http.Request) error {
	tables, more, err := g.describedTables(r.Context(), callerOf(r.Context()))
	if err != nil {
		return err
	}
	doc, err := g.document(tables, more)
	if err != nil {
		return err
	}
	respondJSON(w, http.StatusOK, doc)
	return nil
}

// describedTables describes the protected tables that a caller may read or write, in the order of their names. more is how many
// there are beyond those that one document describes.
func (g *Gateway) describedTables(ctx context.Context, caller Caller) (tables []openapi.Table, more int, err error) {
	if g.cfg.Catalogue == nil {
		return nil, 0, nil
	}
	wait := time.NewTimer(documentWait)
	defer wait.Stop()
	select {
	case g.documents <- struct{}{}:
		defer func() { <-g.documents }()
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	case <-wait.C:
		return nil, 0, fence.Errorf(fence.CodeOverloaded, "others ask for this document, too")
	}
	names, err := g.cfg.Catalogue.Tables(ctx)
	if err != nil {
		return nil, 0, err
	}
	var seen []fence.TableName
	for _, name := range names {
		if about := aboutTable(name); caller.May(about.with(VerbRead)) || caller.May(about.with(VerbWrite)) {
			seen = append(seen, name)
		}
	}
	most := min(len(seen), maxDescribed)
	found, err := g.cfg.Catalogue.DescribeTables(ctx, seen[:most])
	if err != nil {
		return nil, 0, err
	}
	more, columns := len(seen)-most, 0
	for _, t := range found {
		if columns+len(t.Columns) > maxDescribedColumns {
			more++
			continue
		}
		columns += len(t.Columns)
		about := aboutTable(t.Table)
		tables = append(tables, openapi.Table{
			TableDescription: t, Read: caller.May(about.with(VerbRead)), Write: caller.May(about.with(VerbWrite)),
			Shown: caller.Columns(about.with(VerbRead)), Settable: caller.Columns(about.with(VerbWrite)),
		})
	}
	return tables, more, nil
}

func aboutTable(t fence.TableName) Action { return Action{Schema: t.Schema, Table: t.Name} }

// document describes every path of the gateway, and the tables by themselves. It fails where a path is served and not described, or
// the other way round.
func (g *Gateway) document(tables []openapi.Table, more int) (*openapi.Document, error) {
	b, err := g.newDocument(more)
	if err != nil {
		return nil, err
	}
	for _, f := range g.families() {
		for _, template := range f.paths {
			if err := b.path(f, template); err != nil {
				return nil, err
			}
		}
	}
	for _, t := range tables {
		b.table(t)
	}
	return b.done()
}

// sample is a path of a template.
func sample(template string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(template, "{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString("x")
		_, template, _ = strings.Cut(rest, "}")
	}
}
