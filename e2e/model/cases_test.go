package model

import (
	"bufio"
	"embed"
	"regexp"
	"strings"
	"testing"
)

// files are embedded so that they are a part of what go test knows a result by: it searches again when one has changed, and
// only then.
//
//go:embed *.pml pass.txt fail.txt
var files embed.FS

// search is one line of pass.txt or fail.txt.
type search struct {
	name string
	// model is the file that spin reads.
	model string
	// bounds are the property and the bounds of the search; switches break the protocol.
	bounds, switches []string
	long             bool
}

var (
	nameRE  = regexp.MustCompile(`^[A-Z][A-Za-z]+$`)
	flagRE  = regexp.MustCompile(`^-D[A-Z_]+[01]?(=[0-9]+)?$`)
	modelRE = regexp.MustCompile(`^\[([a-z]+\.pml)\]$`)
)

func cases(t *testing.T, file string) []search {
	t.Helper()
	f, err := files.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []search
	seen, model, long := map[string]bool{}, "", false
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		line = strings.TrimSpace(line)
		switch line {
		case "":
			continue
		case "[long]":
			long = true
			continue
		}
		if m := modelRE.FindStringSubmatch(line); m != nil {
			model, long = m[1], false
			continue
		}
		name, flags, ok := strings.Cut(line, ":")
		if !ok || model == "" || !nameRE.MatchString(name) || seen[name] {
			t.Fatalf("%s:%d: not a case with a name of its own: %q", file, n, line)
		}
		seen[name] = true
		c := search{name: name, model: model, long: long}
		switches, bounds, broken := strings.Cut(flags, "|")
		if !broken {
			switches, bounds = "-", flags
		}
		c.bounds = strings.Fields(bounds)
		if switches = strings.TrimSpace(switches); switches != "-" {
			c.switches = strings.Fields(switches)
		}
		for _, flag := range append(append([]string{}, c.bounds...), c.switches...) {
			if !flagRE.MatchString(flag) {
				t.Fatalf("%s:%d: not a flag: %q", file, n, flag)
			}
		}
		all = append(all, c)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatalf("%s holds no cases", file)
	}
	return all
}
