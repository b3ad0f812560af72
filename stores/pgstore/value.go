package pgstore

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode"

	"github.com/fencegate/fencegate/fence"
)

// columnValue refuses what PostgreSQL would take and mean something else: an offset that a date, timestamp or time without time zone
// drops, alone or as the end of a range, and text that bytea would store as it is. It returns the value that PostgreSQL is to read in
// place of raw, nil when that is raw itself: bytes may come as {"$base64":"…"}. Arrays, of any depth, are looked into.
func columnValue(c column, raw json.RawMessage) (json.RawMessage, error) {
	element, isArray := strings.CutSuffix(c.base, "[]")
	switch {
	case !isLooked(c.base):
		return nil, nil
	case isArray && strings.HasPrefix(string(raw), "["):
		return arrayValue(c, raw)
	case element == "bytea":
		return bytesValue(c, raw)
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return nil, nil
	}
	return nil, keepsOffset(c, element, s)
}

// isLooked reports whether columnValue has anything to say of a type.
func isLooked(base string) bool {
	element := strings.TrimSuffix(base, "[]")
	return element == "bytea" || zoneless(element)
}

// keepsOffset refuses a text whose offset a type drops: PostgreSQL reads dates, times and timestamps without a zone, and their ranges,
// as if there were none.
func keepsOffset(c column, typ, text string) error {
	if !zoneless(typ) {
		return nil
	}
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(`[](){},"`, r) }) {
		if hasOffset(part, typ == "time without time zone") {
			return fence.Errorf(fence.CodeInvalidRequest, "the column %q has no time zone, and %q has an offset that would be dropped", c.name, clip(text)).In(c.name)
		}
	}
	return nil
}

func zoneless(typ string) bool {
	switch typ {
	case "date", "timestamp without time zone", "time without time zone", "daterange", "datemultirange", "tsrange", "tsmultirange":
		return true
	}
	return false
}

func arrayValue(c column, raw json.RawMessage) (json.RawMessage, error) {
	var elements []json.RawMessage
	if err := json.Unmarshal(raw, &elements); err != nil {
		return nil, nil // PostgreSQL says what is wrong
	}
	rewritten := false
	for i, e := range elements {
		value, err := columnValue(c, e)
		if err != nil {
			return nil, err
		}
		if value != nil {
			elements[i], rewritten = value, true
		}
	}
	if !rewritten {
		return nil, nil
	}
	return json.Marshal(elements)
}

func bytesValue(c column, raw json.RawMessage) (json.RawMessage, error) {
	malformed := fence.Errorf(fence.CodeInvalidRequest, `the column %q takes bytes as "\\x" and hex digits, or as {"$base64":"…"}`, c.name).In(c.name)
	var s *string
	if json.Unmarshal(raw, &s) == nil {
		if s != nil && !strings.HasPrefix(*s, `\x`) {
			return nil, malformed
		}
		return nil, nil
	}
	var encoded map[string]string
	if json.Unmarshal(raw, &encoded) != nil || len(encoded) != 1 {
		return nil, malformed
	}
	text, ok := encoded["$base64"]
	plain, err := base64.StdEncoding.Strict().DecodeString(text)
	if !ok || err != nil {
		return nil, malformed
	}
	return json.Marshal(`\x` + hex.EncodeToString(plain))
}

// hasOffset also finds a zone's name: letters behind the clock that are neither of a clock of twelve hours nor of an era. A clock
// is what has a colon, or four or six digits that stand alone; in a time it may come first.
func hasOffset(s string, time bool) bool {
	s = strings.TrimSpace(strings.ToUpper(s))
	for _, word := range []string{"AM", "PM", "BC", "AD"} {
		s = strings.ReplaceAll(s, word, "")
	}
	isZone := func(r rune) bool { return r == '+' || r == '-' || unicode.IsLetter(r) }
	if _, clock, found := strings.Cut(s, ":"); found {
		return strings.ContainsFunc(clock, isZone)
	}
	const digits = "0123456789"
	for i := range s {
		if i == 0 && !time || i > 0 && s[i-1] != ' ' && s[i-1] != 'T' {
			continue
		}
		rest := strings.TrimLeft(s[i:], digits)
		if n := len(s) - i - len(rest); n != 4 && n != 6 {
			continue
		}
		rest = strings.TrimLeft(strings.TrimPrefix(rest, "."), digits)
		zone := strings.TrimLeft(rest, " ")
		// A year can stand where a clock would, with the month behind it.
		if zone != "" && isZone(rune(zone[0])) && strings.Count(zone, "-") < 2 {
			return true
		}
	}
	return false
}
