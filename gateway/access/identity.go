package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// maxClaims bounds the claims of a principal of the file, in bytes as rendered: they are sent with every statement.
const maxClaims = 4096

// jsonNumber is a number as JSON has it, which YAML has in more forms.
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// checkIdentifier tells whether s may be a name in PostgreSQL's catalogue.
func checkIdentifier(s string) error {
	switch {
	case s == "":
		return errors.New("the name is empty")
	case len(s) > maxIdentifier:
		return fmt.Errorf("a name in PostgreSQL has at most %d bytes, this one has %d", maxIdentifier, len(s))
	case !utf8.ValidString(s):
		return errors.New("the name is not UTF-8")
	case strings.ContainsFunc(s, unicode.IsControl):
		return errors.New("the name has a control character")
	case len(s) > 1 && strings.HasPrefix(s, `"`) && strings.HasSuffix(s, `"`):
		return errors.New("the name stands as the catalogue has it, without the double quotes of SQL")
	}
	return nil
}

// role reads a database role. Those that PostgreSQL reserves are no roles of an application, and none is how SQL says that a
// role is given up.
func (f field) role(n ast.Node) (string, *FileError) {
	t, err := f.text(n)
	if err != nil {
		return "", err
	}
	switch bad := checkIdentifier(t.value); {
	case bad != nil:
		return "", errorAt(t.at, "%s: %s", f.key, bad)
	case t.value == "none", t.value == "public", strings.HasPrefix(t.value, "pg_"):
		return "", errorAt(t.at, "%s: PostgreSQL keeps none, public and names that begin with pg_ for itself", f.key)
	}
	return t.value, nil
}

// claims reads a mapping and renders it as JSON with sorted keys.
func (f field) claims() (string, *FileError) {
	mapping, ok := f.value.(*ast.MappingNode)
	if !ok || len(mapping.Values) == 0 {
		return "", errorAt(positionOf(f.value, f.at), "%s is a mapping of names to strings, numbers, true, false, or lists of those", f.key)
	}
	claims := make(map[string]json.RawMessage, len(mapping.Values))
	for _, entry := range mapping.Values {
		at := positionOf(entry.Key, f.at)
		key, ok := entry.Key.(*ast.StringNode)
		switch {
		case !ok || key.Value == "":
			return "", errorAt(at, "%s: a claim's name is a string", f.key)
		case strings.Contains(key.Value, "\x00"):
			return "", errorAt(at, "%s: PostgreSQL has no text with a zero byte", f.key)
		case claims[key.Value] != nil:
			return "", errorAt(at, "%s: %s is given twice", f.key, shown(key.Value))
		}
		value, err := f.claim(entry.Value, at)
		if err != nil {
			return "", err
		}
		claims[key.Value] = value
	}
	rendered := compact(claims)
	if len(rendered) > maxClaims {
		return "", errorAt(f.at, "%s has at most %d bytes as JSON, this has %d", f.key, maxClaims, len(rendered))
	}
	return string(rendered), nil
}

func (f field) claim(n ast.Node, at *token.Position) (json.RawMessage, *FileError) {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		return f.scalar(n, at)
	}
	values := make([]json.RawMessage, 0, len(list.Values))
	for _, entry := range list.Values {
		value, err := f.scalar(entry, at)
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return compact(values), nil
}

// scalar renders one value. Numbers keep every digit; what YAML takes for a string though it looks like a number (an exponent,
// many digits) is the number it looks like, unless it stands in quotes.
func (f field) scalar(n ast.Node, at *token.Position) (json.RawMessage, *FileError) {
	at = positionOf(n, at)
	plain := ""
	switch n := n.(type) {
	case *ast.BoolNode:
		return strconv.AppendBool(nil, n.Value), nil
	case *ast.StringNode:
		if n.Token.Type != token.StringType || !jsonNumber.MatchString(n.Value) {
			if strings.Contains(n.Value, "\x00") {
				return nil, errorAt(at, "%s: PostgreSQL has no text with a zero byte", f.key)
			}
			return compact(n.Value), nil
		}
		plain = n.Value
	case *ast.IntegerNode:
		plain = n.Token.Value
	case *ast.FloatNode:
		plain = n.Token.Value
	default:
		return nil, errorAt(at, "%s: a claim is a string on one line, a number, true, false, or a list of those", f.key)
	}
	if _, err := strconv.ParseFloat(plain, 64); err != nil || !jsonNumber.MatchString(plain) {
		return nil, errorAt(at, "%s: write a number as JSON has it, or put it in quotes", f.key)
	}
	return json.RawMessage(slices.Clone([]byte(plain))), nil
}

// compact renders what cannot fail to be rendered, and leaves < and > alone.
func compact(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
	return bytes.TrimSpace(b.Bytes())
}
