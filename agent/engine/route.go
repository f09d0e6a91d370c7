package engine

import (
	"slices"
	"strings"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/duckdb"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// TrinoName is the name of the Trino engine in statements.
const TrinoName = "trino"

// routed is a statement with the engine that runs it.
type routed struct {
	class  sqltext.Class
	trino  bool   // it runs in Trino, otherwise in DuckDB or iceberg-go
	reason string // why that engine runs it
}

// route classifies a statement and chooses its engine. A statement runs in the engine that it
// names. Otherwise writes run in the warehouse's write engine and all else in DuckDB. Maintenance
// always runs in iceberg-go: Trino's procedures of those names do not apply the platform's rules.
// Views are stored in the catalog in DuckDB's dialect, which reads use.
func (e *Engine) route(s *agent.Statement) (routed, error) {
	switch {
	case s.Engine == TrinoName && e.trino == nil:
		return routed{}, sqltext.Refuse(-1, "This warehouse has no engine %q; it has %s. A warehouse whose write engine is Trino has both.", TrinoName, duckdb.Name)
	case s.Engine != "" && !slices.Contains(e.names(), s.Engine):
		return routed{}, sqltext.Refuse(-1, "This warehouse has no engine %q; it has %s.", sqltext.Cut(s.Engine, 40), strings.Join(e.names(), " and "))
	}
	c, err := sqltext.Classify(s.Query)
	chosen := routed{class: c}
	switch {
	case err != nil:
		return chosen, err
	case c.Operation() != "":
		chosen.reason = "Tables are maintained by iceberg-go on every warehouse."
	case s.Engine == TrinoName:
		chosen.trino, chosen.reason = true, "The request names Trino."
	case s.Engine == duckdb.Name:
		chosen.reason = "The request names DuckDB."
	case strings.HasSuffix(c.Kind, " VIEW"):
		chosen.reason = "Views are kept by the catalog, in DuckDB's dialect, which is that of reads."
	case c.Write && e.trino != nil:
		chosen.trino, chosen.reason = true, "The write engine of this warehouse is Trino."
	case c.Write:
		chosen.reason = "The write engine of this warehouse is DuckDB."
	default:
		chosen.reason = "DuckDB serves reads."
	}
	return chosen, nil
}

func (e *Engine) names() []string {
	if e.trino == nil {
		return []string{duckdb.Name}
	}
	return []string{duckdb.Name, TrinoName}
}
