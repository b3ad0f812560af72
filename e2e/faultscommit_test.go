package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/fencegate/fencegate/e2e/history"
)

// notGuilty is the code of a write that was undone with its commit, for which another one was refused.
const notGuilty = "commit-refused"

// commit writes the row of a lease, and often that of another one, which may be lost, in one commit. The history has an operation for
// each: together they are accepted, refused or unknown.
func (w *faultsWorker) commit(h *hold) {
	holds := []*hold{h}
	if w.rand.IntN(4) > 0 {
		if other := w.old(w.rand.IntN(w.plan.Leases)); other != nil && other.lease != h.lease {
			holds = append(holds, other)
		}
	}
	if w.rand.IntN(2) == 0 && len(holds) == 2 {
		holds[0], holds[1] = holds[1], holds[0]
	}
	var ops []pending
	var writes []map[string]any
	for _, h := range holds {
		id, token := w.newID(), w.spend(h)
		kind, op := history.Patch, "patch"
		if w.rand.IntN(2) == 0 {
			kind, op = history.Put, "put"
		}
		ops = append(ops, pending{id, history.Call{Kind: kind, Lease: leaseOf(h.lease), Resource: rowOf(h.lease), Token: token, Value: id, Class: history.ClassCommit}})
		writes = append(writes, map[string]any{"op": op, "resource": rowOf(h.lease), "token": token, "body": jobRow{Token: token, Nonce: id}})
	}
	body := jsonBody(map[string]any{"writes": writes})
	size, _ := json.Marshal(map[string]any{"writes": writes})
	var last reply
	w.doAll(ops, request{
		method: http.MethodPost, path: "/v1/commit", header: map[string]string{"Content-Type": "application/json"}, timeout: w.timeout(), body: body, size: int64(len(size)),
		read: func(r reply, _ *history.Reply) { last = r },
	}, func(all *history.Reply) []*history.Reply { return shareOut(ops, all, last) })
}

// shareOut makes a reply for each write of a commit.
func shareOut(ops []pending, all *history.Reply, last reply) []*history.Reply {
	replies := make([]*history.Reply, len(ops))
	var told struct {
		Write   int `json:"write"`
		Results []struct {
			Token   int64  `json:"token"`
			Created bool   `json:"created"`
			Row     jobRow `json:"row"`
		} `json:"results"`
	}
	told.Write = -1
	readable := all.Lost || all.Status == 0 || json.Unmarshal(last.body, &told) == nil
	for i := range ops {
		r := *all
		replies[i] = &r
		switch {
		case all.Lost || all.Status == 0:
		case all.Code != "":
			if told.Write >= 0 && told.Write != i {
				r.Mark, r.Code = -1, notGuilty
			}
		case !readable || len(told.Results) != len(ops):
			r.Torn, r.Note = true, "the answer to a commit has no results for its writes"
		default:
			result := told.Results[i]
			r.Mark, r.Created = result.Token, result.Created
			// A replay shows the row as it is now.
			if !r.Replayed && (result.Row.Nonce != ops[i].id || result.Token != ops[i].call.Token) {
				r.Torn, r.Note = true, fmt.Sprintf("the answer to write %s with token %d of a commit shows %s under mark %d", ops[i].id, ops[i].call.Token, result.Row.Nonce, result.Token)
			}
		}
	}
	return replies
}

// pending is an operation that is about to be tried.
type pending struct {
	id   string
	call history.Call
}

// doAll makes operations of one request and repeats it while its outcome is open, at whichever gateway.
func (w *faultsWorker) doAll(ops []pending, req request, share func(*history.Reply) []*history.Reply) *history.Reply {
	for _, op := range ops {
		op.call.Client, op.call.Principal = w.plan.Name, w.plan.Principal
		w.tell(history.Line{ID: op.id, At: monotonic(), Call: &op.call})
	}
	for attempt := 1; ; attempt++ {
		r := w.attempt(req)
		if r.Code == "" && !req.once && attempt == 1 && w.rand.IntN(20) == 0 {
			r = &history.Reply{Lost: true, Mark: -1, Note: "an answer that was not listened to"}
		}
		for i, one := range share(r) {
			w.tell(history.Line{ID: ops[i].id, At: monotonic(), Reply: one})
		}
		open := r.Lost || r.Code == "outcome-unknown" || r.Code == "unavailable" || r.Code == "contention" || r.Code == "overloaded"
		if !open || req.once || attempt == 6 || w.rand.IntN(6) == 0 || w.stopping.Load() && attempt > 1 {
			return r
		}
		time.Sleep(time.Duration(5+w.rand.IntN(120)) * time.Millisecond)
		for _, op := range ops {
			w.tell(history.Line{ID: op.id, At: monotonic(), Again: true})
		}
	}
}
