package gateway

import (
	"slices"
	"unicode/utf8"
)

// What scanPlain leaves to the general scan, beside what is wrong.
const (
	plainDepth = 8  // of nesting
	plainNames = 24 // that are open at once, and are compared with each other
)

// scanPlain is scanObject for bodies that are right, without escapes in names and with few names: it passes over the body once, and takes no
// memory but for the names that it returns. It is false for all others, of which it says nothing.
func scanPlain(body []byte, maxDepth int) (names []string, ok bool) {
	if !utf8.Valid(body) {
		return nil, false
	}
	s := plainScan{body: body, maxDepth: min(maxDepth, plainDepth)}
	s.space()
	if !s.object() {
		return nil, false
	}
	s.space()
	return s.top, s.at == len(body)
}

type plainScan struct {
	body     []byte
	at       int
	depth    int
	maxDepth int
	// open holds the names of the objects that are open, outermost first.
	open  [plainNames][]byte
	named int
	// top are the names of the outermost object.
	top []string
}

func (s *plainScan) space() {
	for s.at < len(s.body) && (s.body[s.at] == ' ' || s.body[s.at] == '\n' || s.body[s.at] == '\t' || s.body[s.at] == '\r') {
		s.at++
	}
}

// next passes over a byte and the space before it, if that is what comes.
func (s *plainScan) next(c byte) bool {
	s.space()
	if s.at == len(s.body) || s.body[s.at] != c {
		return false
	}
	s.at++
	return true
}

func (s *plainScan) value() bool {
	s.space()
	if s.at == len(s.body) {
		return false
	}
	switch s.body[s.at] {
	case '{':
		return s.object()
	case '[':
		return s.array()
	case '"':
		_, ok := s.text()
		return ok
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	return s.number()
}

func (s *plainScan) object() bool {
	first := s.named
	if s.depth == s.maxDepth || !s.next('{') {
		return false
	}
	s.depth++
	for more := !s.next('}'); more; {
		if !s.member(first) {
			return false
		}
		more = s.next(',')
		if !more && !s.next('}') {
			return false
		}
	}
	s.depth--
	s.named = first
	return true
}

// member passes over a name, which must differ from those of the same object, and its value. first is where those begin.
func (s *plainScan) member(first int) bool {
	s.space()
	name, ok := s.text()
	if !ok || s.named == plainNames || slices.Contains(name, '\\') {
		return false
	}
	for _, other := range s.open[first:s.named] {
		if string(other) == string(name) {
			return false
		}
	}
	s.open[s.named] = name
	s.named++
	if s.depth == 1 {
		if s.top == nil {
			s.top = make([]string, 0, 4)
		}
		s.top = append(s.top, string(name))
	}
	return s.next(':') && s.value()
}

func (s *plainScan) array() bool {
	if s.depth == s.maxDepth || !s.next('[') {
		return false
	}
	s.depth++
	for more := !s.next(']'); more; {
		if !s.value() {
			return false
		}
		more = s.next(',')
		if !more && !s.next(']') {
			return false
		}
	}
	s.depth--
	return true
}

// text passes over a string and returns what stands between its quotes. Escapes of characters by their number are left to the general
// scan, which knows which of them stand for nothing.
func (s *plainScan) text() ([]byte, bool) {
	if s.at == len(s.body) || s.body[s.at] != '"' {
		return nil, false
	}
	s.at++
	for begin := s.at; s.at < len(s.body); s.at++ {
		switch c := s.body[s.at]; {
		case c == '"':
			s.at++
			return s.body[begin : s.at-1], true
		case c < ' ':
			return nil, false
		case c == '\\':
			s.at++
			if s.at == len(s.body) || !isShortEscape(s.body[s.at]) {
				return nil, false
			}
		}
	}
	return nil, false
}

func isShortEscape(c byte) bool {
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	}
	return false
}

func (s *plainScan) word(w string) bool {
	if len(s.body)-s.at < len(w) || string(s.body[s.at:s.at+len(w)]) != w {
		return false
	}
	s.at += len(w)
	return true
}

func (s *plainScan) number() bool {
	s.one('-')
	if !s.one('0') && !s.digits() {
		return false
	}
	if s.one('.') && !s.digits() {
		return false
	}
	if s.one('e') || s.one('E') {
		_ = s.one('+') || s.one('-')
		return s.digits()
	}
	return true
}

func (s *plainScan) one(c byte) bool {
	if s.at == len(s.body) || s.body[s.at] != c {
		return false
	}
	s.at++
	return true
}

func (s *plainScan) digits() bool {
	begin := s.at
	for s.at < len(s.body) && '0' <= s.body[s.at] && s.body[s.at] <= '9' {
		s.at++
	}
	return s.at > begin
}
