package gateway

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/fencegate/fencegate/fence"
)

// committed is what a client is told of one write of a commit. The row follows, if there is one to be shown.
type committed struct {
	Op       fence.Op    `json:"op"`
	Resource string      `json:"resource"`
	Token    fence.Token `json:"token"`
	Lease    string      `json:"lease"`
	Created  bool        `json:"created,omitempty"`
	Size     *int64      `json:"size,omitempty"`
	SHA256   string      `json:"sha256,omitempty"`
}

// respondCommit answers with what each write did, in the order of the request. token is the resource's mark.
func respondCommit(w http.ResponseWriter, r *http.Request, c fence.Commit, done fence.Committed) error {
	h := w.Header()
	if done.Replayed {
		h.Set(headerReplayed, "true")
	}
	minimal := prefersMinimal(r.Header)
	switch {
	case minimal:
		h.Set("Preference-Applied", "return=minimal")
	default:
		applyNumbers(h, r.Header)
	}
	var b bytes.Buffer
	b.WriteString(`{"results":[`)
	for i, result := range done.Results {
		if i > 0 {
			b.WriteByte(',')
		}
		entry, row := describeResult(c.Writes[i], result)
		text, err := json.Marshal(entry)
		if err != nil {
			return settled(err)
		}
		if row == nil || minimal || !rightsTo(r, c.Writes[i].Row.Row.Table).read {
			b.Write(text)
			continue
		}
		// The row as PostgreSQL wrote it: marshalling would take the spaces out of its json columns.
		b.Write(text[:len(text)-1])
		b.WriteString(`,"row":`)
		b.Write(row)
		b.WriteByte('}')
	}
	b.WriteString("]}\n")
	respondBytes(w, http.StatusOK, "application/json", b.Bytes())
	return nil
}

func describeResult(w fence.CommitWrite, result fence.CommitResult) (committed, json.RawMessage) {
	if row := result.Row; row != nil {
		return committed{Op: w.Row.Op, Resource: row.Resource, Token: row.Mark, Lease: row.Lease, Created: row.Created}, row.JSON
	}
	o := result.Object
	entry := committed{Op: w.Object.Op, Resource: o.Resource, Token: o.Mark, Lease: o.Lease, Created: o.Created, SHA256: o.SHA256}
	if o.Blob != "" {
		entry.Size = &o.Size
	}
	return entry, nil
}
