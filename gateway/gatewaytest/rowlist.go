package gatewaytest

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/fencegate/fencegate/fence"
)

// ListRows reads the rows of a table in the order of their resources' names, whatever the query's. It knows the filter eq on text
// and numbers as they were sent; Next is the name of the last row.
func (m *Memory) ListRows(_ context.Context, q fence.RowQuery) (fence.RowPage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var page fence.RowPage
	var count int64
	for _, resource := range slices.Sorted(maps.Keys(m.rows)) {
		if !strings.HasPrefix(resource, "rows/"+q.Table+"/") || !passes(m.rows[resource], q.Filters) {
			continue
		}
		count++
		switch {
		case resource <= q.After:
		case len(page.Rows) < q.Limit:
			page.Rows = append(page.Rows, m.rows[resource])
			q.After = resource
		default:
			page.Next = q.After
		}
	}
	if q.Count {
		page.Count = &count
	}
	return page, nil
}

func passes(row []byte, filters []fence.Filter) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(row, &members) != nil {
		return false
	}
	for _, f := range filters {
		if f.Op != fence.FilterEq || strings.Trim(string(members[f.Column]), `"`) != f.Values[0] {
			return false
		}
	}
	return true
}
