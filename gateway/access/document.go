package access

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	// maxFile is room for some five thousand principals.
	maxFile = 1 << 20
	// maxNesting is more than a file needs. It is checked before parsing: the parser calls itself once per level, and
	// a stack that grows too large ends the program.
	maxNesting = 8
	// maxKeys is more than any mapping of a file has. It too is checked before parsing, whose time grows with the
	// square of it.
	maxKeys = 16
)

// document reads the one document of a file, without what a list of principals has no use for: anchors, aliases, tags
// and directives, by which a small file becomes a large one or a value something else than it looks like.
func document(data []byte) (ast.Node, *FileError) {
	start := &token.Position{Line: 1, Column: 1}
	if len(data) > maxFile {
		return nil, errorAt(start, "the file has more than %d bytes", maxFile)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if bad := invalidUTF8(data); bad >= 0 {
		return nil, errorAt(&token.Position{Line: 1 + bytes.Count(data[:bad], []byte("\n")), Column: 1 + bad - (1 + bytes.LastIndexByte(data[:bad], '\n'))}, "the file is not UTF-8 here")
	}
	tokens := lexer.Tokenize(string(data))
	if err := plain(tokens); err != nil {
		return nil, err
	}
	// Keys given twice are found while reading, where the message names the key in a safe way.
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	var syntax *yaml.SyntaxError
	switch {
	case errors.As(err, &syntax) && syntax.Token != nil:
		return nil, errorAt(syntax.Token.Position, "this is not YAML: %s", syntax.Message)
	case err != nil:
		// The error's own text may quote the file.
		return nil, errorAt(start, "this is not YAML")
	case len(file.Docs) == 0 || file.Docs[0].Body == nil:
		return nil, errorAt(start, "the file is empty: it needs the key principals")
	case len(file.Docs) > 1:
		return nil, errorAt(positionOf(file.Docs[1], start), "the file has more than one document")
	}
	return file.Docs[0].Body, nil
}

func invalidUTF8(data []byte) int {
	for at := 0; at < len(data); {
		r, n := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && n == 1 {
			return at
		}
		at += n
	}
	return -1
}

// plain refuses tokens that ask for more than small nested lists, mappings and strings.
func plain(tokens token.Tokens) *FileError {
	flow, dashes, line := 0, 0, 0
	keys := make(keyCount)
	for i, t := range tokens {
		if t.Position.Line != line {
			line, dashes = t.Position.Line, 0
		}
		switch t.Type {
		case token.AliasType:
			return errorAt(t.Position, "aliases are not allowed; put a pattern that begins with * in quotes")
		case token.AnchorType, token.TagType, token.DirectiveType, token.MergeKeyType, token.MappingKeyType:
			return errorAt(t.Position, "anchors, tags, directives, merge keys and keys with ? are not allowed")
		case token.SequenceStartType, token.MappingStartType:
			flow++
			keys.open(inFlow(flow))
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType:
			dashes++
			keys.open(t.Position.Column + 1)
		case token.MappingValueType:
			place := inFlow(flow)
			if flow == 0 {
				place = tokens[max(i-1, 0)].Position.Column
			}
			if keys.add(place) > maxKeys {
				return errorAt(t.Position, "a mapping has more than %d keys", maxKeys)
			}
		}
		if flow+dashes > maxNesting || len(keys) > maxNesting {
			return errorAt(t.Position, "the file is nested deeper than %d levels", maxNesting)
		}
	}
	return nil
}

// keyCount counts the keys of the mappings that are open. A mapping stands at the column of its keys, or inside
// brackets behind every column, at their depth.
type keyCount map[int]int

func inFlow(depth int) int { return maxFile + depth }

// open begins anew at a place and behind it.
func (k keyCount) open(place int) {
	for p := range k {
		if p >= place {
			delete(k, p)
		}
	}
}

func (k keyCount) add(place int) int {
	k.open(place + 1)
	k[place]++
	return k[place]
}

func positionOf(n ast.Node, otherwise *token.Position) *token.Position {
	if doc, ok := n.(*ast.DocumentNode); ok {
		if doc.Start != nil {
			return doc.Start.Position
		}
		n = doc.Body
	}
	if n == nil {
		return otherwise
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position
	}
	return otherwise
}
