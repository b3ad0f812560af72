package e2e

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/fencegate/fencegate/e2e/history"
)

// keptHolds is how many grants a client remembers, to go on writing with them when they are long lost.
const keptHolds = 60

// acquire takes a lease for a short time, and returns nil when it did not get it, or does not know.
func (w *faultsWorker) acquire(lease int) *hold {
	id := w.newID()
	ttl := 150*time.Millisecond + time.Duration(w.rand.IntN([]int{250, 1850}[w.rand.IntN(2)]))*time.Millisecond
	wait := []time.Duration{0, 0, 300 * time.Millisecond, time.Second}[w.rand.IntN(4)]
	if lease < hotLeases {
		wait = time.Second
	}
	body := map[string]string{"ttl": ttl.String(), "wait": wait.String(), "holder": id}
	req := request{
		method: http.MethodPost, path: jobLeasePath(lease, ""), header: map[string]string{"Content-Type": "application/json"},
		timeout: wait + w.timeout(),
	}
	// Without an acquire id of the client's an acquire cannot be repeated.
	if req.once = w.rand.IntN(5) == 0; !req.once {
		body["acquire_id"] = id
	}
	w.jsonRequest(&req, body)
	h := &hold{lease: lease, ttl: ttl.Truncate(time.Millisecond)}
	req.read = func(r reply, out *history.Reply) {
		var g grant
		if r.ok() && json.Unmarshal(r.body, &g) == nil {
			h.id, h.first = g.ID, g.Token
			h.free = []history.Block{{First: g.Token, Last: g.Token + 999}}
			out.First, out.Last = g.Token, g.Last
		}
	}
	r := w.do(id, history.Call{Kind: history.Acquire, Lease: leaseOf(lease), Holder: id, TTL: int64(h.ttl)}, req)
	if r.Lost || r.Code != "" {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.holds = append(w.holds, h); len(w.holds) > keptHolds {
		w.holds = w.holds[1:]
	}
	return h
}

func (w *faultsWorker) jsonRequest(req *request, body any) {
	req.body = jsonBody(body)
	content, _ := json.Marshal(body)
	req.size = int64(len(content))
}

// renew never shortens the lease: what the checker knows of how long it runs stays true.
func (w *faultsWorker) renew(h *hold) {
	req := request{
		method: http.MethodPut, path: jobLeasePath(h.lease, ""), timeout: w.timeout(),
		header: map[string]string{"Content-Type": "application/json", "X-Lease-Id": h.id},
	}
	w.jsonRequest(&req, map[string]string{"ttl": (h.ttl + time.Duration(w.rand.IntN(500))*time.Millisecond).String()})
	w.do(w.newID(), history.Call{Kind: history.Renew, Lease: leaseOf(h.lease), First: h.first}, req)
}

// more asks once: what a second attempt adds could not be told from what the first did.
func (w *faultsWorker) more(h *hold) {
	w.do(w.newID(), history.Call{Kind: history.Tokens, Lease: leaseOf(h.lease), First: h.first}, request{
		method: http.MethodPost, path: jobLeasePath(h.lease, "/tokens"), timeout: w.timeout(), once: true,
		header: map[string]string{"X-Lease-Id": h.id},
		read: func(r reply, out *history.Reply) {
			var g grant
			if r.ok() && json.Unmarshal(r.body, &g) == nil {
				out.First, out.Last = g.Token, g.Last
				h.mu.Lock()
				h.free = append(h.free, history.Block{First: g.Last - 999, Last: g.Last})
				h.mu.Unlock()
			}
		},
	})
}

func (w *faultsWorker) release(h *hold) {
	w.do(w.newID(), history.Call{Kind: history.Release, Lease: leaseOf(h.lease), First: h.first}, request{
		method: http.MethodDelete, path: jobLeasePath(h.lease, ""), timeout: w.timeout(), header: map[string]string{"X-Lease-Id": h.id},
	})
}

// breakLease asks once: repeated, it could end the next grant as well.
func (w *faultsWorker) breakLease(lease int) {
	id := w.newID()
	req := request{
		method: http.MethodPost, path: jobLeasePath(lease, "/break"), timeout: w.timeout(), once: true,
		header: map[string]string{"Content-Type": "application/json"},
	}
	w.jsonRequest(&req, map[string]string{"reason": id})
	w.do(id, history.Call{Kind: history.Break, Lease: leaseOf(lease), Reason: id}, req)
}
