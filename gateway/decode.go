package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/fencegate/fencegate/fence"
)

// requireJSON refuses a body that does not say it is JSON: a form that a web page can send must never be a write.
func requireJSON(h http.Header) error {
	if lines := h["Content-Type"]; len(lines) == 1 && lines[0] == "application/json" && h["Content-Encoding"] == nil {
		return nil // as most say it
	}
	value, err := one(h, "Content-Type")
	if err != nil {
		return err
	}
	kind, params, err := mime.ParseMediaType(value)
	charset := params["charset"]
	if err != nil || kind != "application/json" || (charset != "" && !strings.EqualFold(charset, "utf-8")) {
		return fence.Errorf(fence.CodeUnsupportedMediaType,
			"the body must say Content-Type: application/json (with curl: --json instead of -d)").In("Content-Type")
	}
	if enc := h.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return fence.Errorf(fence.CodeUnsupportedMediaType, "a compressed JSON body is not accepted").In("Content-Encoding")
	}
	return nil
}

// readBody reads a JSON body of at most MaxBody bytes.
func (g *Gateway) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > g.cfg.MaxBody {
		return nil, g.tooLarge()
	}
	body, err := g.bodyOf(w, r)
	if err != nil {
		var over *http.MaxBytesError
		if errors.As(err, &over) {
			return nil, g.tooLarge()
		}
		return nil, fence.Wrap(fence.CodeInvalidRequest, err, "the body could not be read to its end")
	}
	exchangeOf(r.Context()).bodyRead = true
	// What follows may take longer than the body: an acquire waits.
	_ = setReadDeadline(w, time.Time{})
	return body, nil
}

func (g *Gateway) tooLarge() error {
	return fence.Errorf(fence.CodeTooLarge, "a JSON body has at most %d bytes", g.cfg.MaxBody)
}

// bodyOf reads a body to its end. One whose length is told is read at once, where it is there at once: room for one byte more lets the
// reader say in the same call that it is over.
func (g *Gateway) bodyOf(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength <= 0 || r.ContentLength > smallBody {
		return io.ReadAll(http.MaxBytesReader(w, r.Body, g.cfg.MaxBody))
	}
	body := make([]byte, 0, r.ContentLength+1)
	for {
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case err == io.EOF: // and nothing that wraps it: a body that was cut short is no body
			return body, nil
		case err != nil:
			return nil, err
		case len(body) == cap(body):
			// Whoever is in between changed the body and not its length.
			rest, err := io.ReadAll(http.MaxBytesReader(w, r.Body, max(0, g.cfg.MaxBody-int64(len(body)))))
			return append(body, rest...), err
		}
	}
}

// scanObject checks that body is one JSON object that means the same to every reader, and returns its names in
// order. No name is given twice in one object, nothing is escaped that PostgreSQL or UTF-8 cannot hold.
func scanObject(body []byte, maxDepth int) ([]string, error) {
	if names, ok := scanPlain(body, maxDepth); ok {
		return names, nil
	}
	return scanAny(body, maxDepth)
}

// scanAny is scanObject for every body.
func scanAny(body []byte, maxDepth int) ([]string, error) {
	if !utf8.Valid(body) {
		return nil, fence.Errorf(fence.CodeInvalidRequest, "the body is not UTF-8")
	}
	var raw json.RawMessage
	if err := json.Unmarshal(body, &raw); err != nil {
		return nil, fence.Errorf(fence.CodeInvalidRequest, "the body is not one JSON object: %v", err)
	}
	if !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) {
		return nil, fence.Errorf(fence.CodeInvalidRequest, "the body must be a JSON object")
	}
	if err := checkEscapes(body); err != nil {
		return nil, err
	}
	return scanNames(body, maxDepth)
}

// smallBody is the longest body whose memory is taken before any of it has come, in bytes.
const smallBody = 16 << 10

// scope is one open object or array. names is nil for an array.
type scope struct {
	names map[string]bool
	inKey bool
}

// scanNames walks through valid JSON. The Decoder never converts a number: every digit counts.
func scanNames(body []byte, maxDepth int) ([]string, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var top []string
	var open []scope
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return top, nil
		}
		if err != nil {
			return nil, fence.Wrap(fence.CodeInvalidRequest, err, "the body is not JSON")
		}
		if len(open) > 0 && open[len(open)-1].inKey {
			if name, isName := tok.(string); isName {
				in := &open[len(open)-1]
				if in.names[name] {
					return nil, fence.Errorf(fence.CodeInvalidRequest, "the name %q is given twice", name).In(name)
				}
				in.names[name], in.inKey = true, false
				if len(open) == 1 {
					top = append(top, name)
				}
				continue
			}
		}
		switch tok {
		case json.Delim('{'), json.Delim('['):
			if len(open) == maxDepth {
				return nil, fence.Errorf(fence.CodeInvalidRequest, "the body nests deeper than %d", maxDepth)
			}
			if tok == json.Delim('{') {
				open = append(open, scope{names: map[string]bool{}, inKey: true})
			} else {
				open = append(open, scope{})
			}
			continue
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		}
		if n := len(open); n > 0 {
			open[n-1].inKey = open[n-1].names != nil
		}
	}
}

// checkEscapes refuses \u0000, which PostgreSQL's text cannot hold, and halves of surrogate pairs, which readers
// replace by different characters. Backslashes stand in strings only: the body is valid JSON.
func checkEscapes(body []byte) error {
	for {
		i := bytes.IndexByte(body, '\\')
		if i < 0 {
			return nil
		}
		body = body[i:]
		size := len(`\n`)
		if r, ok := unicodeEscape(body); ok {
			size = escapeSize
			if r == 0 {
				return fence.Errorf(fence.CodeInvalidRequest, `the body has a NUL character (\u0000)`)
			}
			if utf16.IsSurrogate(r) {
				low, _ := unicodeEscape(body[escapeSize:])
				if utf16.DecodeRune(r, low) == utf8.RuneError {
					return fence.Errorf(fence.CodeInvalidRequest, "the body has half a surrogate pair (%s)", body[:escapeSize])
				}
				size = 2 * escapeSize
			}
		}
		body = body[size:]
	}
}

const escapeSize = len(`\u0000`)

func unicodeEscape(b []byte) (rune, bool) {
	if len(b) < escapeSize || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:escapeSize]), 16, 16)
	return rune(n), err == nil
}
