package enginetest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Writes with a condition that is never true change no row and do not end their process.
func TestWritesByAConditionThatIsNeverTrue(t *testing.T) {
	r := newRig(t)
	r.changes("CREATE TABLE t AS SELECT range AS a, 'v' || range AS b FROM range(3)")
	r.changes("CREATE TABLE empty (a BIGINT, b VARCHAR)")
	r.changes("CREATE VIEW one AS SELECT 1 AS a, 'one' AS b")
	for _, query := range []string{
		"UPDATE t SET b = 'x' WHERE NULL", "UPDATE t SET b = 'x' WHERE a = NULL", "UPDATE t SET b = 'x' WHERE false", "UPDATE t SET b = 'x' WHERE a = 1 AND a = 2",
		"UPDATE t SET b = 'x' WHERE a IN (SELECT a FROM empty WHERE NULL)", "UPDATE t SET b = 'x' FROM one WHERE NULL", "UPDATE t SET b = 'x' FROM (SELECT 1 AS n WHERE false) s WHERE s.n = t.a",
		"WITH w AS (SELECT 1 AS a WHERE NULL) UPDATE t SET b = 'x' FROM w WHERE w.a = t.a", "UPDATE empty SET b = 'x' WHERE NULL", "UPDATE empty SET b = 'x'",
		"DELETE FROM t WHERE NULL", "DELETE FROM t USING one WHERE NULL", "INSERT INTO t SELECT * FROM empty WHERE NULL",
		"MERGE INTO t USING empty e ON NULL WHEN MATCHED THEN UPDATE SET b = 'x'", "MERGE INTO t USING one ON NULL WHEN MATCHED THEN DELETE",
		"MERGE INTO t USING (SELECT 1 AS a WHERE false) s ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = 'x' WHEN NOT MATCHED THEN INSERT VALUES (s.a, 'n')",
		"MERGE INTO t USING one ON t.a = one.a WHEN MATCHED AND NULL THEN UPDATE SET b = 'x'",
	} {
		require.Zero(t, r.changes(query), query)
	}
	for _, query := range []string{"UPDATE t SET b = 'x' WHERE a = $1", "UPDATE t SET b = 'x' WHERE $1", "UPDATE t SET b = 'x' FROM one WHERE one.a = $1::BIGINT AND t.a = one.a"} {
		require.Zero(t, r.changes(query, nil), query)
	}
	rows := []string{"0|v0", "1|v1", "2|v2"}
	require.Equal(t, rows, r.ok("FROM t ORDER BY a"))

	for _, query := range []string{
		"MERGE INTO t USING (SELECT 7 AS a) s ON NULL WHEN MATCHED THEN UPDATE SET b = 'x' WHEN NOT MATCHED THEN INSERT VALUES (s.a, 'n')",
		"MERGE INTO t USING (SELECT 8 AS a) s ON t.a = s.a AND CASE WHEN t.a = 8 THEN t.a = 9 END -- never\n WHEN MATCHED THEN UPDATE SET b = 'x' WHEN NOT MATCHED THEN INSERT VALUES (s.a, 'n')",
		"MERGE INTO t USING (SELECT 9 AS a) s ON t.a = s.a AND t.a = 1 AND t.a = 2 WHEN MATCHED THEN UPDATE SET b = 'x' WHEN NOT MATCHED THEN INSERT VALUES (s.a, 'n')",
		"MERGE INTO t USING (SELECT a + 11 AS a FROM t WHERE a = 0) s ON NULL WHEN MATCHED THEN UPDATE SET b = 'x' WHEN NOT MATCHED THEN INSERT VALUES (s.a, 'n')",
		"MERGE INTO t USING (SELECT n.a + 9 AS a FROM one n JOIN one o ON n.a = o.a) s ON $1::BOOLEAN WHEN MATCHED THEN UPDATE SET b = 'x' WHEN NOT MATCHED THEN INSERT VALUES (s.a, 'n')",
	} {
		var parameters []any
		if query[len(query)-1] == ')' && slices.Contains([]byte(query), '$') {
			parameters = []any{nil}
		}
		require.EqualValues(t, 1, r.changes(query, parameters...), query)
	}
	require.Equal(t, append(rows, "7|n", "8|n", "9|n", "10|n", "11|n"), r.ok("FROM t ORDER BY a"))
	require.EqualValues(t, 1, r.changes("UPDATE t SET b = 'x' FROM one WHERE one.a = t.a AND t.a = $1", 1))
}
