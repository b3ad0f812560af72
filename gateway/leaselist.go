package gateway

import (
	"cmp"
	"net/http"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

const (
	defaultPage = 100
	// hiddenPages is how many pages of leases that the caller may not read a list looks through, and hiddenPage how long
	// they are but the first: each lease of a page costs a question to the locker.
	hiddenPages = 5
	hiddenPage  = 500
)

func (g *Gateway) leasesEndpoint(string) (endpoint, error) {
	return endpoint{piecewise: true, methods: []method{
		{name: http.MethodGet, op: "list", verb: VerbRead, query: true, serve: untargeted(g.listLeases)},
	}}, nil
}

func (g *Gateway) listLeases(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r.URL.RawQuery, "prefix", "limit", "after")
	if err != nil {
		return err
	}
	limit, err := q.number("limit", 1, lease.MaxPage)
	if err != nil {
		return err
	}
	page, err := g.readablePage(r, lease.Listing{Prefix: q["prefix"], After: q["after"], Limit: cmp.Or(limit, defaultPage)})
	if err != nil {
		return err
	}
	answer := struct {
		Leases []leaseView `json:"leases"`
		Next   string      `json:"next,omitempty"`
	}{Leases: []leaseView{}, Next: page.Next}
	for i := range page.Leases {
		v := viewOf(&page.Leases[i])
		if v.Queue.Length == 0 {
			v.Queue = nil
		}
		answer.Leases = append(answer.Leases, v)
	}
	respondJSON(w, http.StatusOK, answer)
	return nil
}

// readablePage reads a page of what the caller may read. Next is the name of a lease, so it too is one that the caller may
// read: where a page ends with another, the list goes on from the last that is shown, or looks further if there is none.
func (g *Gateway) readablePage(r *http.Request, l lease.Listing) (lease.Page, error) {
	limit := l.Limit
	for range hiddenPages {
		page, err := g.cfg.Leases.List(r.Context(), l)
		if err != nil {
			return lease.Page{}, err
		}
		shown, cut := readable(r, page.Leases, limit)
		switch {
		case cut, page.Next != "" && !mayReadLease(r, page.Next) && len(shown) > 0:
			return lease.Page{Leases: shown, Next: shown[len(shown)-1].Lease}, nil
		case page.Next == "", mayReadLease(r, page.Next):
			return lease.Page{Leases: shown, Next: page.Next}, nil
		}
		l.After, l.Limit = page.Next, max(l.Limit, hiddenPage)
	}
	return lease.Page{}, fence.Errorf(fence.CodeInvalidRequest,
		"too many leases that this principal may not read lie before the next one that it may: give a longer prefix").In("prefix")
}

// readable returns those of the leases that the caller may read, at most limit of them, and whether it left out others that
// it may read.
func readable(r *http.Request, leases []lease.View, limit int) (shown []lease.View, cut bool) {
	for _, v := range leases {
		if !mayReadLease(r, v.Lease) {
			continue
		}
		if len(shown) == limit {
			return shown, true
		}
		shown = append(shown, v)
	}
	return shown, false
}

func mayReadLease(r *http.Request, name string) bool {
	return allowed(r, Action{Verb: VerbRead, Lease: name}) == nil
}
