// Package openapi writes documents in OpenAPI 3.1 and describes the rows of tables in them. It knows no route: what is
// served is the gateway's to say.
package openapi

// Version is that of the specification.
const Version = "3.1.1"

// Document is the root.
type Document struct {
	OpenAPI    string             `json:"openapi"`
	Info       Info               `json:"info"`
	Servers    []Server           `json:"servers,omitempty"`
	Security   []Requirement      `json:"security,omitempty"`
	Tags       []Tag              `json:"tags,omitempty"`
	Paths      Ordered[*PathItem] `json:"paths"`
	Components Components         `json:"components"`
}

// Info is about the API as a whole.
type Info struct {
	Title       string `json:"title"`
	Version     string `json:"version"`
	Description string `json:"description,omitempty"`
}

// Server is where the API is; a relative URL is relative to the document's own.
type Server struct {
	URL string `json:"url"`
}

// Requirement names security schemes that are needed together. One of several requirements is enough.
type Requirement map[string][]string

// Tag groups operations.
type Tag struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// Components are what the rest refers to.
type Components struct {
	Schemas         Ordered[*Schema]       `json:"schemas,omitempty"`
	Responses       Ordered[*Response]     `json:"responses,omitempty"`
	Parameters      Ordered[*Parameter]    `json:"parameters,omitempty"`
	Headers         Ordered[*Header]       `json:"headers,omitempty"`
	SecuritySchemes map[string]*AuthScheme `json:"securitySchemes,omitempty"`
}

// AuthScheme is one way to authenticate.
type AuthScheme struct {
	Type        string `json:"type"`
	Scheme      string `json:"scheme,omitempty"`
	Description string `json:"description,omitempty"`
}

// PathItem is what one path answers to.
type PathItem struct {
	Description string       `json:"description,omitempty"`
	Lease       string       `json:"x-fence-lease,omitempty"`
	Parameters  []*Parameter `json:"parameters,omitempty"`
	Get         *Operation   `json:"get,omitempty"`
	Head        *Operation   `json:"head,omitempty"`
	Post        *Operation   `json:"post,omitempty"`
	Put         *Operation   `json:"put,omitempty"`
	Patch       *Operation   `json:"patch,omitempty"`
	Delete      *Operation   `json:"delete,omitempty"`
}

// Operation returns the place of a method's operation, nil for a method that no path has.
func (p *PathItem) Operation(method string) **Operation {
	switch method {
	case "GET":
		return &p.Get
	case "HEAD":
		return &p.Head
	case "POST":
		return &p.Post
	case "PUT":
		return &p.Put
	case "PATCH":
		return &p.Patch
	case "DELETE":
		return &p.Delete
	}
	return nil
}

// Operation is one method of one path.
type Operation struct {
	Tags        []string           `json:"tags,omitempty"`
	OperationID string             `json:"operationId"`
	Summary     string             `json:"summary"`
	Description string             `json:"description,omitempty"`
	Parameters  []*Parameter       `json:"parameters,omitempty"`
	RequestBody *RequestBody       `json:"requestBody,omitempty"`
	Responses   Ordered[*Response] `json:"responses"`
	// Security is that of the document when it is nil, and none when it is empty.
	Security []Requirement `json:"security,omitzero"`
}

// Parameter is one of a path, query or header, or refers to one.
type Parameter struct {
	Ref         string  `json:"$ref,omitempty"`
	Name        string  `json:"name,omitempty"`
	In          string  `json:"in,omitempty"`
	Description string  `json:"description,omitempty"`
	Required    bool    `json:"required,omitempty"`
	Style       string  `json:"style,omitempty"`
	Explode     *bool   `json:"explode,omitempty"`
	Schema      *Schema `json:"schema,omitempty"`
}

// RequestBody is what a request carries.
type RequestBody struct {
	Description string            `json:"description,omitempty"`
	Required    bool              `json:"required,omitempty"`
	Content     Ordered[*Content] `json:"content"`
}

// Content is a body of one media type.
type Content struct {
	Schema *Schema `json:"schema,omitempty"`
}

// Response is one answer, or refers to one.
type Response struct {
	Ref         string            `json:"$ref,omitempty"`
	Description string            `json:"description,omitempty"`
	Headers     Ordered[*Header]  `json:"headers,omitempty"`
	Content     Ordered[*Content] `json:"content,omitempty"`
}

// Header is one of an answer, or refers to one.
type Header struct {
	Ref         string  `json:"$ref,omitempty"`
	Description string  `json:"description,omitempty"`
	Required    bool    `json:"required,omitempty"`
	Schema      *Schema `json:"schema,omitempty"`
}

// Ordered is a JSON object whose members keep their order: paths and columns are read in it.
type Ordered[T any] []Member[T]

// Member is one of them.
type Member[T any] struct {
	Name  string
	Value T
}

// Add adds a member. A name that is there already keeps its first value.
func (o *Ordered[T]) Add(name string, value T) {
	if _, known := o.Get(name); !known {
		*o = append(*o, Member[T]{name, value})
	}
}

// Get returns the value of a member, and whether there is one of that name.
func (o Ordered[T]) Get(name string) (value T, ok bool) {
	for _, m := range o {
		if m.Name == name {
			return m.Value, true
		}
	}
	return value, false
}

// MarshalJSON writes the members in their order.
func (o Ordered[T]) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		name, err := encode(m.Name)
		if err != nil {
			return nil, err
		}
		value, err := encode(m.Value)
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, name...), ':'), value...)
	}
	return append(b, '}'), nil
}
