package composetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

func stages(t *testing.T) []instructions.Stage {
	t.Helper()
	file, err := os.Open(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	result, err := parser.Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	stages, _, err := instructions.Parse(result.AST, nil)
	if err != nil {
		t.Fatal(err)
	}
	return stages
}

// last returns the last command of its kind in a stage.
func last[C any](t *testing.T, s instructions.Stage) C {
	t.Helper()
	var found C
	ok := false
	for _, command := range s.Commands {
		if c, is := command.(C); is {
			found, ok = c, true
		}
	}
	if !ok {
		t.Fatalf("no %T in the stage %s", found, s.Name)
	}
	return found
}

func TestDockerfile(t *testing.T) {
	all := stages(t)
	if len(all) != 2 {
		t.Fatalf("%d stages, want 2", len(all))
	}
	build, image := all[0], all[1]
	if !regexp.MustCompile(`^golang:1\.[0-9]+\.[0-9]+-alpine$`).MatchString(build.BaseName) || image.BaseName != "scratch" {
		t.Errorf("built on %s for %s: want a pinned golang and scratch", build.BaseName, image.BaseName)
	}
	if user := last[*instructions.UserCommand](t, image).User; !regexp.MustCompile(`^[1-9][0-9]*:[1-9][0-9]*$`).MatchString(user) {
		t.Errorf("user %q: want numbers, other than 0", user)
	}
	if e := last[*instructions.EntrypointCommand](t, image); e.PrependShell || !slices.Equal(e.CmdLine, []string{"/fencegate"}) {
		t.Errorf("entry point %q", e.CmdLine)
	}
	if h := last[*instructions.HealthCheckCommand](t, image).Health; !slices.Equal(h.Test, []string{"CMD", "/fencegate", "health"}) {
		t.Errorf("health check %q", h.Test)
	}
}

// The image's build sees only what .dockerignore lets through: a package that it does not name is missing there.
func TestBuildContext(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	var let []string
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "!"); ok {
			let = append(let, name)
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Error(err)
			}
		}
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if .Module}}{{if .Module.Main}}{{.ImportPath}}{{end}}{{end}}", "./cmd/fencegate")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	if len(packages) < 5 {
		t.Fatalf("too few packages: %q", packages)
	}
	for _, pkg := range packages {
		folder := strings.TrimPrefix(pkg, "github.com/fencegate/fencegate/")
		covered := slices.ContainsFunc(let, func(l string) bool { return folder == l || strings.HasPrefix(folder, l+"/") })
		if !covered {
			t.Errorf("%s is not in the build context", folder)
		}
	}
}
