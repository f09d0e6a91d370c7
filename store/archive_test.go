package store_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

// damaged is an object store that returns spoilt objects.
type damaged struct {
	domain.Objects
	spoil func(object []byte) []byte // nil for a missing object
}

func (d *damaged) Get(ctx context.Context, key string) ([]byte, error) {
	object, err := d.Objects.Get(ctx, key)
	if d.spoil == nil || err != nil {
		return object, err
	}
	if object = d.spoil(object); object == nil {
		return nil, domain.NotFound("object", key)
	}
	return object, nil
}

func damages() map[string]func([]byte) []byte {
	return map[string]func([]byte) []byte{
		"missing":   func([]byte) []byte { return nil },
		"empty":     func([]byte) []byte { return []byte{} },
		"cut":       func(o []byte) []byte { return o[:len(o)/2] },
		"a bit off": func(o []byte) []byte { c := bytes.Clone(o); c[len(c)/2] ^= 1; return c },
	}
}

// TestADamagedArchiveIsReadFromTheRows while they exist. After that it is an error, never other
// bytes.
func TestADamagedArchiveIsReadFromTheRows(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	w.connect("s", 10)
	objects := &damaged{Objects: w.services.Logs.Objects}
	w.services.Logs.Objects = objects
	log := noise(500_000)
	id := w.attempt()
	w.write(w.services.Logs.Writer(w.agent, "s"), id, 0, log)
	require.NoError(t, w.exit(id, 0))
	w.seal()
	for name, spoil := range damages() {
		objects.spoil = spoil
		require.True(t, bytes.Equal(log, w.whole(id, 0, 70_000)), name)
		require.True(t, bytes.Equal(log[12_345:], w.whole(id, 12_345, 70_000)), name)
	}
	execute(t, db, `DELETE FROM log_chunks`)
	for name, spoil := range damages() {
		objects.spoil = spoil
		_, err := w.services.Logs.Read(t.Context(), w.admin, id, 0, 1000)
		require.Error(t, err, name)
	}
	objects.spoil = nil
	require.True(t, bytes.Equal(log, w.whole(id, 0, 70_000)))
}

// TestNothingIsSealedThatDoesNotRead: an unreadable archive leaves the rows, and the next try
// works.
func TestNothingIsSealedThatDoesNotRead(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	w.connect("s", 10)
	objects := &damaged{Objects: w.services.Logs.Objects}
	w.services.Logs.Objects = objects
	id := w.attempt()
	w.write(w.services.Logs.Writer(w.agent, "s"), id, 0, noise(100_000))
	require.NoError(t, w.exit(id, 0))
	for name, spoil := range damages() {
		objects.spoil = spoil
		require.ErrorContains(t, w.services.Logs.Seal(t.Context(), w.system), "does not read back as written", name)
	}
	require.Zero(t, count(t, db, `SELECT count(*) FROM log_segments`))
	require.Zero(t, count(t, db, `SELECT count(*) FROM attempts WHERE log_sealed`))
	objects.spoil = nil
	w.seal()
	require.Equal(t, 1, count(t, db, `SELECT count(*) FROM attempts WHERE log_sealed`))
}
