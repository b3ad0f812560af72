package access

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fencegate/fencegate/fence"
)

// maxPattern is longer than every name it can match: two quoted identifiers, a lease's name, a bucket and a key.
const maxPattern = 2100

// maxIdentifier is where PostgreSQL cuts an identifier off (NAMEDATALEN - 1), in bytes.
const maxIdentifier = 63

// defaultSchema is that of a table written without one, as everywhere in fencegate.
const defaultSchema = "public"

// tablePattern matches schema and table apart, so that a star in one does not reach into the other.
type tablePattern struct{ schema, table glob }

// bucketPattern matches a whole bucket, or the keys below it that match.
type bucketPattern struct {
	bucket, key glob
	whole       bool
}

func (p tablePattern) match(schema, table string) bool {
	return p.schema.match(schema) && p.table.match(table)
}

func (p bucketPattern) match(bucket, key string) bool {
	return p.bucket.match(bucket) && (p.whole || key != "" && p.key.match(key))
}

// below tells whether the pattern matches some key that begins with prefix.
func (p bucketPattern) below(bucket, prefix string) bool {
	return p.bucket.match(bucket) && (p.whole || p.key.below(prefix))
}

func checkPattern(s string) error {
	switch {
	case s == "":
		return errors.New("the pattern is empty")
	case len(s) > maxPattern:
		return fmt.Errorf("a pattern has at most %d bytes, this one has %d", maxPattern, len(s))
	case !utf8.ValidString(s):
		return errors.New("the pattern is not UTF-8")
	case strings.ContainsFunc(s, unicode.IsControl):
		return errors.New("the pattern has a control character")
	}
	return nil
}

func leasePattern(s string) (glob, error) {
	if literal(s) > fence.MaxLeaseName {
		return nil, fmt.Errorf("the pattern matches nothing: a lease name has at most %d bytes", fence.MaxLeaseName)
	}
	return newGlob(s), nil
}

// newTablePattern reads a pattern that is written as in SQL: parts without quotes are folded to lower case.
func newTablePattern(s string) (tablePattern, error) {
	if s == "*" {
		return tablePattern{schema: newGlob("*"), table: newGlob("*")}, nil
	}
	first, rest, err := identifier(s)
	if err != nil {
		return tablePattern{}, err
	}
	if rest == "" {
		return tablePattern{schema: newGlob(defaultSchema), table: newGlob(first)}, nil
	}
	if rest[0] != '.' {
		return tablePattern{}, errOddCharacter
	}
	second, rest, err := identifier(rest[1:])
	switch {
	case err != nil:
		return tablePattern{}, err
	case strings.HasPrefix(rest, "."):
		return tablePattern{}, errors.New("a table is schema.table, nothing more")
	case rest != "":
		return tablePattern{}, errOddCharacter
	}
	return tablePattern{schema: newGlob(first), table: newGlob(second)}, nil
}

var errOddCharacter = errors.New("put an identifier with other characters than letters, digits, _ and $ in double quotes, as in SQL")

// identifier cuts one identifier off s, without its quotes.
func identifier(s string) (name, rest string, err error) {
	if strings.HasPrefix(s, `"`) {
		name, rest, err = quoted(s[1:])
	} else {
		name, rest, err = unquoted(s)
	}
	switch {
	case err != nil:
		return "", "", err
	case name == "":
		return "", "", errors.New("a part of the table's name is empty")
	case literal(name) > maxIdentifier:
		return "", "", fmt.Errorf("the pattern matches nothing: PostgreSQL cuts identifiers at %d bytes", maxIdentifier)
	}
	return name, rest, nil
}

func quoted(s string) (name, rest string, err error) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, `"`)
		if !found {
			return "", "", errors.New("the closing double quote is missing")
		}
		b.WriteString(before)
		if !strings.HasPrefix(after, `"`) {
			return b.String(), after, nil
		}
		b.WriteByte('"')
		s = after[1:]
	}
}

// unquoted folds ASCII only: PostgreSQL leaves other letters of UTF-8 alone.
func unquoted(s string) (name, rest string, err error) {
	end := strings.IndexFunc(s, func(r rune) bool { return !identifierRune(r) })
	if end < 0 {
		end = len(s)
	}
	if end > 0 && (s[0] == '$' || s[0] >= '0' && s[0] <= '9') {
		return "", "", errors.New("put an identifier that begins with a digit or $ in double quotes, as in SQL")
	}
	if end == 0 && s != "" && s[0] != '.' {
		return "", "", errOddCharacter
	}
	return strings.Map(asciiLower, s[:end]), s[end:], nil
}

func identifierRune(r rune) bool {
	return r == '_' || r == '$' || r == '*' || r >= '0' && r <= '9' || asciiLower(r) >= 'a' && asciiLower(r) <= 'z' || r > unicode.MaxASCII
}

func asciiLower(r rune) rune {
	if r >= 'A' && r <= 'Z' {
		return r + ('a' - 'A')
	}
	return r
}

func newBucketPattern(s string) (bucketPattern, error) {
	bucket, key, below := strings.Cut(s, "/")
	switch {
	case bucket == "":
		return bucketPattern{}, errors.New("the bucket's name is empty")
	case below && key == "":
		return bucketPattern{}, errors.New("the pattern matches nothing: write bucket, or bucket/* for the keys below it")
	case literal(key) > fence.MaxObjectKey:
		return bucketPattern{}, fmt.Errorf("the pattern matches nothing: an object key has at most %d bytes", fence.MaxObjectKey)
	}
	return bucketPattern{bucket: newGlob(bucket), key: newGlob(key), whole: !below}, nil
}

// literal is the length of the shortest name that a pattern matches, in bytes.
func literal(pattern string) int { return len(pattern) - strings.Count(pattern, "*") }
