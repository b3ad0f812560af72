package access

import (
	"fmt"
	"regexp"

	"github.com/goccy/go-yaml/token"
)

// FileError is what is wrong with a file, and where. Its text never holds a secret or a hash.
type FileError struct {
	// Line and Column are counted from 1.
	Line, Column int
	// Principal is whose entry is wrong, empty when the error is about no entry or the entry has no name yet.
	Principal string
	// Issuer is the issuer whose entry is wrong, empty likewise.
	Issuer  string
	Message string
}

func (e *FileError) Error() string {
	whose := ""
	switch {
	case e.Principal != "":
		whose = "principal " + shown(e.Principal) + ": "
	case e.Issuer != "":
		whose = "issuer " + shown(e.Issuer) + ": "
	}
	return fmt.Sprintf("%d:%d: %s%s", e.Line, e.Column, whose, e.Message)
}

func errorAt(at *token.Position, format string, args ...any) *FileError {
	return &FileError{Line: at.Line, Column: at.Column, Message: fmt.Sprintf(format, args...)}
}

// secretLike finds secrets of fencegate auth new, and long runs of hexadecimal digits such as hashes.
var secretLike = regexp.MustCompile(`fg_[A-Za-z0-9_-]{16}|[0-9A-Fa-f]{32}`)

// shown quotes a text of the file for a message, unless somebody may have put a secret or a hash in the wrong place.
func shown(s string) string {
	const most = 80
	switch {
	case secretLike.MatchString(s):
		return "(not shown: it looks like a secret)"
	case len(s) > most:
		return fmt.Sprintf("%q…", firstBytes(s, most))
	}
	return fmt.Sprintf("%q", s)
}

// firstBytes cuts s at a character, after at most n bytes.
func firstBytes(s string, n int) string {
	end := 0
	for at := range s {
		if at > n {
			break
		}
		end = at
	}
	return s[:end]
}
