package pgstore

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of fence.row_name and fence.lease_name.
const (
	maxResource = 2600 // bytes
	maxLease    = 1024 // bytes
)

// rowName is fence.row_name for keys whose parts are spelled as the ledger spells them, which is how most are: they need no
// conversion, and no question. It is false for all others, whose names only PostgreSQL knows, and for names that need more than to
// be put together.
func rowName(t *table, key []string) (resource, lease string, ok bool) {
	if len(key) != len(t.key) || t.template == "" {
		return "", "", false
	}
	var b strings.Builder
	b.Grow(len("rows/") + len(t.name) + 24)
	b.WriteString("rows/")
	b.WriteString(t.name)
	for i, part := range key {
		if !isCanonical(t.keyTypes[i], part) {
			return "", "", false
		}
		b.WriteByte("/,"[min(i, 1)])
		escapePart(&b, part)
	}
	lease, ok = leaseName(t, key)
	return b.String(), lease, ok && b.Len() <= maxResource
}

// isCanonical reports whether a key part is known to be the text of fence.canonical for itself.
func isCanonical(typ, text string) bool {
	switch typ {
	case "smallint":
		return isCanonicalInt(text, 16)
	case "integer":
		return isCanonicalInt(text, 32)
	case "bigint":
		return isCanonicalInt(text, 64)
	case "text", "character varying":
		return text != "" && utf8.ValidString(text) && strings.IndexByte(text, 0) < 0
	case "uuid":
		return isCanonicalUUID(text)
	}
	return false
}

func isCanonicalInt(text string, bits int) bool {
	n, err := strconv.ParseInt(text, 10, bits)
	return err == nil && (text[0] != '+' && text[0] != '0' && (text[0] != '-' || text[1] != '0') || text == "0") && (n != 0 || text == "0")
}

func isCanonicalUUID(text string) bool {
	if len(text) != 36 {
		return false
	}
	for i := range len(text) {
		switch c := text[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case c < '0' || c > 'f' || c > '9' && c < 'a':
			return false
		}
	}
	return true
}

// escapePart is fence.escape: RFC 3986's unreserved characters stay.
func escapePart(b *strings.Builder, part string) {
	const hexDigits = "0123456789ABCDEF"
	for i := range len(part) {
		switch c := part[i]; {
		case '0' <= c && c <= '9', 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', c == '-', c == '.', c == '_', c == '~':
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
}

// leaseName is fence.lease_name for a row whose name needs neither to be cut nor cleaned.
func leaseName(t *table, key []string) (string, bool) {
	var b strings.Builder
	for rest := t.template; rest != ""; {
		text, tail, placeholder := strings.Cut(rest, "{")
		b.WriteString(text)
		if !placeholder {
			break
		}
		name, tail, closed := strings.Cut(tail, "}")
		i := slices.Index(t.key, name)
		if !closed || i < 0 {
			return "", false
		}
		b.WriteString(key[i])
		rest = tail
	}
	name := b.String()
	return name, name != "" && len(name) <= maxLease && !strings.ContainsFunc(name, unicode.IsControl)
}
