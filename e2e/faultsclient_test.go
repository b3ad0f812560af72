package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fencegate/fencegate/e2e/history"
)

// faultsClientEnv is set for the copy of the test binary that is a client: its clientPlan, in JSON.
const faultsClientEnv = "FENCEGATE_E2E_FAULTS_CLIENT"

// clientPlan says what a client does. It speaks HTTP and knows nothing else of the gateways.
type clientPlan struct {
	Name      string // of this life of the client
	Principal string
	Secret    string // empty without authentication
	Admin     bool
	Gateways  []string
	Leases    int
	Bucket    string
	Seed      uint64
	Workers   int
	Work      map[string]int // weights
}

// faultsClient is a client process. It tells what it does on standard output, and ends when its standard input does.
type faultsClient struct {
	plan     clientPlan
	http     *http.Client
	ids      atomic.Int64
	stopping atomic.Bool

	mu    sync.Mutex
	holds []*hold // guarded by mu: the grants of the last while, of all leases
}

// hold is a grant that the client was told of.
type hold struct {
	lease int
	id    string
	first int64
	ttl   time.Duration

	mu   sync.Mutex
	free []history.Block // guarded by mu: the tokens that were not spent yet, of each block
}

// monotonic reads the clock that all processes of a machine share.
func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return t.Nano()
}

func faultsClientMain(plan string) int {
	c := &faultsClient{http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}}
	if err := json.Unmarshal([]byte(plan), &c.plan); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		c.stopping.Store(true)
	}()
	var workers sync.WaitGroup
	for i := range c.plan.Workers {
		w := &faultsWorker{faultsClient: c, rand: rand.New(rand.NewPCG(c.plan.Seed, uint64(i)))}
		workers.Go(w.run)
	}
	workers.Wait()
	return 0
}

// tell writes a line at once: what was called must be known however the process ends. A line is shorter than what a
// pipe takes as a whole.
func (c *faultsClient) tell(l history.Line) {
	content, err := json.Marshal(l)
	if err == nil {
		_, err = os.Stdout.Write(append(content, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// request is what is sent, the same in each attempt.
type request struct {
	method, path string
	header       map[string]string
	body         func() io.Reader // nil without one
	size         int64            // -1: unknown, sent in chunks
	timeout      time.Duration
	// once is for requests that are not repeated.
	once bool
	// read fills in what the answer to the attempt tells.
	read func(reply, *history.Reply)
}

// do makes an operation of a request and repeats it while its outcome is open, at whichever gateway.
func (w *faultsWorker) do(id string, call history.Call, req request) *history.Reply {
	return w.doAll([]pending{{id, call}}, req, func(r *history.Reply) []*history.Reply { return []*history.Reply{r} })
}

// attempt sends the request once.
func (w *faultsWorker) attempt(req request) *history.Reply {
	ctx, cancel := context.WithTimeout(context.Background(), req.timeout)
	defer cancel()
	out := &history.Reply{Mark: -1}
	lost := func(err error) *history.Reply {
		var op *net.OpError
		if errors.As(err, &op) && op.Op == "dial" {
			out.Code = "unreachable" // nothing was sent
			return out
		}
		out.Lost, out.Note = true, "no answer"
		if errors.Is(err, context.DeadlineExceeded) {
			out.Note = "no answer in time"
		}
		return out
	}
	var body io.Reader
	if req.body != nil {
		body = req.body()
	}
	r, err := http.NewRequestWithContext(ctx, req.method, w.plan.Gateways[w.rand.IntN(len(w.plan.Gateways))]+req.path, body)
	if err != nil {
		panic(err) // the test's own mistake
	}
	if req.body != nil {
		r.ContentLength = req.size
	}
	for name, value := range req.header {
		r.Header.Set(name, value)
	}
	if w.plan.Secret != "" {
		r.Header.Set("Authorization", "Bearer "+w.plan.Secret)
	}
	resp, err := w.http.Do(r)
	if err != nil {
		return lost(err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		return lost(err)
	}
	answer := reply{resp.StatusCode, resp.Header, content}
	out.Status, out.Mark, out.Code = answer.status, answer.mark(), answer.code()
	out.Replayed = answer.replayed()
	if req.read != nil {
		req.read(answer, out)
	}
	return out
}

// row is the body of a row as it is written and read.
type jobRow struct {
	Token int64  `json:"token"`
	Nonce string `json:"nonce"`
}

// jobBody is the content of an object that is written with a token: bytes that follow from the write, so that a reader
// can tell that they are whole and whose they are.
func jobBody(nonce string, token, size int64) []byte {
	var seed [32]byte
	copy(seed[:], nonce+" "+strconv.FormatInt(token, 10))
	random := rand.NewChaCha8(seed)
	body := make([]byte, size)
	_, _ = random.Read(body) // never fails
	return body
}

// readObject checks that the body is the whole body of the write that the metadata name.
func readObject(r reply, out *history.Reply) {
	if !r.ok() {
		return
	}
	out.Value = r.header.Get("X-Meta-Nonce")
	token, err := strconv.ParseInt(r.header.Get("X-Meta-Token"), 10, 64)
	size, sizeErr := strconv.ParseInt(r.header.Get("X-Meta-Size"), 10, 64)
	if errors.Join(err, sizeErr) != nil || token != out.Mark || !bytes.Equal(r.body, jobBody(out.Value, token, size)) {
		out.Torn = true
		out.Note = fmt.Sprintf("%d bytes under mark %d are not the %d bytes of %s with token %d", len(r.body), out.Mark, size, out.Value, token)
	}
}

func readRow(r reply, out *history.Reply) {
	var row jobRow
	if !r.ok() {
		return
	}
	if err := json.Unmarshal(r.body, &row); err != nil {
		out.Torn, out.Note = true, "the row is not JSON"
	}
	out.Value = row.Nonce
}
