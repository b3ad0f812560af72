package gateway

import (
	"net/http"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// grant is a grant as a client sees it. Of a lease that the locker knows and the ledger does not (yet), only name,
// holder and the remaining time are known.
type grant struct {
	Name        string        `json:"name"`
	ID          string        `json:"id,omitempty"`
	Holder      string        `json:"holder"`
	Principal   string        `json:"principal,omitempty"`
	Token       fence.Token   `json:"token,omitempty"`
	TokenLast   fence.Token   `json:"token_last,omitempty"`
	Blocks      []fence.Block `json:"blocks,omitempty"`
	TTLMS       int64         `json:"ttl_ms,omitempty"`
	RemainingMS int64         `json:"remaining_ms"`
	GrantedAt   *time.Time    `json:"granted_at,omitempty"`
}

func grantOf(h *lease.Held) grant {
	g := grant{Name: h.Lease, Holder: h.Holder, RemainingMS: millis(h.Remaining)}
	if len(h.Blocks) == 0 {
		return g
	}
	at := h.GrantedAt.UTC()
	g.ID, g.Principal, g.Blocks, g.TTLMS, g.GrantedAt = h.ID, h.Principal, h.Blocks, millis(h.TTL), &at
	g.Token, g.TokenLast = h.First(), h.Last()
	return g
}

// respondGrant answers the grant's own holder, who gets its id.
func respondGrant(w http.ResponseWriter, status int, h *lease.Held) {
	g := grantOf(h)
	w.Header().Set(headerLeaseID, g.ID)
	respondJSON(w, status, g)
}

// leaseView is a lease as others than its holder see it.
type leaseView struct {
	grant
	Queue *queueView `json:"queue,omitempty"`
}

// queueView is who waits for a lease: how many, and the first of them.
type queueView struct {
	Length  int           `json:"length"`
	Waiting []waitingView `json:"waiting"`
}

type waitingView struct {
	Holder    string `json:"holder"`
	WaitingMS int64  `json:"waiting_ms"`
}

func viewOf(v *lease.View) leaseView {
	shown := leaseView{grantOf(&v.Held), &queueView{v.Queued, []waitingView{}}}
	shown.ID = ""
	for _, w := range v.Waiting {
		shown.Queue.Waiting = append(shown.Queue.Waiting, waitingView{w.Holder, millis(w.For)})
	}
	return shown
}
