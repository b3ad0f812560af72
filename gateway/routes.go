package gateway

import (
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/fencegate/fencegate/fence"
)

// handler serves one method of one path. What it returns is answered by fail.
type handler func(w http.ResponseWriter, r *http.Request) error

// endpoint is what one path answers to: about names what the path names, methods stand in the order that Allow shows.
type endpoint struct {
	about Action
	// target is what the methods are called with: the name that the path has, in a type that they expect.
	target any
	// piecewise says that the path names nothing: the handler shows of many things those that the caller may read.
	piecewise bool
	methods   []method
}

// method is one of them. op is its name in metrics.
type method struct {
	name, op string
	verb     Verb
	// query says that the handler reads the query.
	query bool
	// refuses says that the handler only tells why there is no such method: Allow does not name it.
	refuses bool
	serve   func(w http.ResponseWriter, r *http.Request, target any) error
}

// on makes a method of a handler of what the path names.
func on[T any](name, op string, verb Verb, h func(http.ResponseWriter, *http.Request, T) error) method {
	return method{name: name, op: op, verb: verb, serve: func(w http.ResponseWriter, r *http.Request, target any) error {
		return h(w, r, target.(T))
	}}
}

// untargeted serves paths that name nothing.
func untargeted(h handler) func(http.ResponseWriter, *http.Request, any) error {
	return func(w http.ResponseWriter, r *http.Request, _ any) error { return h(w, r) }
}

// allow is the value of the Allow header.
func (e endpoint) allow() string {
	var names []string
	for _, m := range e.methods {
		if m.refuses {
			continue
		}
		names = append(names, m.name)
		if m.name == http.MethodGet {
			names = append(names, http.MethodHead)
		}
	}
	return strings.Join(names, ", ")
}

// family is the paths below one prefix. Names contain anything, so chi is shown the prefix only and resolve reads
// the rest, still escaped.
type family struct {
	// api is the family's name in metrics.
	api     string
	prefix  string
	resolve func(rest string) (endpoint, error)
	// paths are templates of what may stand behind the prefix, one for each kind of endpoint, as /openapi.json writes them.
	paths []string
	// public families are served without authentication.
	public bool
}

func (f family) has(path string) bool {
	if strings.HasSuffix(f.prefix, "/") {
		return strings.HasPrefix(path, f.prefix)
	}
	return path == f.prefix
}

func (g *Gateway) families() []family {
	return []family{
		{prefix: "/livez", resolve: fixed(g.live), paths: []string{""}, public: true},
		{prefix: "/readyz", resolve: fixed(g.ready), paths: []string{""}, public: true},
		{api: "openapi", prefix: "/openapi.json", resolve: g.openAPIEndpoint, paths: []string{""}},
		{api: "leases", prefix: "/v1/leases", resolve: g.leasesEndpoint, paths: []string{""}},
		{api: "leases", prefix: "/v1/leases/", resolve: g.leaseEndpoint, paths: []string{"{name}", "{name}/tokens", "{name}/verify", "{name}/break"}},
		{api: "events", prefix: "/v1/events", resolve: g.eventsEndpoint, paths: []string{""}},
		{api: "rows", prefix: "/v1/rows/", resolve: g.rowEndpoint, paths: []string{"{table}", "{table}/{key}"}},
		{api: "objects", prefix: "/v1/objects/", resolve: g.objectEndpoint, paths: []string{"{bucket}", "{bucket}/{key}"}},
		{api: "objects", prefix: "/v1/versions/", resolve: g.versionsEndpoint, paths: []string{"{bucket}/{key}"}},
		{api: "uploads", prefix: "/v1/uploads/", resolve: g.uploadEndpoint, paths: []string{"{bucket}"}},
		{api: "commit", prefix: "/v1/commit", resolve: g.commitEndpoint, paths: []string{""}},
		{api: "marks", prefix: "/v1/marks/rows/", resolve: g.rowMarkEndpoint, paths: []string{"{table}", "{table}/{key}"}},
		{api: "marks", prefix: "/v1/marks/objects/", resolve: g.objectMarkEndpoint, paths: []string{"{bucket}/{key}"}},
	}
}

func fixed(get handler) func(string) (endpoint, error) {
	e := endpoint{methods: []method{{name: http.MethodGet, serve: untargeted(get)}}}
	return func(string) (endpoint, error) { return e, nil }
}

func (g *Gateway) routes() http.Handler {
	families := g.families()
	mux := chi.NewRouter()
	mux.Use(g.recovered, g.bounded, g.shortPath)
	if g.cfg.LoopbackOnly {
		mux.Use(g.loopback)
	}
	mux.NotFound(g.handle(noPath))
	// chi refuses a method it does not know before it looks at the path.
	mux.MethodNotAllowed(g.handle(func(w http.ResponseWriter, r *http.Request) error {
		for _, f := range families {
			if !f.has(wirePath(r.URL)) {
				continue
			}
			if f.public {
				return g.serve(f)(w, r)
			}
			g.observed(f.api, g.authenticated(g.handle(g.serve(f)))).ServeHTTP(w, r)
			return nil
		}
		return noPath(w, r)
	}))
	for _, f := range families {
		if f.public {
			mux.Handle(f.prefix, g.handle(g.serve(f)))
		} else {
			observed := func(next http.Handler) http.Handler { return g.observed(f.api, next) }
			mux.With(observed, g.authenticated).Handle(f.prefix, g.handle(g.serve(f)))
		}
	}
	return g.routed(mux, families)
}

func noPath(http.ResponseWriter, *http.Request) error {
	return fence.Errorf(fence.CodeNotFound, "there is nothing at this path")
}

// serve finds the handler below the family's prefix and calls it.
func (g *Gateway) serve(f family) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		e, err := f.resolve(strings.TrimPrefix(wirePath(r.URL), f.prefix))
		if err != nil {
			return err
		}
		for _, m := range e.methods {
			if m.name != r.Method && (m.name != http.MethodGet || r.Method != http.MethodHead) {
				continue
			}
			if f.public {
				return m.serve(w, r, e.target)
			}
			return g.call(w, r, e, m)
		}
		w.Header().Set("Allow", e.allow())
		return fence.Errorf(fence.CodeMethodNotAllowed, "this path answers to %s", e.allow())
	}
}

// call asks whether the caller may, now and so often, and calls the handler. A query is refused where none is read: to
// ignore one would turn a filter that the client believes in into a write without it.
func (g *Gateway) call(w http.ResponseWriter, r *http.Request, e endpoint, m method) error {
	x := exchangeOf(r.Context())
	x.noted.Op = m.op
	if !e.piecewise {
		if err := allowed(r, e.about.with(m.verb)); err != nil {
			return err
		}
	}
	if err := g.withinRate(r, m); err != nil {
		return about(e.about.Lease, err)
	}
	if r.URL.RawQuery != "" && !m.query {
		return fence.Errorf(fence.CodeInvalidRequest, "this path takes no query parameters")
	}
	if err := m.serve(w, r, e.target); err != nil {
		if m.verb == VerbWrite {
			g.refusals.note(principalOf(r.Context()), err)
		}
		return err
	}
	x.noteAnswer()
	return nil
}

func (g *Gateway) handle(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			g.fail(w, r, err)
		}
	}
}
