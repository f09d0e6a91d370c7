// Package test checks rules of the whole repository: who may import whom, how large a package is,
// and that the texts of both APIs are plain. The packages below it are the black-box tests.
package test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const modulePath = "github.com/millpond/millpond"

// rule lists the allowed imports of a package: exactly the given ones of this module, and the given
// other modules, or any if nil. A package that ends in /... includes the packages below it.
type rule struct {
	packages string
	own      []string
	others   []string
}

// modules are those of the domain in their order: each may import those before it.
var modules = []string{"identity", "quota", "auth", "lake", "machine", "job", "lineage", "statement", "maintenance", "tracking", "loader", "setup"}

// before returns the kernel and the modules before one.
func before(module string) []string {
	allowed := []string{"domain"}
	for _, m := range modules[:slices.Index(modules, module)] {
		allowed = append(allowed, "domain/"+m)
	}
	return allowed
}

// importRules is the design's table of imports. The first matching rule applies; a package without
// a rule fails the test.
var importRules = []rule{
	{"domain", nil, []string{"go.jetify.com/typeid"}},
	{"domain/identity", []string{"domain"}, []string{}},
	{"domain/quota", before("quota"), []string{}},
	{"domain/auth", before("auth"), []string{
		"github.com/golang-jwt/jwt/v5", "golang.org/x/crypto/argon2", "github.com/go-chi/httprate", "go.jetify.com/typeid",
	}},
	{"expiry", nil, []string{"github.com/apache/iceberg-go/..."}}, // shared by the catalog and the maintenance process
	{"domain/lake", append(before("lake"), "expiry"), []string{
		"github.com/apache/iceberg-go/...", "github.com/apache/arrow-go/v18/...", "github.com/google/uuid", "github.com/twmb/avro/...", // types of its API
	}},
	{"domain/machine", before("machine"), []string{"github.com/shopspring/decimal"}},
	{"domain/job", before("job"), []string{"github.com/robfig/cron/v3"}},
	{"domain/lineage", before("lineage"), []string{"go.jetify.com/typeid"}},
	{"domain/statement", before("statement"), []string{}},
	{"domain/maintenance", before("maintenance"), []string{"github.com/shopspring/decimal"}},
	{"domain/tracking", before("tracking"), []string{"go.jetify.com/typeid", "golang.org/x/sync/semaphore"}},
	{"domain/loader", before("loader"), []string{"github.com/graph-gophers/dataloader/v7"}},
	{"domain/setup", before("setup"), []string{}},
	{"domain/rows", nil, []string{"github.com/apache/arrow-go/v18/...", "github.com/google/uuid"}},
	{"store/embedded", nil, nil},
	{"store/storetest", []string{"store/embedded"}, nil},
	{"store/...", []string{"domain/..."}, nil},
	{"rest/httpx", []string{"domain", "domain/auth"}, []string{"github.com/go-chi/chi/v5"}},
	{"rest/...", []string{"domain/...", "rest/..."}, nil},
	{"graph/...", []string{"domain/...", "graph/...", "rest/httpx"}, nil},
	{"agent", nil, []string{}},
	{"agent/tunnel", []string{"agent"}, nil},
	{"agent/hub", []string{"domain/...", "agent", "agent/tunnel"}, nil},
	{"agent/provision/...", []string{"domain/...", "agent", "agent/tunnel"}, nil},
	{"agent/children", []string{"agent/engine/...", "agent/worker/shim"}, []string{}},
	{"agent/worker/...", []string{"agent", "agent/tunnel", "agent/worker/proc", "agent/worker/shim"}, nil},
	{"agent/engine/...", []string{"agent", "agent/tunnel", "agent/engine/...", "expiry", "domain/rows"}, nil}, // the engine splits results by domain/rows, which imports none of our packages
	{"web", nil, []string{}},
	{"test/...", []string{"..."}, nil},
	{"", []string{"..."}, nil}, // main
}

func fits(pattern, path string) bool {
	if prefix, deep := strings.CutSuffix(pattern, "..."); deep {
		return strings.HasPrefix(path+"/", prefix)
	}
	return pattern == path
}

// listed returns the packages of this module with their imports outside tests.
func listed(t *testing.T) map[string][]string {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...")
	cmd.Dir = ".."
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

// TestWhoMayImportWhom checks the direction of every dependency between packages.
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

// TestTransportsAndAgentsAreApart checks two bans without the table. rest and graph import neither
// the store nor agents nor, except httpx, each other. Code in the user's cloud imports neither the
// domain nor the store, even indirectly.
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
				require.False(t, reached != "rest/httpx" && fits(pattern, reached), "%s reaches %s", from, reached)
			}
		}
	}
}

// Packages stay small enough that a newcomer guesses the file: 35 hand-written files, and 25 in the
// domain's kernel. store, rest and graph have a file for each noun.
func TestPackagesStaySmall(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.ImportPath}} {{len .GoFiles}}", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		path, files, _ := strings.Cut(strings.TrimSpace(line), " ")
		path = strings.TrimPrefix(strings.TrimPrefix(path, modulePath), "/")
		limit := 35
		switch {
		case slices.Contains([]string{"store", "rest", "graph", "graph/generated"}, path) || strings.HasPrefix(path, "test"):
			continue
		case path == "domain":
			limit = 25
		}
		n, err := strconv.Atoi(files)
		require.NoError(t, err)
		require.LessOrEqual(t, n, limit, "%q has too many files; give a part of it a package", path)
	}
}
