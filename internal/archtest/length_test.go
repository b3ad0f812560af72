package archtest

import (
	"fmt"
	"strings"
)

const maxLines = 400

// longFiles may be longer than the limit, each for its reason.
func longFiles() map[string]string {
	return map[string]string{}
}

func filesAreShort(s source) []string {
	lines := strings.Count(s.text, "\n")
	if _, listed := longFiles()[s.path]; listed || lines <= maxLines {
		return nil
	}
	return []string{fmt.Sprintf("%d lines are more than %d: split it, or list it with the reason", lines, maxLines)}
}
