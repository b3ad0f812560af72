package gateway

import (
	"net/http"
	"strconv"
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
		return endpoint{about: about, target: fence.RowName{Table: table}, methods: []method{on(http.MethodGet, "get", VerbRead, g.rowMark)}}, nil
	}
	name, table, err := rowPath(rest)
	if err != nil {
		return endpoint{}, err
	}
	return endpoint{about: table, target: name, methods: []method{on(http.MethodGet, "get", VerbRead, g.rowMark)}}, nil
}

func (g *Gateway) objectMarkEndpoint(rest string) (endpoint, error) {
	name, err := objectPath(rest)
	if err != nil {
		return endpoint{}, err
	}
	return endpoint{about: aboutObject(name), target: name, methods: []method{on(http.MethodGet, "get", VerbRead, g.objectMark)}}, nil
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
	tag := make([]byte, 0, len(`"999999999999999"`))
	tag = append(tag, '"')
	tag = strconv.AppendInt(tag, int64(s.Mark), 10)
	etag := string(append(tag, '"'))
	headers := [][2]string{{headerToken, etag[1 : len(etag)-1]}, {"Etag", etag}, {headerLease, ""}}
	if s.Lease == "" {
		headers = headers[:2]
	} else {
		headers[2][1] = escapeName(s.Lease)
	}
	setHeaders(h, headers)
}

// escapeName keeps RFC 3986's unreserved characters and percent-encodes every other byte.
func escapeName(s string) string {
	const digits = "0123456789ABCDEF"
	other := 0
	for i := range len(s) {
		if !isUnreserved(s[i]) {
			other++
		}
	}
	if other == 0 {
		return s
	}
	escaped := make([]byte, 0, len(s)+2*other)
	for i := range len(s) {
		if c := s[i]; isUnreserved(c) {
			escaped = append(escaped, c)
		} else {
			escaped = append(escaped, '%', digits[c>>4], digits[c&15])
		}
	}
	return string(escaped)
}

func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}
