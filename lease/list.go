package lease

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/fencegate/fencegate/fence"
)

const (
	defaultPage = 100
	// scanned bounds how many grants one page looks at. A lease that expired leaves its grant behind until the next one.
	scanned = 5000
	// lookers is how many leases of a page are looked at at once.
	lookers = 16
)

// List returns a page of the leases that are held. Those granted or lost meanwhile may or may not be among them.
func (m *Manager) List(ctx context.Context, l Listing) (Page, error) {
	l.Limit = cmp.Or(l.Limit, defaultPage)
	if err := l.check(); err != nil {
		return Page{}, err
	}
	var page Page
	after := l.After
	for seen := 0; seen < scanned; {
		// Most may have run out: to ask for few at a time would be slow.
		want := max(l.Limit-len(page.Leases), defaultPage)
		grants, err := m.ledger.List(ctx, l.Prefix, after, want)
		if err != nil {
			return Page{}, fmt.Errorf("list leases: %w", coded(err))
		}
		if err := m.addHeld(ctx, grants, &page); err != nil {
			return Page{}, err
		}
		if len(page.Leases) > l.Limit {
			page.Leases = page.Leases[:l.Limit]
			page.Next = page.Leases[l.Limit-1].Lease
			return page, nil
		}
		if len(grants) < want {
			return page, nil
		}
		after, seen = grants[len(grants)-1].Lease, seen+len(grants)
		if len(page.Leases) == l.Limit {
			break
		}
	}
	page.Next = after
	return page, nil
}

// addHeld adds to a page those of the grants that hold their leases.
func (m *Manager) addHeld(ctx context.Context, grants []*fence.Grant, page *Page) error {
	views := make([]*View, len(grants))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(lookers)
	for i, g := range grants {
		group.Go(func() (err error) {
			views[i], err = m.view(ctx, g)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, v := range views {
		if v != nil {
			page.Leases = append(page.Leases, *v)
		}
	}
	return nil
}

// view returns nil when the grant does not hold its lease.
func (m *Manager) view(ctx context.Context, g *fence.Grant) (*View, error) {
	st, err := m.locker.Look(ctx, g.Lease, shownEntries)
	switch {
	case err != nil:
		return nil, fmt.Errorf("look at lease %s: %w", g.Lease, coded(err))
	case st.Value != g.Hold || st.Reserved:
		return nil, nil
	}
	v := m.turns.view(g.Lease, st)
	g.ID = ""
	v.Grant = *g
	return v, nil
}

func (l Listing) check() error {
	switch {
	case l.Limit < 1 || l.Limit > MaxPage:
		return invalid("limit", "a page has 1 to %d leases", MaxPage)
	case badPart(l.Prefix):
		return invalid("prefix", "a prefix is at most %d bytes of UTF-8 without control characters", fence.MaxLeaseName)
	case badPart(l.After):
		return invalid("after", "after is the next of the page before")
	}
	return nil
}

func badPart(s string) bool {
	return len(s) > fence.MaxLeaseName || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl)
}
