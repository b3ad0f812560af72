package openapi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Struct describes how a struct stands in JSON: its members with their descriptions, which all must have one, and as required
// those that are never left out. named are schemas of types that stand among the components.
func Struct(v any, named map[reflect.Type]string, about map[string]string) (*Schema, error) {
	s := &Schema{Type: Types{"object"}}
	used := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "-" || about[name] == "-" {
			used[name] = true
			continue
		}
		member, err := typeSchema(f.Type, named)
		switch {
		case err != nil:
			return nil, fmt.Errorf("the member %q of %T: %w", name, v, err)
		case about[name] == "":
			return nil, fmt.Errorf("the member %q of %T is not described", name, v)
		}
		used[name], member.Description = true, about[name]
		s.Properties.Add(name, member)
		if options != "omitempty" {
			s.Required = append(s.Required, name)
		}
	}
	for name := range about {
		if !used[name] {
			return nil, fmt.Errorf("%T has no member %q", v, name)
		}
	}
	slices.Sort(s.Required)
	return s, nil
}

func typeSchema(t reflect.Type, named map[reflect.Type]string) (*Schema, error) {
	if name, ok := named[t]; ok {
		return RefTo(name), nil
	}
	switch t {
	case reflect.TypeFor[time.Time]():
		return &Schema{Type: Types{"string"}, Format: "date-time"}, nil
	case reflect.TypeFor[json.RawMessage]():
		return &Schema{}, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeSchema(t.Elem(), named)
	case reflect.String:
		return &Schema{Type: Types{"string"}}, nil
	case reflect.Bool:
		return &Schema{Type: Types{"boolean"}}, nil
	case reflect.Int, reflect.Int64:
		return &Schema{Type: Types{"integer"}, Format: "int64"}, nil
	case reflect.Slice:
		items, err := typeSchema(t.Elem(), named)
		return &Schema{Type: Types{"array"}, Items: items}, err
	}
	return nil, fmt.Errorf("no schema of %s", t)
}
