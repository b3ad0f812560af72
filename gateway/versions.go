package gateway

import (
	"cmp"
	"net/http"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// maxVersions is how many states of an object one page of its history has at most.
const maxVersions = 1000

func (g *Gateway) versionsEndpoint(rest string) (endpoint, error) {
	name, err := objectPath(rest)
	if err != nil {
		return endpoint{}, err
	}
	list := on(http.MethodGet, "history", VerbRead, g.listVersions)
	list.query = true
	return endpoint{about: aboutObject(name), target: name, methods: []method{list}}, nil
}

// version is a state of an object as a client sees it.
type version struct {
	Token        fence.Token `json:"token"`
	Deleted      bool        `json:"deleted,omitempty"`
	Size         int64       `json:"size"`
	SHA256       string      `json:"sha256,omitempty"`
	ContentType  string      `json:"content_type,omitempty"`
	ModifiedAt   time.Time   `json:"modified_at"`
	SupersededAt *time.Time  `json:"superseded_at,omitempty"`
	KeepUntil    *time.Time  `json:"keep_until,omitempty"`
}

// listVersions lists the states of an object that can be read or restored, newest first.
func (g *Gateway) listVersions(w http.ResponseWriter, r *http.Request, name fence.ObjectName) error {
	q, err := readQuery(r.URL.RawQuery, "limit", "before")
	if err != nil {
		return err
	}
	limit, err := q.number("limit", 1, maxVersions)
	if err != nil {
		return err
	}
	limit = cmp.Or(limit, defaultPage)
	var before fence.Token
	if text, given := q["before"]; given {
		if before, err = fence.ParseToken(text); err != nil {
			return withField(err, "before")
		}
	}
	list, err := g.cfg.Objects.History(r.Context(), name, before, limit+1)
	if err != nil {
		return err
	}
	answer := struct {
		Versions []version   `json:"versions"`
		Next     fence.Token `json:"next,omitempty"`
	}{Versions: []version{}}
	for i, v := range list {
		if i == limit {
			answer.Next = list[i-1].Version
			break
		}
		entry := version{Token: v.Version, Deleted: v.Deleted, Size: v.Size, SHA256: v.SHA256, ContentType: v.Header.ContentType, ModifiedAt: v.ModifiedAt.UTC()}
		if !v.KeepUntil.IsZero() {
			superseded, until := v.SupersededAt.UTC(), v.KeepUntil.UTC()
			entry.SupersededAt, entry.KeepUntil = &superseded, &until
		}
		answer.Versions = append(answer.Versions, entry)
	}
	respondJSON(w, http.StatusOK, answer)
	return nil
}
