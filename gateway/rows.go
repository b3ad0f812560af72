package gateway

import (
	"net/http"
	"strings"

	"github.com/fencegate/fencegate/fence"
)

func (g *Gateway) rowEndpoint(rest string) (endpoint, error) {
	if rest != "" && !strings.Contains(rest, "/") {
		return g.rowListEndpoint(rest)
	}
	name, table, err := rowPath(rest)
	if err != nil {
		return endpoint{}, err
	}
	return endpoint{about: table, target: name, methods: g.rowMethods}, nil
}

// newRowMethods are the methods of every row: made once, since writes of rows are what a gateway is asked for most.
func (g *Gateway) newRowMethods() []method {
	return []method{
		on(http.MethodGet, "get", VerbRead, stated(g.cfg.Rows.RowMark, g.getRow)),
		on(http.MethodPatch, "patch", VerbWrite, stated(g.cfg.Rows.RowMark, g.patchRow)),
		on(http.MethodPut, "put", VerbWrite, stated(g.cfg.Rows.RowMark, g.putRow)),
		on(http.MethodDelete, "delete", VerbWrite, stated(g.cfg.Rows.RowMark, g.deleteRow)),
	}
}

// getRow never answers 304: the mark does not move when somebody writes the row past the gateway.
func (g *Gateway) getRow(w http.ResponseWriter, r *http.Request, name fence.RowName) error {
	by, err := access(r)
	if err != nil {
		return err
	}
	cond, err := conditions(r.Header)
	if err != nil {
		return err
	}
	row, err := g.cfg.Rows.Row(r.Context(), fence.RowRead{
		Row: name, Access: by, NumbersAsText: prefersNumbersAsText(r.Header), Shown: columnsOf(r, VerbRead, name.Table),
	})
	if err != nil {
		return err
	}
	if !(fence.Condition{Match: cond.Match}).Holds(row.Mark) {
		return preconditionFailed(row.State)
	}
	setState(w.Header(), row.State)
	applyNumbers(w.Header(), r.Header)
	respondRaw(w, http.StatusOK, row.JSON)
	return nil
}

func preconditionFailed(s fence.State) error {
	e := fence.Errorf(fence.CodePreconditionFailed, "the mark is %d", s.Mark)
	e.State = &s
	return e
}

func (g *Gateway) patchRow(w http.ResponseWriter, r *http.Request, name fence.RowName) error {
	return g.writeRow(w, r, fence.RowWrite{Op: fence.OpPatch, Row: name})
}

func (g *Gateway) putRow(w http.ResponseWriter, r *http.Request, name fence.RowName) error {
	return g.writeRow(w, r, fence.RowWrite{Op: fence.OpPut, Row: name})
}

func (g *Gateway) deleteRow(w http.ResponseWriter, r *http.Request, name fence.RowName) error {
	return g.writeRow(w, r, fence.RowWrite{Op: fence.OpDelete, Row: name})
}

func (g *Gateway) writeRow(w http.ResponseWriter, r *http.Request, write fence.RowWrite) error {
	var err error
	if write.Access, err = writeAccess(r); err != nil {
		return err
	}
	if write.If, err = writeConditions(r.Header); err != nil {
		return err
	}
	if write.Op != fence.OpDelete {
		if err := g.readRowBody(w, r, &write); err != nil {
			return err
		}
	}
	write.NumbersAsText = prefersNumbersAsText(r.Header)
	rights := rightsTo(r, write.Row.Table)
	write.Shown, write.Settable = rights.shown, rights.settable
	row, err := g.cfg.Rows.WriteRow(g.writes.detached(r), write)
	if err != nil {
		return settled(err)
	}
	respondRow(w, r, write, row, rights)
	return nil
}

// readRowBody keeps the body as it was sent: its digits are PostgreSQL's to read, and a replay compares its bytes.
func (g *Gateway) readRowBody(w http.ResponseWriter, r *http.Request, write *fence.RowWrite) error {
	if err := requireJSON(r.Header); err != nil {
		return err
	}
	body, err := g.readBody(w, r)
	if err != nil {
		return err
	}
	if write.Columns, err = scanObject(body, g.cfg.MaxDepth); err != nil {
		return err
	}
	if write.Op == fence.OpPatch && len(write.Columns) == 0 {
		return fence.Errorf(fence.CodeInvalidRequest, "the body names no column to change")
	}
	write.Body = body
	return nil
}

// respondRow answers a write. A replay is answered as the first time, with the row as it stands now. Who may write a row
// and not read it is not shown the columns that it did not send.
func respondRow(w http.ResponseWriter, r *http.Request, write fence.RowWrite, row fence.Row, to rights) {
	h := w.Header()
	setState(h, row.State)
	if row.Replayed {
		h.Set(headerReplayed, "true")
	}
	switch {
	case write.Op == fence.OpDelete || row.JSON == nil || !to.read:
		w.WriteHeader(http.StatusNoContent)
	case prefersMinimal(r.Header):
		respondMinimal(w)
	default:
		applyNumbers(h, r.Header)
		respondRaw(w, statusOfWrite(row.Created), row.JSON)
	}
}

// columnsOf lists the columns of a table to which the caller's verb is limited, nil when it is not.
func columnsOf(r *http.Request, v Verb, table string) []string {
	t, err := fence.ParseTableName(table)
	if err != nil {
		return []string{}
	}
	return callerOf(r.Context()).Columns(aboutTable(t).with(v))
}

// rights are what a caller that writes a row may see of it, and set.
type rights struct {
	read bool
	// shown are the columns of the written row that it is shown: none, if it does not want to, or may not read the table.
	shown, settable []string
}

func rightsTo(r *http.Request, table string) rights {
	none := rights{shown: []string{}, settable: []string{}}
	t, err := fence.ParseTableName(table)
	if err != nil {
		return none
	}
	caller, about := callerOf(r.Context()), aboutTable(t)
	to := rights{read: caller.May(about.with(VerbRead)), shown: none.shown, settable: caller.Columns(about.with(VerbWrite))}
	if to.read && !prefersMinimal(r.Header) {
		to.shown = caller.Columns(about.with(VerbRead))
	}
	return to
}

func respondMinimal(w http.ResponseWriter) {
	w.Header().Set("Preference-Applied", "return=minimal")
	w.WriteHeader(http.StatusNoContent)
}

func statusOfWrite(created bool) int {
	if created {
		return http.StatusCreated
	}
	return http.StatusOK
}
