package gateway

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// rowMarkEndpoint is of a row, or of the table itself: what inserts spend their tokens on.
func (g *Gateway) rowMarkEndpoint(rest string) (endpoint, error) {
	if rest != "" && !strings.Contains(rest, "/") {
		table, about, err := tablePath(rest)
		if err != nil {
			return endpoint{}, err
		}
		return endpoint{about: about, methods: []method{on(http.MethodGet, "get", VerbRead, fence.RowName{Table: table}, g.rowMark)}}, nil
	}
	name, table, err := rowPath(rest)
	if err != nil {
		return endpoint{}, err
	}
	return endpoint{about: table, methods: []method{on(http.MethodGet, "get", VerbRead, name, g.rowMark)}}, nil
}

func (g *Gateway) objectMarkEndpoint(rest string) (endpoint, error) {
	name, err := objectPath(rest)
	if err != nil {
		return endpoint{}, err
	}
	return endpoint{about: aboutObject(name), methods: []method{on(http.MethodGet, "get", VerbRead, name, g.objectMark)}}, nil
}

func (g *Gateway) rowMark(w http.ResponseWriter, r *http.Request, name fence.RowName) error {
	s, err := g.cfg.Rows.RowMark(r.Context(), name)
	if err != nil {
		return err
	}
	respondMark(w, s)
	return nil
}

func (g *Gateway) objectMark(w http.ResponseWriter, r *http.Request, name fence.ObjectName) error {
	s, err := g.cfg.Objects.ObjectMark(r.Context(), name)
	if err != nil {
		return err
	}
	respondMark(w, s)
	return nil
}

// mark is a resource's mark as a client sees it: by whom and when only once it was written.
type mark struct {
	Resource  string      `json:"resource"`
	Token     fence.Token `json:"token"`
	Lease     string      `json:"lease"`
	Principal string      `json:"principal,omitempty"`
	WrittenAt *time.Time  `json:"written_at,omitempty"`
}

func respondMark(w http.ResponseWriter, s fence.State) {
	m := mark{Resource: s.Resource, Token: s.Mark, Lease: s.Lease}
	if s.Mark != 0 {
		at := s.WrittenAt.UTC()
		m.Principal, m.WrittenAt = s.MarkedBy, &at
	}
	setState(w.Header(), s)
	respondJSON(w, http.StatusOK, m)
}

// setState tells the mark and the lease, as every answer about a resource does. The ETag is the mark and not a hash
// of the answer: a projection is no validator for the resource.
func setState(h http.Header, s fence.State) {
	h.Set(headerToken, s.Mark.String())
	h.Set("ETag", `"`+s.Mark.String()+`"`)
	if s.Lease != "" {
		h.Set(headerLease, escapeName(s.Lease))
	}
}

// escapeName keeps RFC 3986's unreserved characters and percent-encodes every other byte.
func escapeName(s string) string {
	return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") // a + in s has become %2B
}
