package gatewaytest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/fencegate/fencegate/fence"
)

func rowNames(n fence.RowName) (resource, lease string) {
	key := strings.Join(n.Key, ",")
	return "rows/" + n.Table + "/" + key, strings.TrimPrefix(n.Table, "public.") + ":" + key
}

// Row reads a row.
func (m *Memory) Row(_ context.Context, r fence.RowRead) (fence.Row, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	resource, name := rowNames(r.Row)
	s := m.state(resource, name)
	if err := m.readable(s, r.Access); err != nil {
		return fence.Row{}, err
	}
	row, ok := m.rows[resource]
	if !ok {
		return fence.Row{}, absent(s)
	}
	return fence.Row{State: s, JSON: row}, nil
}

func absent(s fence.State) error {
	e := fence.Errorf(fence.CodeNotFound, "%s does not exist", s.Resource)
	e.State = &s
	return e
}

// RowMark reads a row's mark.
func (m *Memory) RowMark(_ context.Context, n fence.RowName) (fence.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	resource, name := rowNames(n)
	return m.state(resource, name), nil
}

// WriteRow changes, replaces or deletes a row. Any column exists; the columns are kept as they are sent.
func (m *Memory) WriteRow(_ context.Context, w fence.RowWrite) (fence.Row, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.Op == fence.OpInsert {
		return m.insertRow(w)
	}
	return m.writeRow(w, fence.DigestOf(string(w.Op), w.Row.Table, strings.Join(w.Row.Key, ","), fmt.Sprint(w.If), string(w.Body)))
}

// insertRow numbers the rows that it makes. The lease is the table's name.
func (m *Memory) insertRow(w fence.RowWrite) (fence.Row, error) {
	resource, name := "rows/"+w.Row.Table, strings.TrimPrefix(w.Row.Table, "public.")
	s, replayed, err := m.admit(resource, name, w.Access, w.If, fence.DigestOf(string(w.Op), resource, fmt.Sprint(w.If), string(w.Body)), false)
	if err != nil {
		return fence.Row{}, err
	}
	if !replayed {
		m.made[resource] = append(m.made[resource], w.Token)
	}
	key := strconv.Itoa(slices.Index(m.made[resource], w.Token) + 1)
	row, _ := rowNames(fence.RowName{Table: w.Row.Table, Key: []string{key}})
	if !replayed {
		m.rows[row] = w.Body
		m.marks[row] = &markRecord{fence.Mark{Token: w.Token, Principal: w.Principal}, name, true}
	}
	return fence.Row{State: s, JSON: m.rows[row], Made: []string{key}, Created: true, Replayed: replayed}, nil
}

func (m *Memory) writeRow(w fence.RowWrite, digest fence.Digest) (fence.Row, error) {
	resource, name := rowNames(w.Row)
	old, exists := m.rows[resource]
	before := m.marks[resource]
	s, replayed, err := m.admit(resource, name, w.Access, w.If, digest, exists)
	if err != nil {
		return fence.Row{}, err
	}
	if replayed {
		return fence.Row{State: s, JSON: old, Created: before.created, Replayed: true}, nil
	}
	if !exists && w.Op != fence.OpPut {
		m.undo(resource, before)
		return fence.Row{}, absent(m.state(resource, name))
	}
	if w.Op == fence.OpDelete {
		delete(m.rows, resource)
		return fence.Row{State: s}, nil
	}
	row := map[string]json.RawMessage{}
	if w.Op == fence.OpPatch {
		if err := json.Unmarshal(old, &row); err != nil {
			return fence.Row{}, err
		}
	}
	var changed map[string]json.RawMessage
	if err := json.Unmarshal(w.Body, &changed); err != nil {
		return fence.Row{}, err
	}
	maps.Copy(row, changed)
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(row); err != nil {
		return fence.Row{}, err
	}
	m.rows[resource] = bytes.TrimSpace(b.Bytes())
	return fence.Row{State: s, JSON: m.rows[resource], Created: !exists}, nil
}

func (m *Memory) undo(resource string, before *markRecord) {
	if before == nil {
		delete(m.marks, resource)
		return
	}
	m.marks[resource] = before
}
