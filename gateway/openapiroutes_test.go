package gateway_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// What is served is described and the other way round, and each kind of path has its template: the methods that the sources name
// are those that the templates lead to.
func TestEveryRouteIsDescribed(t *testing.T) {
	a := serve(t, nil)
	if err := a.gateway.DocumentWith(func(map[string]string) {}); err != nil {
		t.Error(err)
	}
	err := a.gateway.DocumentWith(func(calls map[string]string) { delete(calls, "PATCH /v1/rows/{table}/{key}") })
	if err == nil || err.Error() != "PATCH /v1/rows/{table}/{key} is served and not described" {
		t.Errorf("a route without a description: %v", err)
	}
	err = a.gateway.DocumentWith(func(calls map[string]string) { calls["GET /v1/rows"] = "GET /livez" })
	if err == nil || err.Error() != "GET /v1/rows is described and not served" {
		t.Errorf("a description without a route: %v", err)
	}
	if named, served := namedOps(t), a.gateway.ServedOps(); !maps.Equal(named, served) {
		t.Errorf("the sources name %v\nthe templates lead to %v", named, served)
	}
}

// namedOps counts the methods with their names that the sources of the gateway bind: on(http.MethodGet, "get", …) and
// {name: http.MethodGet, op: "list", …}.
func namedOps(t *testing.T) map[string]int {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	ops := map[string]int{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			var method, op ast.Expr
			switch n := n.(type) {
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "on" {
					method, op = n.Args[0], n.Args[1]
				}
			case *ast.CompositeLit:
				for _, e := range n.Elts {
					if kv, ok := e.(*ast.KeyValueExpr); ok {
						switch key, _ := kv.Key.(*ast.Ident); {
						case key == nil:
						case key.Name == "name":
							method = kv.Value
						case key.Name == "op":
							op = kv.Value
						}
					}
				}
			}
			constant, isMethod := method.(*ast.SelectorExpr)
			name, isName := op.(*ast.BasicLit)
			if isMethod && isName && strings.HasPrefix(constant.Sel.Name, "Method") {
				text, _ := strconv.Unquote(name.Value)
				ops[strings.ToUpper(strings.TrimPrefix(constant.Sel.Name, "Method"))+" "+text]++
			}
			return true
		})
	}
	return ops
}
