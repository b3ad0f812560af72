package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/fencegate/fencegate/fence"
)

// RowName names a row by its table and the parts of its primary key, in their order.
func RowName(table string, key ...string) fence.RowName { return fence.RowName{Table: table, Key: key} }

// GetRow reads a row. CodeNotFound, with the state that tells the mark and the lease, when there is none.
func (c *Client) GetRow(ctx context.Context, name fence.RowName) (fence.Row, error) {
	return c.ReadRow(ctx, fence.RowRead{Row: name})
}

// PatchRow changes the columns that are given: a struct, a map, or a json.RawMessage.
func (c *Client) PatchRow(ctx context.Context, name fence.RowName, token fence.Token, columns any) (fence.Row, error) {
	return c.writeRow(ctx, fence.OpPatch, name, token, columns)
}

// PutRow inserts or replaces a row; columns left out take their defaults.
func (c *Client) PutRow(ctx context.Context, name fence.RowName, token fence.Token, columns any) (fence.Row, error) {
	return c.writeRow(ctx, fence.OpPut, name, token, columns)
}

// InsertRow makes a row whose key the database chooses where the columns leave it out. The lease must be the same for all rows of the table.
// Made is the new row's key; the state is that of the table's own resource, on which the token is spent.
func (c *Client) InsertRow(ctx context.Context, table string, token fence.Token, columns any) (fence.Row, error) {
	return c.writeRow(ctx, fence.OpInsert, fence.RowName{Table: table}, token, columns)
}

// DeleteRow deletes a row. Its mark stays.
func (c *Client) DeleteRow(ctx context.Context, name fence.RowName, token fence.Token) (fence.Row, error) {
	return c.WriteRow(ctx, fence.RowWrite{Op: fence.OpDelete, Row: name, Access: fence.Access{Token: token}})
}

func (c *Client) writeRow(ctx context.Context, op fence.Op, name fence.RowName, token fence.Token, columns any) (fence.Row, error) {
	body, err := json.Marshal(columns)
	if err != nil {
		return fence.Row{}, fence.Wrap(fence.CodeInvalidRequest, err, "the columns cannot be written as JSON")
	}
	return c.WriteRow(ctx, fence.RowWrite{Op: op, Row: name, Access: fence.Access{Token: token}, Body: body})
}

// DecodeRow reads the columns of a row into v. Numbers that go into an any become a json.Number, which keeps every digit.
func DecodeRow(row fence.Row, v any) error {
	dec := json.NewDecoder(bytes.NewReader(row.JSON))
	dec.UseNumber()
	return dec.Decode(v)
}

// ReadRow reads a row. A token in the read has it refused once the token's grant is no longer good. The state's Resource
// is not told.
func (c *Client) ReadRow(ctx context.Context, r fence.RowRead) (fence.Row, error) {
	path, err := rowPath("/v1/rows/", r.Row)
	if err != nil {
		return fence.Row{}, err
	}
	header := tokenHeader(r.Token)
	if r.NumbersAsText {
		header.Set("Prefer", "numbers=string")
	}
	var row fence.Row
	err = c.do(ctx, &request{what: "rows.get", method: http.MethodGet, path: path, header: header, limit: c.within}, c.takeRow(&row))
	return row, err
}

// WriteRow writes a row under a token. Its principal and Columns are ignored: the gateway knows the one and reads the
// others. An unknown outcome is settled by repeating, within the bounds of Config. The row that is returned has no JSON
// after a delete, when the principal may not read the table, and when it is longer than Config.MaxAnswer.
func (c *Client) WriteRow(ctx context.Context, w fence.RowWrite) (fence.Row, error) {
	path, err := rowPath("/v1/rows/", w.Row)
	if w.Op == fence.OpInsert {
		path, err = tablePath("/v1/rows/", w.Row.Table)
	}
	if err != nil {
		return fence.Row{}, err
	}
	r := &request{kind: fenced, path: path, header: tokenHeader(w.Token), limit: c.within, token: w.Token}
	if r.what, r.method, err = writing("rows", w.Op); err != nil {
		return fence.Row{}, err
	}
	if w.Op != fence.OpDelete {
		r.body = func() []byte { return w.Body }
	}
	if w.NumbersAsText {
		r.header.Set("Prefer", "numbers=string")
	}
	if err := setCondition(r.header, w.If); err != nil {
		return fence.Row{}, err
	}
	var row fence.Row
	err = c.do(ctx, r, c.takeRow(&row))
	return row, err
}

func (c *Client) takeRow(row *fence.Row) reply {
	return func(resp *http.Response) error {
		s, err := state(resp.Header)
		if err != nil {
			return err
		}
		*row = fence.Row{State: s, Created: resp.StatusCode == http.StatusCreated, Replayed: resp.Header.Get(headerReplayed) != ""}
		if row.Made, err = made(resp.Header.Get("Location")); err != nil {
			return err
		}
		if resp.StatusCode == http.StatusNoContent {
			return nil
		}
		data, err := c.readAll(resp)
		if fence.CodeOf(err) == fence.CodeTooLarge && resp.Request.Method != http.MethodGet {
			return nil // the write was accepted all the same
		}
		if data = bytes.TrimSpace(data); err == nil && !json.Valid(data) {
			err = errors.New("the answer is no row")
		}
		row.JSON = data
		return err
	}
}

// made reads the key of a new row from its location, nil if there is none.
func made(location string) ([]string, error) {
	if location == "" {
		return nil, nil
	}
	var key []string
	for part := range strings.SplitSeq(location[strings.LastIndexByte(location, '/')+1:], ",") {
		plain, err := url.PathUnescape(part)
		if err != nil {
			return nil, errors.New("the answer's location is no row")
		}
		key = append(key, plain)
	}
	return key, nil
}

// RowMark reads the mark of a row and the lease that protects it, whether the row exists or not.
func (c *Client) RowMark(ctx context.Context, name fence.RowName) (fence.State, error) {
	path, err := rowPath("/v1/marks/rows/", name)
	if err != nil {
		return fence.State{}, err
	}
	return c.mark(ctx, path)
}

func writing(api string, op fence.Op) (what, method string, err error) {
	switch op {
	case fence.OpPatch:
		method = http.MethodPatch
	case fence.OpPut:
		method = http.MethodPut
	case fence.OpDelete:
		method = http.MethodDelete
	case fence.OpInsert:
		method = http.MethodPost
	default:
		return "", "", fence.Errorf(fence.CodeInvalidRequest, "there is no write %q", op).In("op")
	}
	return api + "." + string(op), method, nil
}

func tokenHeader(t fence.Token) http.Header {
	h := http.Header{}
	if t != 0 {
		h.Set(headerToken, t.String())
	}
	return h
}

// setCondition writes a condition on the mark as entity tags.
func setCondition(h http.Header, c fence.Condition) error {
	if c.Exists && c.Match != nil || c.Absent && c.NoneMatch != nil {
		return fence.Errorf(fence.CodeInvalidRequest, "a condition asks either for existence or for marks").In("if")
	}
	if c.Exists {
		h.Set("If-Match", "*")
	} else if c.Match != nil {
		h.Set("If-Match", tags(c.Match))
	}
	if c.Absent {
		h.Set("If-None-Match", "*")
	} else if len(c.NoneMatch) > 0 {
		h.Set("If-None-Match", tags(c.NoneMatch))
	}
	return nil
}

func tags(marks []fence.Token) string {
	if len(marks) == 0 {
		return `""` // no mark is this one
	}
	quoted := make([]string, len(marks))
	for i, m := range marks {
		quoted[i] = `"` + m.String() + `"`
	}
	return strings.Join(quoted, ", ")
}
