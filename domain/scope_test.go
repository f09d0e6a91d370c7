package domain

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheZeroScopeIsRefused(t *testing.T) {
	require.ErrorIs(t, Scope{}.Valid(), ErrNoScope)
	require.ErrorIs(t, NewScope("", Actor{Kind: ActorUser}, RoleAdmin).Valid(), ErrNoScope)
	require.ErrorIs(t, NewScope("ws_1", Actor{}, RoleAdmin).Valid(), ErrNoScope)
	require.ErrorIs(t, NewScope("ws_1", Actor{Kind: ActorUser}, "").Valid(), ErrNoScope)
	require.NoError(t, NewScope("ws_1", Actor{Kind: ActorUser}, RoleViewer).Valid())
	require.NoError(t, SystemScope("ws_1", "a test").Valid())
	require.ErrorIs(t, Authorize[Tx](t.Context(), nil, Scope{}, RunRead), ErrNoScope, "before anything is read")
}

func TestAScopeCannotBeChanged(t *testing.T) {
	for f := range reflect.TypeFor[Scope]().Fields() {
		require.False(t, f.IsExported(), f.Name)
	}
	s := NewScope("ws_1", Actor{Kind: ActorAPIKey, ID: "key_1"}, RoleViewer)
	require.Empty(t, s.UserID(), "a key is nobody")
	require.Equal(t, UserID("usr_1"), NewScope("ws_1", Actor{Kind: ActorUser, ID: "usr_1"}, RoleViewer).UserID())
}

// TestOnlyAuthenticationMakesScopes reads every file of the module. Outside of tests only
// domain/auth may call NewScope, and SystemScope needs a literal reason, so that each use can be
// searched for.
func TestOnlyAuthenticationMakesScopes(t *testing.T) {
	calls := map[string]int{}
	for path, file := range sources(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			switch calledName(call) {
			case "NewScope":
				require.Equal(t, "domain/auth", filepath.ToSlash(filepath.Dir(path)), "%s makes a scope", path)
				calls["NewScope"]++
			case "SystemScope":
				reason, ok := call.Args[1].(*ast.BasicLit)
				require.True(t, ok, "%s: the reason of a SystemScope is written out", path)
				require.Greater(t, len(reason.Value), 2, path)
				calls["SystemScope"]++
			}
			return true
		})
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.CompositeLit); ok && len(lit.Elts) > 0 && typeName(lit.Type) == "Scope" {
				require.Equal(t, "domain/scope.go", filepath.ToSlash(path), "a Scope with fields is written out")
			}
			return true
		})
	}
	require.Positive(t, calls["NewScope"])
	require.Positive(t, calls["SystemScope"])
}

func calledName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

func typeName(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.Ident:
		return t.Name
	case *ast.SelectorExpr:
		return t.Sel.Name
	}
	return ""
}

// sources parses the module's own files by path from its root, without tests and generated code.
func sources(t testing.TB) map[string]*ast.File {
	files := map[string]*ast.File{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if name == "node_modules" || name == "generated" || len(name) > 2 && strings.HasPrefix(name, ".") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files[strings.TrimPrefix(filepath.ToSlash(path), "../")] = file
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, len(files), 50)
	return files
}

func TestIDs(t *testing.T) {
	epoch := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	seen := map[AttemptID]bool{}
	last := AttemptID("")
	for range 1000 {
		id := NewID[AttemptID](PrefixAttempt)
		require.False(t, seen[id])
		require.GreaterOrEqual(t, id[:14], last, "ids sort by the time they were made, to the millisecond")
		seen[id], last = true, id[:14]
	}
	first := FirstAttemptID(epoch)
	require.Regexp(t, "^att_[0-9a-z]{26}$", string(first))
	require.Less(t, first, FirstAttemptID(epoch.Add(1e6)))
	require.Less(t, FirstAttemptID(epoch), last+"0")
}
