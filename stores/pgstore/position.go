package pgstore

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/fencegate/fencegate/fence"
)

// position is a place in the order of the events, behind which reading goes on.
//
// A transaction is given its xid before it commits, so an event can appear before others that have been told already. A
// position therefore says what has been seen: every event up to one of them, save those of the transactions before it
// that were open when it was told. They are read later, whenever they commit. An event is held back while transactions
// before it are open, but for a second only; later the few that are open for so long are named in the position. So
// nothing is missed, whatever is open for however long, and a transaction of somebody else's holds nothing up.
type position struct {
	epoch string
	seen  eventID
	open  []eventID // transactions before seen, in their order, and the last of their events that was seen
}

// eventID is an event's place: its transaction, and its number in it. The number 0 stands before all.
type eventID struct{ xid, id int64 }

func (e eventID) before(o eventID) bool {
	return cmp.Or(cmp.Compare(e.xid, o.xid), cmp.Compare(e.id, o.id)) < 0
}

// openLimit bounds how many open transactions a position names, and so its length.
const openLimit = 100

// at returns the position behind an event, read behind p, with the transactions before it that are open.
func (p position) at(e eventID, open []int64) position {
	next := position{epoch: p.epoch, seen: e}
	if e.before(p.seen) { // of a transaction that was open
		next.seen = p.seen
		for _, o := range p.open {
			if o.xid == e.xid {
				o = e
			}
			next.open = append(next.open, o)
		}
		return next
	}
	for _, xid := range open {
		next.open = append(next.open, eventID{xid: xid})
	}
	return next
}

// String writes the position: its epoch, and numbers to the base of 36, joined by dashes.
func (p position) String() string {
	b := []byte(p.epoch)
	for _, e := range append([]eventID{p.seen}, p.open...) {
		b = strconv.AppendInt(append(b, '-'), e.xid, 36)
		b = strconv.AppendInt(append(b, '-'), e.id, 36)
	}
	return string(b)
}

// parsePosition reads what String wrote.
func parsePosition(s string) (position, error) {
	malformed := fence.Errorf(fence.CodeInvalidRequest, "this is not the position of an event").In("after")
	parts := strings.Split(s, "-")
	if len(parts)%2 == 0 || len(parts) < 3 || len(parts) > 3+2*openLimit || parts[0] == "" || len(parts[0]) > 8 {
		return position{}, malformed
	}
	p := position{epoch: parts[0]}
	for i := 1; i < len(parts); i += 2 {
		e, ok := parseEventID(parts[i], parts[i+1])
		switch {
		case !ok:
			return position{}, malformed
		case i == 1:
			p.seen = e
		case e.xid >= p.seen.xid || len(p.open) > 0 && e.xid <= p.open[len(p.open)-1].xid:
			return position{}, malformed
		default:
			p.open = append(p.open, e)
		}
	}
	return p, nil
}

func parseEventID(xid, id string) (e eventID, ok bool) {
	x, xErr := strconv.ParseUint(xid, 36, 63)
	n, nErr := strconv.ParseUint(id, 36, 63)
	return eventID{int64(x), int64(n)}, xErr == nil && nErr == nil
}
