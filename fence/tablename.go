package fence

import (
	"strings"
	"unicode/utf8"
)

// maxIdentifier is how long PostgreSQL keeps an identifier, in bytes: it cuts off the rest, and two names become one.
const maxIdentifier = 63

// TableName is a table as the catalogue has it: its parts without quotes.
type TableName struct{ Schema, Name string }

// ParseTableName reads a table's name as SQL writes it: parts in quotes stand as they are (a quote is doubled), others
// are folded to lower case; without a schema it is in public. What it accepts PostgreSQL reads the same way.
func ParseTableName(s string) (TableName, error) {
	if !utf8.ValidString(s) {
		return TableName{}, badTable(s)
	}
	first, rest, err := identifier(s, s)
	if err != nil {
		return TableName{}, err
	}
	if rest == "" {
		return TableName{"public", first}, nil
	}
	second, rest, err := identifier(s, strings.TrimPrefix(rest, "."))
	if err == nil && rest != "" {
		err = badTable(s)
	}
	if err != nil {
		return TableName{}, err
	}
	return TableName{first, second}, nil
}

// String is the name in SQL, with quotes where they are needed.
func (t TableName) String() string { return quoteIdentifier(t.Schema) + "." + quoteIdentifier(t.Name) }

// identifier cuts one identifier off s, which is a part of whole. What follows it is nothing or begins with a dot.
func identifier(whole, s string) (name, rest string, err error) {
	if strings.HasPrefix(s, `"`) {
		name, rest, err = quoted(whole, s[1:])
	} else {
		end := strings.IndexByte(s, '.')
		if end < 0 {
			end = len(s)
		}
		name, rest = fold(s[:end]), s[end:]
		if !plain(name) {
			err = badTable(whole)
		}
	}
	switch {
	case err != nil:
		return "", "", err
	case name == "" || strings.IndexByte(name, 0) >= 0 || rest != "" && (rest[0] != '.' || rest == "."):
		return "", "", badTable(whole)
	case len(name) > maxIdentifier:
		return "", "", Errorf(CodeInvalidRequest, "an identifier has at most %d bytes, one of the table's name has %d", maxIdentifier, len(name)).In("table")
	}
	return name, rest, nil
}

// quoted reads an identifier up to its closing quote.
func quoted(whole, s string) (name, rest string, err error) {
	var b strings.Builder
	for {
		end := strings.IndexByte(s, '"')
		if end < 0 {
			return "", "", badTable(whole)
		}
		b.WriteString(s[:end])
		s = s[end+1:]
		if !strings.HasPrefix(s, `"`) {
			return b.String(), s, nil
		}
		b.WriteByte('"')
		s = s[1:]
	}
}

// fold is PostgreSQL's: in UTF-8 it leaves all but ASCII alone.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + ('a' - 'A')
		}
		return r
	}, s)
}

// plain reports whether an identifier is read as it stands when it is not quoted.
func plain(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c == '_' || c >= 0x80
		if !letter && (i == 0 || c != '$' && (c < '0' || c > '9')) {
			return false
		}
	}
	return s != ""
}

func quoteIdentifier(s string) string {
	if plain(s) {
		return s
	}
	return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
}

func badTable(s string) error {
	const shown = 80
	if len(s) > shown {
		s = s[:shown] + "…"
	}
	return Errorf(CodeInvalidRequest, "not a table's name: %s; quote it as in SQL where it needs it: wallets, sales.orders, \"a.b\".\"Reply\"", s).In("table")
}
