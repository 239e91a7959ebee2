package deploy_test

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What the templates have to fit, packages keep to themselves as constants. They are read from the source, so that there is no second copy
// of them here that could grow old.

// codeDuration is a constant of a package, given by its folder below the module.
func codeDuration(t *testing.T, folder, name string) time.Duration {
	t.Helper()
	return time.Duration(codeNumber(t, folder, name))
}

// codeNumber is likewise a constant without a unit, or one in nanoseconds.
func codeNumber(t *testing.T, folder, name string) int {
	t.Helper()
	declared := declarations(t, folder)
	var value func(ast.Expr) constant.Value
	value = func(x ast.Expr) constant.Value {
		switch x := x.(type) {
		case *ast.BasicLit:
			return constant.MakeFromLiteral(x.Value, x.Kind, 0)
		case *ast.BinaryExpr:
			return constant.BinaryOp(value(x.X), x.Op, value(x.Y))
		case *ast.Ident:
			if of, ok := declared[x.Name]; ok {
				return value(of)
			}
		case *ast.SelectorExpr:
			if unit, ok := map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}[x.Sel.Name]; ok {
				return constant.MakeInt64(int64(unit))
			}
		}
		t.Fatalf("%s of %s is made of %T, which is not read here", name, folder, x)
		return nil
	}
	of, ok := declared[name]
	if !ok {
		t.Fatalf("%s has no constant %s", folder, name)
	}
	n, exact := constant.Int64Val(constant.ToInt(value(of)))
	if !exact {
		t.Fatalf("%s of %s is no whole number", name, folder)
	}
	return int(n)
}

// declarations are the constants of a package that have an expression of their own.
func declarations(t *testing.T, folder string) map[string]ast.Expr {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no Go files in %s: %v", folder, err)
	}
	found := map[string]ast.Expr{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			group, ok := d.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				values := spec.(*ast.ValueSpec)
				for i, x := range values.Values {
					found[values.Names[i].Name] = x
				}
			}
		}
	}
	return found
}
