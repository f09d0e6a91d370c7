package main

import (
	"context"
	"database/sql"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/storetest"
)

// TestHourlyWorkIsHourly: it is woken by nothing, not even by what wakes every topic, such as a lost connection and the safety tick.
func TestHourlyWorkIsHourly(t *testing.T) {
	dsn := storetest.Database(t, store.Migrate)
	opened, err := store.Open(t.Context(), dsn, store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opened.Close()) })
	db, err := sql.Open("postgres", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	s := &server{log: slog.New(slog.DiscardHandler), store: opened}
	ctx, stop := context.WithCancel(t.Context())
	var hourly, woken atomic.Int32
	var loops sync.WaitGroup
	loops.Go(func() {
		s.every(ctx, "hourly", time.Hour, func(context.Context) error { hourly.Add(1); return nil })
	})
	loops.Go(func() {
		s.loop(ctx, "woken", time.Hour, "topic", func(context.Context) (time.Time, error) { woken.Add(1); return time.Time{}, nil })
	})
	require.Eventually(t, func() bool { return hourly.Load() == 1 && woken.Load() == 1 }, time.Minute, time.Millisecond)
	for n := range int32(3) {
		_, err := db.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return woken.Load() >= n+2 }, time.Minute, time.Millisecond)
	}
	require.EqualValues(t, 1, hourly.Load())
	stop()
	loops.Wait()
}
