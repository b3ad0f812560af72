package gateway

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/fencegate/fencegate/gateway/openapi"
)

// Undescribed returns a function that says that an answer has a status that the document does not give for its method and path; empty
// when it does, and for what the document is not about: paths and methods that there are not.
func (g *Gateway) Undescribed() func(method, path string, status int) string {
	type made struct {
		doc *openapi.Document
		err error
	}
	document := sync.OnceValue(func() made { doc, err := g.document(nil, 0); return made{doc, err} })
	return func(method, path string, status int) string {
		m := document()
		if m.err != nil {
			return m.err.Error()
		}
		path, _, _ = strings.Cut(path, "?")
		for _, f := range g.families() {
			template, ok := f.templateOf(path)
			if !ok {
				continue
			}
			item, ok := m.doc.Paths.Get(f.prefix + template)
			if !ok || item.Operation(method) == nil || *item.Operation(method) == nil {
				return ""
			}
			if _, ok := (*item.Operation(method)).Responses.Get(strconv.Itoa(status)); !ok {
				return fmt.Sprintf("%s %s%s is not described to answer %d", method, f.prefix, template, status)
			}
		}
		return ""
	}
}

// templateOf finds the template of a path; those with more text of their own go first.
func (f family) templateOf(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, f.prefix)
	if !ok {
		return "", false
	}
	templates := slices.SortedFunc(slices.Values(f.paths), func(a, b string) int { return len(b) - len(a) })
	for _, t := range templates {
		pattern := regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(t, "[^/]+")
		if strings.HasPrefix(t, "{bucket}/") {
			pattern = "[^/]+/.+"
		}
		if regexp.MustCompile("^" + pattern + "$").MatchString(rest) {
			return t, true
		}
	}
	return "", false
}

// ServedOps counts the methods, with their names in metrics, that the families' templates lead to.
func (g *Gateway) ServedOps() map[string]int {
	ops := map[string]int{}
	for _, f := range g.families() {
		for _, t := range f.paths {
			e, err := f.resolve(sample(t))
			if err != nil {
				continue
			}
			for _, m := range e.methods {
				if !m.refuses && m.op != "" {
					ops[m.name+" "+m.op]++
				}
			}
		}
	}
	return ops
}

// DocumentWith makes the document from other calls: change is given the keys of all, each with the key of the call that it stands for.
func (g *Gateway) DocumentWith(change func(calls map[string]string)) error {
	b, err := g.newDocument(0)
	if err != nil {
		return err
	}
	keys := map[string]string{}
	for k := range b.calls {
		keys[k] = k
	}
	change(keys)
	changed := map[string]call{}
	for k, from := range keys {
		changed[k] = b.calls[from]
	}
	b.calls = changed
	for _, f := range g.families() {
		for _, t := range f.paths {
			if err := b.path(f, t); err != nil {
				return err
			}
		}
	}
	_, err = b.done()
	return err
}
