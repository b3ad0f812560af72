package pgstore

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode"

	"github.com/fencegate/fencegate/fence"
)

// columnValue refuses what PostgreSQL would take and mean something else: an offset that a timestamp or time without time zone drops, and
// text that bytea would store as it is. It returns the value that PostgreSQL is to read in place of raw, nil when that is raw
// itself: bytes may come as {"$base64":"…"}. Arrays, of any depth, are looked into.
func columnValue(c column, raw json.RawMessage) (json.RawMessage, error) {
	element, isArray := strings.CutSuffix(c.base, "[]")
	switch {
	case element != "timestamp without time zone" && element != "time without time zone" && element != "bytea":
		return nil, nil
	case isArray && strings.HasPrefix(string(raw), "["):
		return arrayValue(c, raw)
	case element == "bytea":
		return bytesValue(c, raw)
	}
	var s string
	if json.Unmarshal(raw, &s) == nil && hasOffset(s) {
		return nil, fence.Errorf(fence.CodeInvalidRequest, "the column %q has no time zone, and %q has an offset that would be dropped", c.name, clip(s)).In(c.name)
	}
	return nil, nil
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

// hasOffset also finds a zone's name behind the clock: letters that are neither of a clock of twelve hours nor of an era.
func hasOffset(s string) bool {
	_, clock, found := strings.Cut(strings.ToUpper(s), ":")
	for _, word := range []string{"AM", "PM", "BC", "AD"} {
		clock = strings.ReplaceAll(clock, word, "")
	}
	return found && strings.ContainsFunc(clock, func(r rune) bool { return r == '+' || r == '-' || unicode.IsLetter(r) })
}
