package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxPayloadNesting is far more than JWTs have.
const maxPayloadNesting = 32

// checkPayload refuses claims that the gateway and PostgreSQL could read differently, or that a policy could not read at all:
// the text goes to the database as it is. The issuer has signed it; this is against its accidents.
func checkPayload(text []byte) error {
	switch {
	case !utf8.Valid(text):
		return errors.New("the claims are not UTF-8")
	case loneSurrogate(text):
		return errors.New("the claims have half a character")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return errors.New("the claims are no JSON object")
	}
	if err := checkMembers(d, 1); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the claims")
	}
	return nil
}

// checkMembers reads the rest of an object.
func checkMembers(d *json.Decoder, depth int) error {
	seen := make(map[string]bool)
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		key := name.(string) // the decoder lets nothing else be a name
		if seen[key] {
			return errors.New("a claim is given twice")
		}
		seen[key] = true
		if err := checkScalar(name); err != nil {
			return err
		}
		if err := checkValue(d, depth); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

func checkValue(d *json.Decoder, depth int) error {
	value, err := d.Token()
	if err != nil {
		return err
	}
	delim, nested := value.(json.Delim)
	switch {
	case !nested:
		return checkScalar(value)
	case depth == maxPayloadNesting:
		return errors.New("the claims are nested too deep")
	case delim == '{':
		return checkMembers(d, depth+1)
	}
	for d.More() {
		if err := checkValue(d, depth+1); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

func checkScalar(value json.Token) error {
	switch value := value.(type) {
	case string:
		if strings.Contains(value, "\x00") {
			return errors.New("a claim has a zero byte, which PostgreSQL has no text for")
		}
	case json.Number:
		if _, err := strconv.ParseFloat(value.String(), 64); err != nil {
			return errors.New("a claim has a number that is too large")
		}
	}
	return nil
}

// loneSurrogate finds \ud800 to \udfff that are no pair: PostgreSQL refuses to read them.
func loneSurrogate(text []byte) bool {
	for i := 0; i+1 < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		unit, ok := escaped(text[i:])
		if !ok {
			i++ // past the character behind the backslash, which may be one too
			continue
		}
		i += 5
		if unit < 0xd800 || unit > 0xdfff {
			continue
		}
		low, ok := escaped(text[i+1:])
		if unit > 0xdbff || !ok || low < 0xdc00 || low > 0xdfff {
			return true
		}
		i += 6
	}
	return false
}

// escaped reads \uXXXX.
func escaped(text []byte) (unit uint64, ok bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return unit, err == nil
}
