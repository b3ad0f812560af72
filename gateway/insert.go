package gateway

import (
	"net/http"
	"strings"

	"github.com/fencegate/fencegate/fence"
)

// insertRow makes a row under a key that the database completes. The answer is about the table's own resource, on which the token
// is spent; Location names the row.
func (g *Gateway) insertRow(w http.ResponseWriter, r *http.Request, table string) error {
	write := fence.RowWrite{Op: fence.OpInsert, Row: fence.RowName{Table: table}}
	var err error
	if write.Access, err = writeAccess(r); err != nil {
		return err
	}
	if write.If, err = writeConditions(r.Header); err != nil {
		return err
	}
	if write.If.Exists {
		return fence.Errorf(fence.CodeInvalidRequest, "a row that is made anew does not exist").In("If-Match")
	}
	write.If.Absent = false // so that it never does
	if err := g.readRowBody(w, r, &write); err != nil {
		return err
	}
	write.NumbersAsText = prefersNumbersAsText(r.Header)
	rights := rightsTo(r, table)
	write.Shown, write.Settable = rights.shown, rights.settable
	ctx, cancel := detached(r, g.cfg.WriteTimeout)
	defer cancel()
	row, err := g.cfg.Rows.WriteRow(ctx, write)
	if err != nil {
		return settled(err)
	}
	if row.Made != nil {
		w.Header().Set("Location", "/v1/rows/"+escapeName(table)+"/"+escapedKey(row.Made))
	}
	respondRow(w, r, write, row, rights)
	return nil
}

func escapedKey(parts []string) string {
	escaped := make([]string, len(parts))
	for i, p := range parts {
		escaped[i] = escapeName(p)
	}
	return strings.Join(escaped, ",")
}
