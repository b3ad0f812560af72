package access

import "strings"

// glob is a pattern cut at its stars. A star matches any run of characters, the empty one and "/" included; everything
// else stands for itself.
type glob []string

func newGlob(pattern string) glob { return strings.Split(pattern, "*") }

// below tells whether the pattern matches something that begins with prefix: behind its first star anything can follow.
func (g glob) below(prefix string) bool {
	return strings.HasPrefix(g[0], prefix) || len(g) > 1 && strings.HasPrefix(prefix, g[0])
}

// match never goes back to an earlier piece, so that its time grows with the lengths alone: the leftmost place of a
// piece leaves the most room for those that follow.
func (g glob) match(s string) bool {
	last := len(g) - 1
	if last == 0 {
		return s == g[0]
	}
	s, found := strings.CutPrefix(s, g[0])
	if !found {
		return false
	}
	if s, found = strings.CutSuffix(s, g[last]); !found {
		return false
	}
	for _, piece := range g[1:last] {
		at := strings.Index(s, piece)
		if at < 0 {
			return false
		}
		s = s[at+len(piece):]
	}
	return true
}
