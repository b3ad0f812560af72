package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/fencegate/fencegate/e2e/history"
)

// defaultWork are the weights of what a holder does next.
func defaultWork() map[string]int {
	return map[string]int{
		"patch": 14, "put": 10, "commit": 10, "delete": 3, "put object": 16, "delete object": 2,
		"get": 12, "get object": 10, "mark": 4, "check": 4,
		"renew": 6, "tokens": 4, "twice": 5, "burst": 3, "old": 9, "forged": 2, "foreign": 3, "pause": 6,
	}
}

// hotLeases is how many leases are wanted by many at once.
const hotLeases = 3

// faultsWorker is one goroutine of a client.
type faultsWorker struct {
	*faultsClient
	rand *rand.Rand
	// foreign is a first token of somebody else's grant that a refusal told, of the lease foreignLease.
	foreign      int64
	foreignLease int
	late         int // refusals of own tokens under this grant
}

// run takes leases and works under them until the client is told to stop.
func (w *faultsWorker) run() {
	for !w.stopping.Load() {
		// Half of the acquires meet at a few leases.
		lease := w.rand.IntN(w.plan.Leases)
		if w.rand.IntN(2) == 0 {
			lease = w.rand.IntN(min(hotLeases, w.plan.Leases))
		}
		if w.plan.Admin && w.rand.IntN(12) == 0 {
			w.breakLease(lease)
		}
		h := w.acquire(lease)
		if h == nil {
			if h = w.old(lease); h != nil {
				w.work(h)
			}
			continue
		}
		for range 1 + w.rand.IntN(16) {
			if w.stopping.Load() {
				return
			}
			w.work(h)
			time.Sleep(time.Duration(w.rand.IntN(10)) * time.Millisecond)
			// Who learns that the lease is lost goes on for a while, some for longer than others.
			if w.late > 0 && w.rand.IntN(2) == 0 {
				break
			}
		}
		w.late = 0
		if w.rand.IntN(5) < 3 {
			w.release(h)
			if w.rand.IntN(2) == 0 {
				w.write(h.lease, w.spend(h), "released")
			}
		}
	}
}

// work does one thing under a grant, whether it still is good or not.
func (w *faultsWorker) work(h *hold) {
	row, object := rowOf(h.lease), w.objectOf(h.lease)
	switch w.pick() {
	case "patch":
		w.writeRow(h.lease, http.MethodPatch, w.spend(h), "own")
	case "put":
		w.writeRow(h.lease, http.MethodPut, w.spend(h), "own")
	case "commit":
		w.commit(h)
	case "delete":
		w.remove(history.Call{Lease: leaseOf(h.lease), Resource: row}, w.spend(h))
	case "put object":
		w.writeObject(h.lease, w.spend(h), "own")
	case "delete object":
		w.remove(history.Call{Lease: leaseOf(h.lease), Resource: object}, w.spend(h))
	case "get":
		w.get(h.lease, row, 0)
	case "get object":
		w.get(h.lease, object, 0)
	case "check":
		w.get(h.lease, []string{row, object}[w.rand.IntN(2)], h.first)
	case "mark":
		w.mark(h.lease, []string{row, object}[w.rand.IntN(2)])
	case "renew":
		w.renew(h)
	case "tokens":
		w.more(h)
	case "twice":
		token := w.spend(h)
		w.writeRow(h.lease, http.MethodPatch, token, "twice")
		w.writeRow(h.lease, http.MethodPut, token, "twice")
	case "burst":
		w.burst(h)
	case "old":
		if o := w.old(w.rand.IntN(w.plan.Leases)); o != nil {
			w.write(o.lease, w.spend(o), "old")
		}
	case "forged":
		w.write(h.lease, []int64{999_999_999_999_999, h.first + 1000 + w.rand.Int64N(5000), max(1, h.first-1)}[w.rand.IntN(3)], "forged")
	case "foreign":
		if w.foreign != 0 {
			w.write(w.foreignLease, w.foreign+1+w.rand.Int64N(20), "foreign")
		}
	case "pause":
		time.Sleep(time.Duration(w.rand.IntN(400)) * time.Millisecond)
	}
}

