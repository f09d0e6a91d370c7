package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const modulePath = "github.com/millpond/millpond"

// rule says what a package may import: of this module exactly what is listed, and of others what is listed, or anything where that is nil. A package
// that ends in /... stands for those below it as well.
type rule struct {
	packages string
	own      []string
	others   []string
}

// importRules is the design's table "Who may import whom". The first rule that fits a package holds for it; a package without a rule fails the test.
var importRules = []rule{
	{"domain", nil, []string{"go.jetify.com/typeid", "github.com/shopspring/decimal", "github.com/robfig/cron/v3"}},
	{"domain/auth", []string{"domain"}, []string{
		"github.com/golang-jwt/jwt/v5", "golang.org/x/crypto/argon2", "github.com/go-chi/httprate", "go.jetify.com/typeid",
	}},
	{"domain/loader", []string{"domain"}, []string{"github.com/graph-gophers/dataloader/v7"}},
	{"domain/lake", []string{"domain"}, []string{"github.com/apache/iceberg-go/...", "github.com/apache/arrow-go/v18/...", "github.com/google/uuid"}}, // which its API is made of
	{"domain/rows", nil, []string{"github.com/apache/arrow-go/v18/...", "github.com/google/uuid"}},
	{"store/embedded", nil, nil},
	{"store/storetest", []string{"store/embedded"}, nil},
	{"store/...", []string{"domain", "domain/auth", "domain/lake"}, nil}, // domain/auth declares the port of what has no scope yet
	{"rest/...", []string{"domain/...", "rest/..."}, nil},
	{"graph/...", []string{"domain/...", "graph/..."}, nil},
	{"agent", nil, []string{}},
	{"agent/tunnel", []string{"agent"}, nil},
	{"agent/hub", []string{"domain", "agent", "agent/tunnel"}, nil},
	{"agent/provision/...", []string{"domain", "agent", "agent/tunnel"}, nil},
	{"agent/children", []string{"agent/engine/...", "agent/worker"}, []string{}},
	{"agent/worker/...", []string{"agent", "agent/tunnel"}, nil},
	{"agent/engine/...", []string{"agent", "agent/tunnel", "agent/engine/..."}, nil},
	{"web", nil, []string{}},
	{"bench/...", []string{"..."}, nil},
	{"", []string{"..."}, nil}, // main
}

func fits(pattern, path string) bool {
	if prefix, deep := strings.CutSuffix(pattern, "..."); deep {
		return strings.HasPrefix(path+"/", prefix)
	}
	return pattern == path
}

// listed are the packages of this module with what they import outside of tests.
func listed(t *testing.T) map[string][]string {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	packages := map[string][]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else {
			require.NoError(t, err)
		}
		packages[strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, modulePath), "/")] = p.Imports
	}
}

// TestWhoMayImportWhom holds the direction of every dependency between packages.
func TestWhoMayImportWhom(t *testing.T) {
	packages := listed(t)
	require.Greater(t, len(packages), 10)
	for path, imports := range packages {
		i := slices.IndexFunc(importRules, func(r rule) bool { return fits(r.packages, path) })
		require.GreaterOrEqual(t, i, 0, "%q has no rule: say here what it may import", path)
		r := importRules[i]
		for _, imported := range imports {
			own, ours := strings.CutPrefix(imported, modulePath)
			allowed := r.others
			switch {
			case ours:
				imported, allowed = strings.TrimPrefix(own, "/"), r.own
			case r.others == nil || !strings.Contains(strings.SplitN(imported, "/", 2)[0], "."): // the standard library
				continue
			}
			require.True(t, slices.ContainsFunc(allowed, func(p string) bool { return fits(p, imported) }), "%s imports %s", path, imported)
		}
	}
}

// TestTransportsAndAgentsAreApart says again, without the table, what must never be: rest and graph know neither the store nor agents nor each other,
// and what runs in someone else's cloud knows neither the domain nor the store, however indirectly.
func TestTransportsAndAgentsAreApart(t *testing.T) {
	packages := listed(t)
	reach := func(from string) map[string]bool {
		seen := map[string]bool{}
		var visit func(string)
		visit = func(p string) {
			for _, imported := range packages[p] {
				own, ours := strings.CutPrefix(imported, modulePath+"/")
				if ours && !seen[own] {
					seen[own] = true
					visit(own)
				}
			}
		}
		visit(from)
		return seen
	}
	for from, never := range map[string][]string{
		"rest": {"store/...", "agent/...", "graph/..."}, "graph": {"store/...", "agent/...", "rest/..."},
		"agent/worker": {"domain/...", "store/...", "rest/...", "graph/..."}, "domain": {"..."}, "domain/auth": {"store/...", "agent/..."},
		"agent/hub": {"store/...", "rest/...", "graph/..."},
	} {
		require.Contains(t, packages, from)
		for reached := range reach(from) {
			for _, pattern := range never {
				require.False(t, fits(pattern, reached), "%s reaches %s", from, reached)
			}
		}
	}
}
