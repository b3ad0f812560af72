package openapi

import (
	"bytes"
	"encoding/json"
)

// Schema says which JSON is right (JSON Schema 2020-12). The zero Schema is satisfied by all.
type Schema struct {
	Ref         string           `json:"$ref,omitempty"`
	Description string           `json:"description,omitempty"`
	Type        Types            `json:"type,omitempty"`
	Format      string           `json:"format,omitempty"`
	Pattern     string           `json:"pattern,omitempty"`
	Enum        []any            `json:"enum,omitempty"`
	Default     any              `json:"default,omitempty"`
	Minimum     *int64           `json:"minimum,omitempty"`
	Maximum     *int64           `json:"maximum,omitempty"`
	MinLength   int              `json:"minLength,omitempty"`
	MaxLength   int              `json:"maxLength,omitempty"`
	Items       *Schema          `json:"items,omitempty"`
	PrefixItems []*Schema        `json:"prefixItems,omitempty"`
	MinItems    int              `json:"minItems,omitempty"`
	MaxItems    int              `json:"maxItems,omitempty"`
	Properties  Ordered[*Schema] `json:"properties,omitempty"`
	Required    []string         `json:"required,omitempty"`
	// MinProperties is how many members an object has at least.
	MinProperties int `json:"minProperties,omitempty"`
	// Additional is what members that are not named are like.
	Additional *Schema   `json:"additionalProperties,omitempty"`
	AnyOf      []*Schema `json:"anyOf,omitempty"`
	ReadOnly   bool      `json:"readOnly,omitempty"`
	Examples   []any     `json:"examples,omitempty"`
	Lease      string    `json:"x-fence-lease,omitempty"`
	// Never is the schema that nothing satisfies.
	Never bool `json:"-"`
}

// MarshalJSON writes Never as false.
func (s *Schema) MarshalJSON() ([]byte, error) {
	if s.Never {
		return []byte("false"), nil
	}
	type plain Schema
	return encode((*plain)(s))
}

// encode is json.Marshal that leaves the characters of HTML alone.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// Types are those that a value may have.
type Types []string

// MarshalJSON writes a single one by itself.
func (t Types) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]string(t))
}

// Closed is the schema of further members of an object that has none.
func Closed() *Schema { return &Schema{Never: true} }

// RefTo refers to a schema among the components.
func RefTo(name string) *Schema { return &Schema{Ref: "#/components/schemas/" + name} }

// Text is a string with a description.
func Text(description string) *Schema {
	return &Schema{Type: Types{"string"}, Description: description}
}

// Integer is an integer from least to most, with a description.
func Integer(least, most int64, description string) *Schema {
	return &Schema{Type: Types{"integer"}, Minimum: &least, Maximum: &most, Description: description}
}

// Object is an object of these members, in their order; required ones are named.
func Object(members Ordered[*Schema], required ...string) *Schema {
	return &Schema{Type: Types{"object"}, Properties: members, Required: required}
}