// burst sends three writes of one row without waiting for their answers: the later ones wait for the first inside
// PostgreSQL, with a snapshot that is older than what it does.
func (w *faultsWorker) burst(h *hold) {
	var under sync.WaitGroup
	tokens := []int64{w.spend(h), w.spend(h), w.spend(h)}
	slices.Sort(tokens)
	for i, token := range tokens {
		other := &faultsWorker{faultsClient: w.faultsClient, rand: rand.New(rand.NewPCG(w.rand.Uint64(), uint64(i)))}
		under.Go(func() {
			switch i {
			case 0:
				other.remove(history.Call{Lease: leaseOf(h.lease), Resource: rowOf(h.lease)}, token)
			case 1:
				other.writeRow(h.lease, http.MethodPatch, token, "own")
			default:
				other.writeRow(h.lease, http.MethodPut, token, "own")
			}
		})
		time.Sleep(time.Duration(w.rand.IntN(15)) * time.Millisecond)
	}
	under.Wait()
}

func (w *faultsWorker) pick() string {
	names := []string{"patch", "put", "commit", "delete", "put object", "delete object", "get", "get object", "mark", "check", "renew", "tokens", "twice", "burst", "old", "forged", "foreign", "pause"}
	sum := 0
	for _, n := range names {
		sum += w.plan.Work[n]
	}
	at := w.rand.IntN(sum)
	for _, n := range names {
		if at -= w.plan.Work[n]; at < 0 {
			return n
		}
	}
	return ""
}

// spend takes a token that was not spent yet: mostly the next one of the oldest block, sometimes one of the newest block or
// one that leaves some out. It never takes a token twice: a second delete with it would be a replay of the first.
func (w *faultsWorker) spend(h *hold) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	block := &h.free[0]
	if w.rand.IntN(4) == 0 {
		block = &h.free[len(h.free)-1]
	}
	if w.rand.IntN(10) == 0 {
		block.First += w.rand.Int64N(20)
	}
	token := block.First
	if block.First++; block.First+20 > block.Last {
		panic("a grant's tokens were all spent, sooner than was thought possible")
	}
	return token
}

// old returns a grant of the last while of a lease, mostly one that was lost.
func (w *faultsWorker) old(lease int) *hold {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range 8 {
		if len(w.holds) == 0 {
			break
		}
		if h := w.holds[w.rand.IntN(len(w.holds))]; h.lease == lease {
			return h
		}
	}
	return nil
}

func leaseOf(n int) string                    { return "job:" + strconv.Itoa(n) }
func rowOf(n int) string                      { return "rows/public.jobs/" + strconv.Itoa(n) }
func (w *faultsWorker) objectOf(n int) string { return objectIn(w.plan.Bucket, n) }
func objectIn(bucket string, n int) string    { return "objects/" + bucket + "/" + strconv.Itoa(n) + "/a" }

func (w *faultsWorker) newID() string {
	return w.plan.Name + "-" + strconv.FormatInt(w.ids.Add(1), 10)
}

// timeout is sometimes shorter than an answer takes, so that answers get lost without any fault.
func (w *faultsWorker) timeout() time.Duration {
	return []time.Duration{150 * time.Millisecond, time.Second, 3 * time.Second}[w.rand.IntN(3)]
}

func tokenHeader(token int64) map[string]string {
	return map[string]string{"X-Fence-Token": strconv.FormatInt(token, 10)}
}

func jsonBody(v any) func() io.Reader {
	content, err := json.Marshal(v)
	if err != nil {
		panic(err) // the test's own mistake
	}
	return func() io.Reader { return bytes.NewReader(content) }
}

func (w *faultsWorker) write(lease int, token int64, class string) {
	if w.rand.IntN(3) == 0 {
		w.writeObject(lease, token, class)
		return
	}
	w.writeRow(lease, []string{http.MethodPatch, http.MethodPut}[w.rand.IntN(2)], token, class)
}

