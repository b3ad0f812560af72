package gateway

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fence"
)

const (
	headerLastEvent = "Last-Event-ID"
	// maxPosition is longer than any position of a ledger, in bytes.
	maxPosition = 4096
)

// kindGap is told in place of events that are kept no more.
const kindGap fence.EventKind = "gap"

func eventKinds() []fence.EventKind {
	return []fence.EventKind{
		fence.EventGranted, fence.EventReleased, fence.EventBroken, fence.EventAbandoned, fence.EventExpired, fence.EventRefused,
	}
}

func (g *Gateway) eventsEndpoint(string) (endpoint, error) {
	if g.cfg.Events == nil {
		return endpoint{}, noPath(nil, nil)
	}
	return endpoint{piecewise: true, methods: []method{
		{name: http.MethodGet, op: "stream", verb: VerbRead, query: true, serve: untargeted(g.streamEvents)},
	}}, nil
}

// eventQuery is which events a stream is about, and where it begins.
type eventQuery struct {
	prefix string
	kinds  []fence.EventKind // empty for all
	// after is the position behind which it begins, and header says that a header named it. Without one it begins now, or with
	// the oldest that there is.
	after          string
	header, oldest bool
}

func readEventQuery(r *http.Request) (eventQuery, error) {
	none := eventQuery{}
	if r.ContentLength != 0 {
		return none, fence.Errorf(fence.CodeInvalidRequest, "this call takes no body")
	}
	q, err := readQuery(r.URL.RawQuery, "prefix", "kinds", "after", "from")
	if err != nil {
		return none, err
	}
	e := eventQuery{prefix: q["prefix"], after: q["after"]}
	if kinds, given := q["kinds"]; given {
		if e.kinds, err = readKinds(kinds); err != nil {
			return none, err
		}
	}
	switch from, given := q["from"]; {
	case given && from != "oldest" && from != "now":
		return none, fence.Errorf(fence.CodeInvalidRequest, "from is oldest or now").In("from")
	case given && e.after != "":
		return none, fence.Errorf(fence.CodeInvalidRequest, "a stream begins either behind an event (after) or at a time (from)").In("from")
	default:
		e.oldest = from == "oldest"
	}
	// A browser that connects again sends what it was last told, and the query it was given first.
	if r.Header.Get(headerLastEvent) != "" {
		if e.after, err = one(r.Header, headerLastEvent); err != nil {
			return none, err
		}
		e.header, e.oldest = true, false
	}
	if len(e.after) > maxPosition {
		return none, fence.Errorf(fence.CodeInvalidRequest, "this is no id of an event").In(e.field())
	}
	return e, nil
}

// field names where after was given.
func (e eventQuery) field() string {
	if e.header {
		return headerLastEvent
	}
	return "after"
}

func readKinds(list string) ([]fence.EventKind, error) {
	var kinds []fence.EventKind
	for name := range strings.SplitSeq(list, ",") {
		kind := fence.EventKind(name)
		if !slices.Contains(eventKinds(), kind) {
			var known []string
			for _, k := range eventKinds() {
				known = append(known, string(k))
			}
			return nil, fence.Errorf(fence.CodeInvalidRequest, "there is no kind %q: kinds are some of %s, separated by commas",
				clip(name, maxField), strings.Join(known, ", ")).In("kinds")
		}
		kinds = append(kinds, kind)
	}
	return kinds, nil
}

func (e eventQuery) wants(event fence.Event) bool {
	return strings.HasPrefix(event.Lease, e.prefix) && (len(e.kinds) == 0 || slices.Contains(e.kinds, event.Kind))
}

// eventView is an event as a client sees it.
type eventView struct {
	ID        string          `json:"id,omitempty"`
	Kind      fence.EventKind `json:"kind"`
	At        *time.Time      `json:"at,omitempty"`
	Lease     string          `json:"lease,omitempty"`
	Principal string          `json:"principal,omitempty"`
	Holder    string          `json:"holder,omitempty"`
	First     fence.Token     `json:"first_token,omitempty"`
	Ended     string          `json:"ended,omitempty"`
	EndedBy   string          `json:"ended_by,omitempty"`
	Code      fence.Code      `json:"code,omitempty"`
	Token     fence.Token     `json:"token,omitempty"`
	Resource  string          `json:"resource,omitempty"`
}

// show is an event as the caller may see it; false when it may not.
func show(e fence.Event, caller Caller) (eventView, bool) {
	if !caller.May(Action{Verb: VerbRead, Lease: e.Lease}) {
		return eventView{}, false
	}
	at := e.At.UTC()
	v := eventView{
		ID: e.Position, Kind: e.Kind, At: &at, Lease: e.Lease, Principal: e.Principal, Holder: e.Holder, First: e.First,
		Ended: e.Why, EndedBy: e.By, Code: e.Code, Token: e.Token,
	}
	if about, ok := resourceAction(e.Resource); ok && caller.May(about) {
		v.Resource = e.Resource
	}
	return v, true
}

// resourceAction is what reading a resource of this name is.
func resourceAction(name string) (Action, bool) {
	if object, ok := strings.CutPrefix(name, "objects/"); ok {
		bucket, key, _ := strings.Cut(object, "/")
		return Action{Verb: VerbRead, Bucket: bucket, Key: key}, bucket != ""
	}
	row, ok := strings.CutPrefix(name, "rows/")
	if !ok {
		return Action{}, false
	}
	// Keys are percent-encoded, so the last slash sets them off: those before it may stand in a quoted name.
	end := strings.LastIndexByte(row, '/')
	if end < 0 {
		end = len(row)
	}
	t, err := fence.ParseTableName(row[:end])
	return Action{Verb: VerbRead, Schema: t.Schema, Table: t.Name}, err == nil
}

// places bounds how many streams there are at once.
type places struct {
	most, mostEach int

	mu   sync.Mutex // guards what follows
	all  int
	each map[string]int
}

// take takes a place for a principal until it is given back.
func (p *places) take(principal string) (giveBack func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.all >= p.most:
		return nil, fence.Errorf(fence.CodeRateLimited, "this gateway serves %d streams of events already", p.all)
	case p.each[principal] >= p.mostEach:
		return nil, fence.Errorf(fence.CodeRateLimited, "this principal has %d streams of events already", p.each[principal])
	}
	p.all++
	p.each[principal]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all--
		if p.each[principal]--; p.each[principal] == 0 {
			delete(p.each, principal)
		}
	}, nil
}

func (p *places) taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all
}
