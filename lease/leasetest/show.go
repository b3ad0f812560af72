package leasetest

import (
	"fmt"
	"strings"

	"github.com/fencegate/fencegate/lease"
)

// show renders a standing for a failure, with values cut short.
func show(st lease.Standing) string {
	var b strings.Builder
	fmt.Fprintf(&b, "{value %.8s reserved %v holder %q remaining %v", st.Value, st.Reserved, st.Holder, st.Remaining)
	fmt.Fprintf(&b, " tenant %.8s renewed %v behind %d place %d followed %v entries %d", st.Tenant, st.Renewed, st.Behind, st.Place, st.Followed, st.Entries)
	for _, q := range st.Queue {
		fmt.Fprintf(&b, " [%.8s %d %.20q]", q.Value, q.Waiters, q.Note)
	}
	return b.String() + "}"
}
