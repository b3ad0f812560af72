package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
)

// fixedVariables are variables that nobody changes but the compiler cannot know, each with its reason.
func fixedVariables() map[string]string {
	return map[string]string{
		"cmd/fencegate/version.go:version":      "set by the linker, which sets nothing else than variables",
		"gateway/errors.go:outcomes":            "the one table from codes to statuses",
		"gateway/gatewaytest/memory.go:started": "a point in time",
		"internal/testenv/testenv.go:shared":    "the servers of a test binary; TestMain has no other way to hand them to tests",
	}
}

// constructors make values that are fixed once they are made.
func constructors() []string {
	return []string{"errors.New", "fmt.Errorf", "regexp.MustCompile", "strings.NewReplacer"}
}

// packagesKeepNoState finds package-level variables other than interface checks, embedded files, error sentinels and
// what is on the lists above; and init functions, which are state in disguise.
func packagesKeepNoState(s source) (found []string) {
	if s.isTest() {
		return nil
	}
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.Name == "init" {
				found = append(found, "func init")
			}
		case *ast.GenDecl:
			if d.Tok != token.VAR {
				continue
			}
			for _, spec := range d.Specs {
				v := spec.(*ast.ValueSpec)
				if embeds(d.Doc) || embeds(v.Doc) {
					continue
				}
				for i, name := range v.Names {
					if _, listed := fixedVariables()[s.path+":"+name.Name]; listed || name.Name == "_" || i < len(v.Values) && constructed(v.Values[i]) {
						continue
					}
					found = append(found, fmt.Sprintf("package-level variable %s", name.Name))
				}
			}
		}
	}
	return found
}

func embeds(doc *ast.CommentGroup) bool {
	if doc == nil {
		return false
	}
	for _, c := range doc.List {
		if strings.HasPrefix(c.Text, "//go:embed ") {
			return true
		}
	}
	return false
}

func constructed(value ast.Expr) bool {
	call, ok := value.(*ast.CallExpr)
	if !ok {
		return false
	}
	for _, c := range constructors() {
		if isSelector(call.Fun, c) {
			return true
		}
	}
	return false
}

// isSelector tells whether an expression is pkg.Name.
func isSelector(e ast.Expr, want string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name+"."+s.Sel.Name == want
}
