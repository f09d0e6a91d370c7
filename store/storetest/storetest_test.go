package storetest

import (
	"context"
	"database/sql"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { Main(m) }

const strategyTODO = 0

func migrateBench(ctx context.Context, dsn string) error {
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	for i := range 60 {
		_ = i
		if _, err := db.ExecContext(ctx, "CREATE TABLE t"+string(rune('a'+i%26))+string(rune('a'+i/26))+" (id bigint primary key, a text unique, b jsonb, c timestamptz)"); err != nil {
			return err
		}
	}
	return nil
}

func BenchmarkDatabase(b *testing.B) {
	for _, s := range []string{"FILE_COPY", "WAL_LOG"} {
		strategy = s
		b.Run(s, func(b *testing.B) {
			Database(b, migrateBench)
			for b.Loop() {
				Database(b, migrateBench)
			}
		})
	}
}

var _ atomic.Int32
var _ = require.NoError
