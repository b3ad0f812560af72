package openapitest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pb33f/libopenapi/datamodel"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const address = "https://gateway.test/openapi.json"

// Document is a document that is valid in itself.
type Document struct {
	root     any
	compiler *jsonschema.Compiler
}

// Parse reads a document and checks it against the schema of OpenAPI 3.1, and all its schemas against JSON Schema.
func Parse(text string) (*Document, error) {
	root, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	meta, err := jsonschema.UnmarshalJSON(strings.NewReader(datamodel.OpenAPI31SchemaData))
	if err != nil {
		return nil, err
	}
	d := &Document{root: root, compiler: jsonschema.NewCompiler()}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	const specification = "https://spec.openapis.org/oas/3.1/schema"
	if err := d.compiler.AddResource(specification, meta); err != nil {
		return nil, err
	}
	whole, err := d.compiler.Compile(specification)
	if err != nil {
		return nil, err
	}
	if err := whole.Validate(root); err != nil {
		return nil, err
	}
	if err := d.compiler.AddResource(address, root); err != nil {
		return nil, err
	}
	return d, d.walk("", root)
}

// walk checks that references lead somewhere and that schemas are schemas.
func (d *Document) walk(pointer string, at any) error {
	switch at := at.(type) {
	case map[string]any:
		if ref, ok := at["$ref"].(string); ok && d.at(strings.TrimPrefix(ref, "#")) == nil {
			return fmt.Errorf("%s refers to %s, which is not there", pointer, ref)
		}
		for name, below := range at {
			next := pointer + "/" + escape(name)
			if name == "schema" || pointer == "/components/schemas" {
				if _, err := d.compiler.Compile(address + "#" + next); err != nil {
					return err
				}
			}
			if err := d.walk(next, below); err != nil {
				return err
			}
		}
	case []any:
		for i, below := range at {
			if err := d.walk(pointer+"/"+strconv.Itoa(i), below); err != nil {
				return err
			}
		}
	}
	return nil
}

func escape(name string) string {
	name = strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	return strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D", `"`, "%22", " ", "%20").Replace(name)
}

func unescape(name string) string {
	return strings.NewReplacer("~1", "/", "~0", "~", "%25", "%", "%7B", "{", "%7D", "}", "%22", `"`, "%20", " ").Replace(name)
}

// at returns what a JSON pointer leads to, nil if nothing.
func (d *Document) at(pointer string) any {
	found := d.root
	for _, part := range strings.Split(pointer, "/")[1:] {
		switch in := found.(type) {
		case map[string]any:
			found = in[unescape(part)]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(in) {
				return nil
			}
			found = in[i]
		default:
			return nil
		}
	}
	return found
}

// follow returns where the thing at a pointer is, behind its reference if it is one.
func (d *Document) follow(pointer string) (string, map[string]any) {
	object, _ := d.at(pointer).(map[string]any)
	if ref, ok := object["$ref"].(string); ok {
		return d.follow(strings.TrimPrefix(ref, "#"))
	}
	return pointer, object
}

