package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway/openapi"
)

// call is what is told of one method of one path, beside what the routes say.
type call struct {
	id, summary, text string
	// parameters are names of shared ones.
	parameters []string
	body       *openapi.RequestBody
	answers    []told
	// refusals are those beside the ones that every path can give.
	refusals []fence.Code
}

// told is one answer that is no refusal. headers are names of shared ones.
type told struct {
	status  int
	text    string
	headers []string
	content openapi.Ordered[*openapi.Content]
}

// documentBuilder puts a document together.
type documentBuilder struct {
	g     *Gateway
	doc   *openapi.Document
	calls map[string]call
	// parameters, headers and refusals are the shared ones; used are those that the document refers to.
	parameters openapi.Ordered[*openapi.Parameter]
	headers    openapi.Ordered[*openapi.Header]
	used       map[string]bool
	statuses   map[int]bool
	// told are the calls that were found among the routes.
	told map[string]bool
	// built are the operations of rows, for those of each table.
	built map[string]*openapi.PathItem
}

func (g *Gateway) newDocument(more int) (*documentBuilder, error) {
	schemas, err := sharedSchemas()
	if err != nil {
		return nil, err
	}
	b := &documentBuilder{
		g: g, calls: calls(), parameters: sharedParameters(), headers: sharedHeaders(),
		used: map[string]bool{}, statuses: map[int]bool{}, told: map[string]bool{}, built: map[string]*openapi.PathItem{},
		doc: &openapi.Document{
			OpenAPI: openapi.Version,
			Info:    openapi.Info{Title: "fencegate", Version: "v1", Description: documentText(g.cfg.Catalogue != nil, more)},
			Servers: []openapi.Server{{URL: "/"}}, Tags: documentTags(),
			Components: openapi.Components{Schemas: schemas},
		},
	}
	if g.authenticates {
		b.doc.Security = []openapi.Requirement{{"bearerAuth": {}}, {"mutualTLS": {}}}
		b.doc.Components.SecuritySchemes = map[string]*openapi.AuthScheme{
			"bearerAuth": {Type: "http", Scheme: "bearer", Description: "A principal's secret, or a JWT of an issuer that the gateway trusts."},
			"mutualTLS":  {Type: "mutualTLS", Description: "A client certificate that names a principal, where the gateway asks for one."},
		}
	}
	return b, nil
}

