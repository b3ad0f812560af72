package e2e

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What README.md tells a newcomer to type works when it is typed as it stands, and shows what the README shows. Two
// things are provided: make build finds the program built, and the environment moves the gateway to a free port.
func TestReadmeFirstSuccess(t *testing.T) {
	t.Parallel()
	blocks := codeBlocks(t, "../README.md", "## First success")
	sh := startShell(t, scratchCopy(t))
	var output string
	commands, shown := 0, 0
	for _, b := range blocks {
		switch b.language {
		case "sh":
			commands++
			if strings.Contains(b.text, "protect orders") {
				// The reader's own table.
				execSQL(t, sh.variable("FENCEGATE_DATABASE_URL"), "CREATE TABLE IF NOT EXISTS orders (id bigint PRIMARY KEY)")
			}
			output = sh.run(b.text)
			if strings.HasPrefix(b.text, "make build") {
				sh.waitFor(readyLine + "http://127.0.0.1:")
			}
		case "json":
			for line := range strings.Lines(b.text) {
				shown++
				want := strings.TrimSpace(line)
				if !slices.ContainsFunc(strings.Split(output, "\n"), func(printed string) bool { return shows(want, printed) }) {
					t.Errorf("README.md shows\n%s\nbut the commands before it print\n%s", want, output)
				}
			}
		}
	}
	if commands < 4 || shown < 3 {
		t.Errorf("%d blocks of commands and %d shown lines were found in README.md", commands, shown)
	}
	if balance, mark := newClient(t, sh.variable("FENCEGATE_URL")).balance("wallets/42"); balance != "50" || mark == 0 {
		t.Errorf("in the end: balance %s, mark %d", balance, mark)
	}
	for _, resource := range []string{"rows/orders/1", "objects/invoices/a.txt"} {
		newClient(t, sh.variable("FENCEGATE_URL")).get("marks/"+resource).want(t, "")
	}
	sh.end()
}

// shows tells whether a line of the README stands for a line that was printed: an ellipsis for what the page has no room
// for.
func shows(line, printed string) bool {
	for i, part := range strings.Split(line, "…") {
		at := strings.Index(printed, part)
		if at < 0 || i == 0 && at != 0 {
			return false
		}
		printed = printed[at+len(part):]
	}
	return strings.HasSuffix(line, "…") || printed == ""
}

type codeBlock struct{ language, text string }

// codeBlocks returns the fenced code blocks below a heading, up to the next.
func codeBlocks(t *testing.T, file, heading string) (blocks []codeBlock) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(content), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no %q", file, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for i, part := range strings.Split(section, "```") {
		if i%2 == 1 {
			language, text, _ := strings.Cut(part, "\n")
			blocks = append(blocks, codeBlock{language, text})
		}
	}
	return blocks
}

// scratchCopy is what a checkout has after make build, as far as the README's commands can tell.
func scratchCopy(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary, filepath.Join(dir, "bin", "fencegate")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "Makefile"), []byte("build: bin/fencegate\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// shell is a bash that is fed block after block, as from a keyboard.
type shell struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // closed at the end of the output
	seen  strings.Builder
	errs  log
}

// blockEnd is printed after each block.
const blockEnd = "--- end of the block"

func startShell(t *testing.T, dir string) *shell {
	t.Helper()
	s := &shell{t: t, cmd: exec.Command("bash"), lines: make(chan string, 1000)}
	s.cmd.Dir = dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "FENCEGATE_") && !strings.HasPrefix(v, "MAKE") {
			s.cmd.Env = append(s.cmd.Env, v)
		}
	}
	s.cmd.Env = append(s.cmd.Env, "FENCEGATE_LISTEN=127.0.0.1:0")
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.cmd.Stderr = &s.errs
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			s.lines <- scan.Text()
		}
	}()
	t.Cleanup(func() {
		// The gateway, in the group too, ends in order and its servers with it; it holds the pipes until then.
		s.in.Close()
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGTERM)
		_ = s.cmd.Wait()
		if t.Failed() {
			t.Logf("the shell's output:\n%s\nits standard error:\n%s", s.seen.String(), s.errs.String())
		}
	})
	return s
}

// run types a block and returns what it prints.
func (s *shell) run(block string) string {
	s.t.Helper()
	// Not all output ends its line.
	if _, err := io.WriteString(s.in, block+"\nprintf '\\n%s\\n' '"+blockEnd+"'\n"); err != nil {
		s.t.Fatal(err)
	}
	from := s.seen.Len()
	s.waitFor(blockEnd)
	return s.seen.String()[from:]
}

// waitFor waits until a line has been printed, unless it has been already since the last block began.
func (s *shell) waitFor(prefix string) {
	s.t.Helper()
	if strings.Contains(s.seen.String(), "\n"+prefix) && prefix != blockEnd {
		return
	}
	limit := time.After(patience)
	for {
		select {
		case line, more := <-s.lines:
			if !more {
				s.t.Fatalf("the shell ended before it printed %q", prefix)
			}
			s.seen.WriteString("\n" + line)
			if strings.HasPrefix(line, prefix) {
				return
			}
		case <-limit:
			s.t.Fatalf("%q was not printed within %v", prefix, patience)
		}
	}
}

// variable returns a setting of the gateway that the shell has started.
func (s *shell) variable(name string) string {
	s.t.Helper()
	env := (&program{t: s.t, data: filepath.Join(s.cmd.Dir, ".fencegate")}).env()
	if env[name] == "" {
		s.t.Fatalf("%s is not in .fencegate/env", name)
	}
	return env[name]
}

// end stops the gateway, which must end in order.
func (s *shell) end() {
	s.t.Helper()
	if out := s.run("kill $! && wait $!; echo exit code $?"); !strings.Contains(out, "exit code 0") {
		s.t.Errorf("the gateway did not end in order: %s", out)
	}
}
