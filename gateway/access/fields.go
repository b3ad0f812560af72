package access

import (
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// field is one key of a mapping with its value.
type field struct {
	key   string
	at    *token.Position // of the key
	value ast.Node
}

// text is a string of the file.
type text struct {
	value string
	at    *token.Position
}

// fieldsOf reads a mapping whose keys are among known, each at most once.
func fieldsOf(n ast.Node, what string, at *token.Position, known ...string) ([]field, *FileError) {
	mapping, ok := n.(*ast.MappingNode)
	if !ok {
		return nil, errorAt(positionOf(n, at), "%s is a mapping with the keys %s", what, strings.Join(known, ", "))
	}
	var fields []field
	for _, entry := range mapping.Values {
		keyAt := positionOf(entry.Key, at)
		key, ok := entry.Key.(*ast.StringNode)
		if !ok || !slices.Contains(known, key.Value) {
			return nil, errorAt(keyAt, "%s has no key %s; it has %s", what, keyShown(entry.Key), strings.Join(known, ", "))
		}
		if i := slices.IndexFunc(fields, func(f field) bool { return f.key == key.Value }); i >= 0 {
			return nil, errorAt(keyAt, "%s is given twice, first in line %d", key.Value, fields[i].at.Line)
		}
		fields = append(fields, field{key: key.Value, at: keyAt, value: entry.Value})
	}
	return fields, nil
}

func keyShown(n ast.Node) string {
	if key, ok := n.(*ast.StringNode); ok {
		return shown(key.Value)
	}
	return "of this kind"
}

// list returns the entries of a list; an absent or empty one is an error.
func (f field) list() ([]ast.Node, *FileError) {
	sequence, ok := f.value.(*ast.SequenceNode)
	switch {
	case !ok:
		return nil, errorAt(f.at, "%s must be a list", f.key)
	case len(sequence.Values) == 0:
		return nil, errorAt(f.at, "%s is an empty list", f.key)
	}
	return sequence.Values, nil
}

// text returns a string. A value that YAML takes for something else (a number, true, null) could be meant either way.
func (f field) text(n ast.Node) (text, *FileError) {
	s, ok := n.(*ast.StringNode)
	if !ok {
		return text{}, errorAt(positionOf(n, f.at), "%s must be a string on one line; put it in quotes", f.key)
	}
	return text{value: s.Value, at: positionOf(n, f.at)}, nil
}

func (f field) texts() ([]text, *FileError) {
	nodes, err := f.list()
	if err != nil {
		return nil, err
	}
	texts := make([]text, 0, len(nodes))
	for _, n := range nodes {
		t, err := f.text(n)
		if err != nil {
			return nil, err
		}
		texts = append(texts, t)
	}
	return texts, nil
}

func (f field) bool() (bool, *FileError) {
	b, ok := f.value.(*ast.BoolNode)
	if !ok {
		return false, errorAt(f.at, "%s must be true or false", f.key)
	}
	return b.Value, nil
}
