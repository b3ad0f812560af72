package access

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
)

// Time that can be measured tells too little in a test; the shape of the code tells enough. The functions that compare
// hashes go through all of them, with nothing that depends on an outcome inside the loop.
func TestComparisonsGoThroughAllHashes(t *testing.T) {
	want := map[string]string{"bySum": "policy.go", "sees": "visitor.go", "contains": "visitor.go"}
	for name, file := range want {
		t.Run(name, func(t *testing.T) {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			loops, compares := 0, 0
			for _, d := range parsed.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Name.Name != name {
					continue
				}
				ast.Inspect(f.Body, func(n ast.Node) bool {
					loop, ok := n.(*ast.RangeStmt)
					if !ok {
						return true
					}
					loops++
					ast.Inspect(loop.Body, func(n ast.Node) bool {
						switch n := n.(type) {
						case *ast.IfStmt, *ast.SwitchStmt, *ast.BranchStmt, *ast.ReturnStmt:
							t.Errorf("%T in the loop", n)
						case *ast.BinaryExpr:
							if n.Op == token.EQL || n.Op == token.NEQ || n.Op == token.LAND || n.Op == token.LOR {
								t.Errorf("%s in the loop", n.Op)
							}
						case *ast.SelectorExpr:
							if n.Sel.Name == "ConstantTimeCompare" {
								compares++
							}
						}
						return true
					})
					return false
				})
			}
			if loops != 1 || compares != 1 {
				t.Errorf("%d loops, %d comparisons in constant time", loops, compares)
			}
		})
	}
}