func (w *faultsWorker) writeRow(lease int, method string, token int64, class string) {
	id := w.newID()
	kind := history.Patch
	if method == http.MethodPut {
		kind = history.Put
	}
	content, _ := json.Marshal(jobRow{Token: token, Nonce: id})
	header := tokenHeader(token)
	header["Content-Type"] = "application/json"
	w.do(id, history.Call{Kind: kind, Lease: leaseOf(lease), Resource: rowOf(lease), Token: token, Value: id, Class: class}, request{
		method: method, path: "/v1/rows/jobs/" + strconv.Itoa(lease), header: header, timeout: w.timeout(),
		body: func() io.Reader { return bytes.NewReader(content) }, size: int64(len(content)),
		read: func(r reply, out *history.Reply) {
			w.learn(lease, r, class)
			out.Created = r.status == http.StatusCreated
			var row jobRow
			// A replay shows the row as it is now.
			if r.ok() && !out.Replayed && (json.Unmarshal(r.body, &row) != nil || row.Nonce != id || out.Mark != token) {
				out.Torn, out.Note = true, fmt.Sprintf("the answer to a write of %s with token %d shows %s under mark %d", id, token, row.Nonce, out.Mark)
			}
		},
	})
}

func (w *faultsWorker) writeObject(lease int, token int64, class string) {
	id := w.newID()
	size := []int64{0, w.rand.Int64N(4 << 10), w.rand.Int64N(64 << 10), w.rand.Int64N(300 << 10)}[min(w.rand.IntN(5), 3)]
	body := jobBody(id, token, size)
	header := tokenHeader(token)
	header["X-Meta-Nonce"], header["X-Meta-Token"], header["X-Meta-Size"] = id, strconv.FormatInt(token, 10), strconv.FormatInt(size, 10)
	req := request{
		method: http.MethodPut, path: "/v1/" + w.objectOf(lease), header: header, timeout: time.Second + w.timeout(), size: size,
		body: func() io.Reader { return bytes.NewReader(body) },
		read: func(r reply, out *history.Reply) {
			w.learn(lease, r, class)
			out.Created = r.status == http.StatusCreated
		},
	}
	switch w.rand.IntN(4) {
	case 0:
		req.size = -1
	case 1:
		pause := time.Duration(w.rand.IntN(600)) * time.Millisecond
		req.body = func() io.Reader { return &slowBody{Reader: bytes.NewReader(body), pause: pause} }
	}
	w.do(id, history.Call{Kind: history.Put, Lease: leaseOf(lease), Resource: w.objectOf(lease), Token: token, Value: id, Class: class}, req)
}

// slowBody pauses before its last bytes, so that the write is admitted long after it was begun.
type slowBody struct {
	*bytes.Reader
	pause time.Duration
}

func (b *slowBody) Read(p []byte) (int, error) {
	if half := int(b.Size()) / 2; b.Len() <= half {
		time.Sleep(b.pause)
		b.pause = 0
	} else {
		p = p[:min(len(p), b.Len()-half)]
	}
	return b.Reader.Read(p)
}

func (w *faultsWorker) remove(call history.Call, token int64) {
	call.Kind, call.Token, call.Class = history.Delete, token, "own"
	path := "/v1/" + call.Resource
	w.do(w.newID(), call, request{method: http.MethodDelete, path: path, header: tokenHeader(token), timeout: w.timeout()})
}

func (w *faultsWorker) get(lease int, resource string, token int64) {
	req := request{method: http.MethodGet, path: "/v1/" + resource, timeout: 2 * time.Second, once: true, read: readRow}
	if resource != rowOf(lease) {
		req.read = readObject
	}
	if token != 0 {
		req.header = tokenHeader(token)
	}
	w.do(w.newID(), history.Call{Kind: history.Get, Lease: leaseOf(lease), Resource: resource, Token: token}, req)
}

func (w *faultsWorker) mark(lease int, resource string) {
	w.do(w.newID(), history.Call{Kind: history.Mark, Lease: leaseOf(lease), Resource: resource}, request{
		method: http.MethodGet, path: "/v1/marks/" + resource, timeout: 2 * time.Second, once: true,
	})
}

// learn remembers the newest grant's first token that a refusal tells: somebody else's.
func (w *faultsWorker) learn(lease int, r reply, class string) {
	if code := r.code(); class == "own" && (code == "stale-token" || code == "grant-ended") {
		w.late++
	}
	var p struct {
		First int64 `json:"first_token"`
	}
	if r.status >= 400 && json.Unmarshal(r.body, &p) == nil && p.First != 0 {
		w.foreign, w.foreignLease = p.First, lease
	}
}

func jobLeasePath(n int, more string) string {
	return "/v1/leases/" + url.PathEscape(leaseOf(n)) + more
}