// check validates a value with the schema at a pointer.
func (d *Document) check(pointer string, value any) error {
	schema, err := d.compiler.Compile(address + "#" + pointer)
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// operation returns the pointer of a request's operation. Paths without templates go before those with.
func (d *Document) operation(r *http.Request) (pointer string, err error) {
	paths, _ := d.at("/paths").(map[string]any)
	found, fewest := "", 100
	for template := range paths {
		if n := strings.Count(template, "{"); n < fewest && pattern(template).MatchString(r.URL.EscapedPath()) {
			found, fewest = template, n
		}
	}
	pointer = "/paths/" + escape(found) + "/" + strings.ToLower(r.Method)
	if d.at(pointer) == nil {
		return "", fmt.Errorf("%s %s is not described", r.Method, r.URL.EscapedPath())
	}
	return pointer, nil
}

func pattern(template string) *regexp.Regexp {
	return regexp.MustCompile("^" + regexp.MustCompile(`\\\{[^}]*\\\}`).ReplaceAllString(regexp.QuoteMeta(template), "[^/]+") + "$")
}

// CheckRequest tells whether a request is as it is described: with the headers and the query that it needs and may have, and a body.
func (d *Document) CheckRequest(r *http.Request) error {
	op, err := d.operation(r)
	if err != nil {
		return err
	}
	described := map[string]bool{}
	list, _ := d.at(op + "/parameters").([]any)
	for i := range list {
		at, p := d.follow(op + "/parameters/" + strconv.Itoa(i))
		name, _ := p["name"].(string)
		values := r.Header.Values(name)
		if p["in"] == "query" {
			values = r.URL.Query()[name]
			described[name] = true
		}
		if len(values) == 0 && p["required"] == true {
			return fmt.Errorf("%s is missing", name)
		}
		schema, _ := p["schema"].(map[string]any)
		for _, v := range values {
			var value any = v
			switch schema["type"] {
			case "integer":
				value = json.Number(v)
			case "array": // of which each line gives one element
				value = []any{v}
			}
			if err := d.check(at+"/schema", value); err != nil {
				return err
			}
		}
		if schema["type"] == "object" {
			for _, values := range filters(r) {
				if err := d.check("/components/schemas/Filter", values); err != nil {
					return err
				}
				described[values] = true
			}
		}
	}
	for name, values := range r.URL.Query() {
		if !described[name] && !described[values[0]] {
			return fmt.Errorf("the parameter %s is not described", name)
		}
	}
	if at := op + "/requestBody"; d.at(at) != nil {
		return d.checkBody(at, r.Header.Get("Content-Type"), r.Body)
	}
	return nil
}

// filters are the parameters of a list that are not its own.
func filters(r *http.Request) (values []string) {
	for name, given := range r.URL.Query() {
		if !slices.Contains([]string{"select", "order", "limit", "after"}, name) {
			values = append(values, given...)
		}
	}
	return values
}

// CheckResponse tells whether an answer is one of those that are described for its request.
func (d *Document) CheckResponse(r *http.Response) error {
	op, err := d.operation(r.Request)
	if err != nil {
		return err
	}
	at := op + "/responses/" + strconv.Itoa(r.StatusCode)
	if d.at(at) == nil {
		return fmt.Errorf("the status %d is not described", r.StatusCode)
	}
	at, response := d.follow(at)
	for _, name := range []string{"X-Fence-Token", "ETag", "X-Fence-Lease", "X-Fence-Replayed", "X-Lease-Id", "X-Trace-Id", "Location", "Preference-Applied", "Retry-After"} {
		if value := r.Header.Get(name); value != "" {
			header, _ := d.follow(at + "/headers/" + name)
			if d.at(header) == nil {
				return fmt.Errorf("the header %s is not described", name)
			}
			if err := d.check(header+"/schema", value); err != nil {
				return err
			}
		}
	}
	if response["content"] == nil {
		if body, _ := io.ReadAll(r.Body); len(body) > 0 {
			return fmt.Errorf("no body is described")
		}
		return nil
	}
	return d.checkBody(at, r.Header.Get("Content-Type"), r.Body)
}

// checkBody validates JSON; of other bodies it asks only that their type is described.
func (d *Document) checkBody(at, kind string, body io.Reader) error {
	kind, _, _ = strings.Cut(kind, ";")
	content, _ := d.at(at + "/content").(map[string]any)
	if content["*/*"] != nil {
		return nil
	}
	about, _ := d.at(at).(map[string]any)
	text, err := io.ReadAll(body)
	switch {
	case err != nil:
		return err
	case len(text) == 0 && about["required"] != true && kind == "":
		return nil
	case content[kind] == nil:
		return fmt.Errorf("a body of type %q is not described", kind)
	case !strings.HasSuffix(kind, "json"):
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		return err
	}
	return d.check(at+"/content/"+escape(kind)+"/schema", value)
}
