package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

var update = flag.Bool("update", false, "write the table of flags in docs/operations.md, and golden files, anew")

const operations = "../../docs/operations.md"

// newParser is the parser of run.
func newParser(t *testing.T) (*kong.Kong, *cli) {
	t.Helper()
	var c cli
	parser, err := kong.New(&c, kong.Name("fencegate"), kong.DefaultEnvars("FENCEGATE"), kong.Exit(func(int) { t.Error("exit") }))
	if err != nil {
		t.Fatal(err)
	}
	return parser, &c
}

// flagsOf are the flags of a command, without help.
func flagsOf(t *testing.T, command ...string) []*kong.Flag {
	t.Helper()
	parser, _ := newParser(t)
	node := parser.Model.Node
	for _, name := range command {
		i := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == name })
		if i < 0 {
			t.Fatalf("there is no command %v", command)
		}
		node = node.Children[i]
	}
	return slices.DeleteFunc(slices.Clone(node.Flags), func(f *kong.Flag) bool { return f.Name == "help" })
}

func TestTableOfFlags(t *testing.T) {
	var want strings.Builder
	want.WriteString("\n| flag | environment | default | meaning |\n|---|---|---|---|\n")
	for _, f := range flagsOf(t, "serve") {
		value := ""
		if f.Default != "" {
			value = "`" + f.Default + "`"
		}
		if f.Required {
			value = "required"
		}
		name := "--" + f.Name
		if f.Tag.Negatable != "" {
			name = "--[no-]" + f.Name
		}
		fmt.Fprintf(&want, "| `%s` | `%s` | %s | %s |\n", name, strings.Join(f.Envs, "`, `"), value, strings.ReplaceAll(f.Help, "|", `\|`))
	}
	text, err := os.ReadFile(operations)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), "<!-- flags -->\n")
	got, after, found := strings.Cut(rest, "\n<!-- end of flags -->")
	switch {
	case !found:
		t.Fatalf("%s has no table of flags", operations)
	case *update:
		if err := os.WriteFile(operations, []byte(before+"<!-- flags -->\n"+want.String()+"\n<!-- end of flags -->"+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case strings.TrimSpace(got) != strings.TrimSpace(want.String()):
		t.Errorf("%s differs (rewrite it with -update), it should have:\n%s", operations, want.String())
	}
}

// Whatever the text says of flags and variables exists.
func TestOperationsNamesWhatExists(t *testing.T) {
	text, err := os.ReadFile(operations)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, command := range [][]string{{"serve"}, {"migrate", "up"}, {"migrate", "status"}, {"ledger", "advance"}, {"doctor"}, {"health"}, {"run"}, {"lease", "ls"}, {"lease", "watch"}, {"lease", "break"}, {"protect", "set"}, {"protect", "ls"}, {"objects", "export"}, {"objects", "gc"}, {"bench"}} {
		for _, f := range flagsOf(t, command...) {
			known["--"+f.Name], known["--[no-]"+f.Name] = true, true
			for _, env := range f.Envs {
				known[env] = true
			}
		}
	}
	for _, name := range regexp.MustCompile(`\bFENCEGATE_[A-Z0-9_]+\b|--(\[no-\])?[a-z][a-z0-9-]+`).FindAllString(string(text), -1) {
		if !known[name] && !slices.Contains(foreignFlags(), name) {
			t.Errorf("%s is in %s, but there is no such thing", name, operations)
		}
	}
}

// foreignFlags are those of other programs in the text.
func foreignFlags() []string {
	return []string{"--json", "--format", "--now", "--ignore-not-found", "--for", "--timeout"}
}

func TestSystemdUnit(t *testing.T) {
	text, err := os.ReadFile("../../docs/examples/fencegate.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ExecStart=/usr/local/bin/fencegate serve", "ExecReload=/bin/kill -HUP $MAINPID", "EnvironmentFile=", "NoNewPrivileges=yes", "UMask=0077", "\nCapabilityBoundingSet=\n", "SystemCallFilter=@system-service", "GOMEMLIMIT="} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the unit has no %s", want)
		}
	}
	seconds := 0
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "TimeoutStopSec=%d", &seconds); err == nil {
			break
		}
	}
	parser, c := newParser(t)
	if _, err := parser.Parse([]string{"serve", "--database-url=postgres://x", "--redis-url=x"}); err != nil {
		t.Fatal(err)
	}
	if least := c.Serve.DrainDelay + c.Serve.DrainTransfers; float64(seconds) <= least.Seconds() {
		t.Errorf("systemd kills after %d s what may drain for %v", seconds, least)
	}
}
