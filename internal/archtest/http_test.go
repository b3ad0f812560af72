package archtest

import (
	"fmt"
	"go/ast"
	"strings"
)

// statusesStayInTheGateway keeps HTTP out of what is below it: storage code returns codes. The store that is an HTTP
// client itself may compare its server's statuses, and no more.
func statusesStayInTheGateway(s source) (found []string) {
	if s.isTest() || !s.in("fence", "lease/...", "stores/...", "migrations") {
		return nil
	}
	count := make(map[string]int)
	for _, name := range selectors(s.file, "http", "Status") {
		count[name]++
	}
	if s.in("stores/s3store/...") {
		for _, name := range compared(s.file) {
			count[name]--
		}
	}
	for name, n := range count {
		if n > 0 {
			found = append(found, fmt.Sprintf("%s is for the gateway", name))
		}
	}
	return found
}

// compared returns the statuses in comparisons and cases.
func compared(file *ast.File) (names []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		var operands []ast.Expr
		switch n := n.(type) {
		case *ast.CaseClause:
			operands = n.List
		case *ast.BinaryExpr:
			operands = []ast.Expr{n.X, n.Y}
		}
		for _, e := range operands {
			if s, ok := e.(*ast.SelectorExpr); ok {
				names = append(names, selectors(s, "http", "Status")...)
			}
		}
		return true
	})
	return names
}

// errorsFile is where codes become statuses.
const errorsFile = "gateway/errors.go"

// oneTableMapsCodes finds other places that turn a code into a status: a case, a condition or an entry of a table with
// the one, and the other in what depends on it.
func oneTableMapsCodes(s source) (found []string) {
	if s.isTest() || !s.in("gateway") || s.path == errorsFile {
		return nil
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		var keys, values []ast.Node
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			keys, values = []ast.Node{n.Key}, []ast.Node{n.Value}
		case *ast.IfStmt:
			keys, values = []ast.Node{n.Cond}, []ast.Node{n.Body}
		case *ast.CaseClause:
			for _, e := range n.List {
				keys = append(keys, e)
			}
			for _, b := range n.Body {
				values = append(values, b)
			}
		default:
			return true
		}
		codes, statuses := all(keys, "fence", "Code"), all(values, "http", "Status")
		if len(codes) > 0 && len(statuses) > 0 {
			found = append(found, fmt.Sprintf("%s becomes %s outside %s", codes[0], statuses[0], errorsFile))
		}
		return true
	})
	return found
}

func all(nodes []ast.Node, pkg, prefix string) (names []string) {
	for _, n := range nodes {
		names = append(names, selectors(n, pkg, prefix)...)
	}
	return names
}

// selectors returns the uses below a node of a package's names that begin with prefix.
func selectors(n ast.Node, pkg, prefix string) (names []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == pkg && strings.HasPrefix(s.Sel.Name, prefix) {
				names = append(names, pkg+"."+s.Sel.Name)
			}
		}
		return true
	})
	return names
}
