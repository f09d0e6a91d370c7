package enginetest

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent/engine"
	"github.com/millpond/millpond/agent/engine/duckdb"
)

// dialectRow is a row of the table of differences in docs/sql.md: a statement and each engine's
// answer.
var dialectRow = regexp.MustCompile("^\\| `(.+?)` \\| (.+?) \\| (.+?) \\|")

type dialectPair struct{ query, duckdb, trino string }

func dialectPairs(t *testing.T) (all []dialectPair) {
	page, err := os.ReadFile("../../../docs/sql.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n## The two dialects\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		line = strings.ReplaceAll(line, `\|`, "\x00")
		if m := dialectRow.FindStringSubmatch(line); m != nil {
			for i := range m {
				m[i] = strings.ReplaceAll(m[i], "\x00", "|")
			}
			all = append(all, dialectPair{m[1], m[2], m[3]})
		}
	}
	return all
}

// trinoDialects runs every pair in docs/sql.md in both engines. The table pairs has the columns n
// and s.
func trinoDialects(t *testing.T, r trinoRig) {
	pairs := dialectPairs(t)
	require.Greater(t, len(pairs), 30)
	for _, p := range pairs {
		for name, want := range map[string]string{duckdb.Name: p.duckdb, engine.TrinoName: p.trino} {
			made := strings.Contains(p.query, "pairs")
			if made {
				r.ok("CREATE TABLE pairs AS SELECT 1 AS n, 'a' AS s")
			}
			s := r.statement(p.query)
			s.Engine = name
			rows, head, end := r.follow(s)
			got := "fails"
			switch {
			case end.Error == nil && head.Write:
				got = "runs"
			case end.Error == nil:
				got = "`" + strings.Join(rows, ", ") + "`"
			}
			if made {
				r.ok("DROP TABLE pairs")
			}
			if got != want {
				t.Errorf("%s of %s: got %s, and docs/sql.md says %s (%+v)", name, p.query, got, want, end.Error)
			}
		}
		if p.duckdb == p.trino {
			t.Errorf("%s is the same in both, and no row of the table", p.query)
		}
	}
}

// A view is read in the dialect that it was written in. The other engine reports why it does not
// read it.
func trinoViews(t *testing.T, r trinoRig) {
	r.changes("CREATE TABLE viewed AS SELECT 1 AS n")
	r.ok("CREATE VIEW by_catalog AS SELECT n / 2 AS half FROM viewed")
	require.Equal(t, []string{"0.5"}, r.ok("SELECT * FROM by_catalog"))
	require.Contains(t, r.failsTrino("SELECT * FROM by_catalog").Message, "duckdb")

	require.Empty(t, r.okTrino("CREATE VIEW by_trino AS SELECT n / 2 AS half FROM viewed"))
	require.Equal(t, []string{"0"}, r.okTrino("SELECT * FROM by_trino"))
	require.Contains(t, r.fails("SELECT * FROM by_trino").Message, "is written for trino")
}