// path describes what is served below a family's prefix by the paths of one template. What this gateway does not serve is left out.
func (b *documentBuilder) path(f family, template string) error {
	path := f.prefix + template
	e, err := f.resolve(sample(template))
	if fence.CodeOf(err) == fence.CodeNotFound {
		for key := range b.calls {
			if _, of, _ := strings.Cut(key, " "); of == path {
				b.told[key] = true
			}
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("the sample of %s: %w", path, err)
	}
	item := &openapi.PathItem{Parameters: b.pathParameters(path)}
	for _, m := range e.methods {
		if m.refuses {
			continue
		}
		key := m.name + " " + path
		c, ok := b.calls[key]
		if !ok {
			return fmt.Errorf("%s is served and not described", key)
		}
		b.told[key] = true
		b.operation(item, f, m.name, c, swaps{})
	}
	b.doc.Paths.Add(path, item)
	return nil
}

// swaps say what stands in a table's own operations in place of what is told of all tables: schemas by the name of the shared
// one, parameters likewise.
type swaps struct {
	suffix, of string
	schemas    map[string]*openapi.Schema
	parameters map[string][]*openapi.Parameter
	// silent leaves out the answers that show a row.
	silent bool
}

func (s swaps) schema(of *openapi.Schema) *openapi.Schema {
	if of == nil {
		return nil
	}
	if own, ok := s.schemas[strings.TrimPrefix(of.Ref, "#/components/schemas/")]; ok {
		return own
	}
	return of
}

func (s swaps) content(of openapi.Ordered[*openapi.Content]) (swapped openapi.Ordered[*openapi.Content]) {
	for _, m := range of {
		swapped = append(swapped, openapi.Member[*openapi.Content]{Name: m.Name, Value: &openapi.Content{Schema: s.schema(m.Value.Schema)}})
	}
	return swapped
}

// operation adds one method to a path, and with GET also HEAD.
func (b *documentBuilder) operation(item *openapi.PathItem, f family, method string, c call, s swaps) {
	op := &openapi.Operation{
		Tags: []string{tagOf(f)}, OperationID: c.id + s.suffix, Summary: c.summary + s.of, Description: c.text,
	}
	if f.public {
		op.Security = []openapi.Requirement{}
	}
	for _, name := range c.parameters {
		if own, ok := s.parameters[name]; ok {
			op.Parameters = append(op.Parameters, own...)
		} else {
			op.Parameters = append(op.Parameters, b.parameter(name))
		}
	}
	if c.body != nil {
		op.RequestBody = &openapi.RequestBody{Description: c.body.Description, Required: c.body.Required, Content: s.content(c.body.Content)}
	}
	for _, a := range c.answers {
		if s.silent && a.content != nil {
			continue
		}
		op.Responses.Add(strconv.Itoa(a.status), &openapi.Response{Description: a.text, Headers: b.headersOf(a.headers), Content: s.content(a.content)})
	}
	for _, status := range b.refusalsOf(f, c) {
		op.Responses.Add(strconv.Itoa(status), b.refusal(status))
	}
	*item.Operation(method) = op
	if method == http.MethodGet {
		item.Head = headOf(op)
	}
}

// headOf is the operation without the bodies of its answers.
func headOf(get *openapi.Operation) *openapi.Operation {
	head := *get
	head.OperationID, head.Summary, head.Description = get.OperationID+".head", get.Summary+", without the body", ""
	head.Responses = nil
	for _, m := range get.Responses {
		answer := *m.Value
		answer.Content = nil
		head.Responses.Add(m.Name, &answer)
	}
	return &head
}

// refusalsOf are the statuses of the refusals that a call can give, in their order.
func (b *documentBuilder) refusalsOf(f family, c call) []int {
	codes := slices.Concat(c.refusals, everywhere())
	if f.public {
		codes = []fence.Code{fence.CodeInternal}
		if b.g.cfg.LoopbackOnly {
			codes = append(codes, fence.CodeForbidden)
		}
	} else if b.g.authenticates {
		codes = append(codes, fence.CodeUnauthenticated)
	}
	var statuses []int
	for _, code := range codes {
		if status := outcomeOf(code).status; !slices.Contains(statuses, status) {
			statuses = append(statuses, status)
		}
	}
	slices.Sort(statuses)
	return statuses
}

func (b *documentBuilder) refusal(status int) *openapi.Response {
	b.statuses[status] = true
	return &openapi.Response{Ref: "#/components/responses/" + refusalName(status)}
}

func (b *documentBuilder) parameter(name string) *openapi.Parameter {
	b.used["parameter "+name] = true
	return &openapi.Parameter{Ref: "#/components/parameters/" + name}
}

func (b *documentBuilder) headersOf(names []string) (headers openapi.Ordered[*openapi.Header]) {
	for _, name := range append([]string{headerTraceID}, names...) {
		b.used["header "+name] = true
		headers.Add(name, &openapi.Header{Ref: "#/components/headers/" + name})
	}
	return headers
}

// pathParameters are those that a path's template names.
func (b *documentBuilder) pathParameters(path string) (found []*openapi.Parameter) {
	for _, part := range strings.Split(path, "{")[1:] {
		name, _, _ := strings.Cut(part, "}")
		if name == "key" && strings.Contains(path, "/objects/") {
			name = "objectKey"
		}
		found = append(found, b.parameter(name))
	}
	return found
}

// done adds what the paths refer to, and fails where that is not there, or a call is described that is not served.
func (b *documentBuilder) done() (*openapi.Document, error) {
	for key := range b.calls {
		if !b.told[key] {
			return nil, fmt.Errorf("%s is described and not served", key)
		}
	}
	c := &b.doc.Components
	var statuses []int
	for status := range b.statuses {
		statuses = append(statuses, status)
	}
	slices.Sort(statuses)
	for _, status := range statuses {
		c.Responses.Add(refusalName(status), b.sharedRefusal(status))
	}
	for _, m := range b.parameters {
		if b.used["parameter "+m.Name] {
			c.Parameters.Add(m.Name, m.Value)
			delete(b.used, "parameter "+m.Name)
		}
	}
	for _, m := range b.headers {
		if b.used["header "+m.Name] {
			c.Headers.Add(m.Name, m.Value)
			delete(b.used, "header "+m.Name)
		}
	}
	for what := range b.used {
		return nil, fmt.Errorf("there is no %s to refer to", what)
	}
	return b.doc, nil
}
