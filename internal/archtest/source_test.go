package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const (
	module = "github.com/fencegate/fencegate"
	root   = "../.."
)

// source is a Go file of the module.
type source struct {
	path string // relative to the module, with slashes
	file *ast.File
	text string
}

func parse(name, text string) (source, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
	return source{path: name, file: file, text: text}, err
}

// folder is the package's folder, relative to the module.
func (s source) folder() string { return path.Dir(s.path) }

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// in tells whether the file belongs to one of the packages. A pattern that ends in /... covers those below, too.
func (s source) in(patterns ...string) bool { return matches(s.folder(), patterns) }

func matches(folder string, patterns []string) bool {
	for _, p := range patterns {
		if below, ok := strings.CutSuffix(p, "/..."); ok && (folder == below || strings.HasPrefix(folder, below+"/")) || p == folder {
			return true
		}
	}
	return false
}

// imports returns the import paths, ours shortened to their folder.
func (s source) imports() (ours, theirs []string) {
	for _, spec := range s.file.Imports {
		// The parser has accepted it.
		name, _ := strconv.Unquote(spec.Path.Value)
		if folder, ok := strings.CutPrefix(name, module+"/"); ok {
			ours = append(ours, folder)
		} else {
			theirs = append(theirs, name)
		}
	}
	return ours, theirs
}

// sources parses every Go file of the module. Nested modules are none of its business.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if relative == "." {
				return nil
			}
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil || strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		s, err := parse(filepath.ToSlash(relative), string(text))
		all = append(all, s)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
