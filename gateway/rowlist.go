package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/fencegate/fencegate/fence"
)

// rowListEndpoint is a table without a key. The methods that would write are there to say why they do not.
func (g *Gateway) rowListEndpoint(rest string) (endpoint, error) {
	table, about, err := tablePath(rest)
	if err != nil {
		return endpoint{}, err
	}
	list := on(http.MethodGet, "list", VerbRead, g.listRows)
	list.query = true
	state := func(ctx context.Context, table string) (fence.State, error) {
		return g.cfg.Rows.RowMark(ctx, fence.RowName{Table: table})
	}
	e := endpoint{about: about, target: table, methods: []method{list, on(http.MethodPost, "insert", VerbWrite, stated(state, g.insertRow))}}
	for _, name := range []string{http.MethodPatch, http.MethodPut, http.MethodDelete} {
		e.methods = append(e.methods, method{name: name, op: strings.ToLower(name), verb: VerbWrite, query: true, refuses: true, serve: untargeted(writesOneRow)})
	}
	return e, nil
}

// writesOneRow refuses a write of all the rows that pass a filter, or of all there are.
func writesOneRow(_ http.ResponseWriter, r *http.Request) error {
	return fence.Errorf(fence.CodeInvalidRequest,
		"a token fences one row: name its key, %s /v1/rows/{table}/{key}; several rows at once are written by POST /v1/commit", r.Method).In("key")
}

// listRows answers a page of a table's rows. It is about no resource, so it has neither mark nor lease nor entity tag.
func (g *Gateway) listRows(w http.ResponseWriter, r *http.Request, table string) error {
	by, err := access(r)
	switch {
	case err != nil:
		return err
	case by.Token != 0:
		return fence.Errorf(fence.CodeInvalidRequest,
			"a list takes no token: its rows are of no one lease. Read the row by its key, or verify the token with POST /v1/leases/{name}/verify").In(headerToken)
	case r.Header.Get("If-Match") != "":
		return fence.Errorf(fence.CodeInvalidRequest, "a list has no mark that If-Match could be about").In("If-Match")
	}
	q, err := readRowQuery(r.URL.RawQuery)
	if err != nil {
		return err
	}
	if q.Count, err = prefersCount(r.Header); err != nil {
		return err
	}
	q.Table, q.Access, q.Shown, q.NumbersAsText = table, by, columnsOf(r, VerbRead, table), prefersNumbersAsText(r.Header)
	page, err := g.cfg.Rows.ListRows(r.Context(), q)
	if err != nil {
		return err
	}
	var applied []string
	if q.NumbersAsText {
		applied = append(applied, numbersAsText)
	}
	if q.Count {
		applied = append(applied, "count=exact")
	}
	if len(applied) > 0 {
		w.Header().Set("Preference-Applied", strings.Join(applied, ", "))
	}
	respondBytes(w, http.StatusOK, "application/json", pageJSON(page))
	return nil
}

// pageJSON keeps the rows byte for byte, as an answer with one row does.
func pageJSON(page fence.RowPage) []byte {
	size := len(page.Next) + 100
	for _, row := range page.Rows {
		size += len(row) + 1
	}
	b := append(make([]byte, 0, size), `{"rows":[`...)
	for i, row := range page.Rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, row...)
	}
	b = append(b, ']')
	if page.Next != "" {
		next, _ := json.Marshal(page.Next) // a string can always be written
		b = append(append(b, `,"next":`...), next...)
	}
	if page.Count != nil {
		b = strconv.AppendInt(append(b, `,"count":`...), *page.Count, 10)
	}
	return append(b, "}\n"...)
}

// prefersCount reports whether the client asks for the number of all rows. What it could mean otherwise is refused: a client
// that asks for an estimate would look for one in vain.
func prefersCount(h http.Header) (bool, error) {
	switch value := preference(h, "count"); value {
	case "":
		return false, nil
	case "exact":
		return true, nil
	default:
		return false, fence.Errorf(fence.CodeInvalidRequest, "the preference count is count=exact, not %q", clip(value, maxField)).In("Prefer")
	}
}
