package domain

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLimits(t *testing.T) {
	for limit, want := range map[int]int{0: 50, 1: 1, 50: 50, 200: 200, -1: -1, 201: -1, 1 << 40: -1} {
		_, got, err := Page{Limit: limit}.After("jobs")
		if want < 0 {
			require.True(t, IsCode(err, CodeInvalid), "%d", limit)
			require.Equal(t, "limit", AsError(err).Field)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestACursorReadsOn(t *testing.T) {
	rows := []string{"e", "d", "c"}
	key := func(s string) string { return s }
	l := PageOf("letters", rows, 2, key)
	require.Equal(t, []string{"e", "d"}, l.Items)
	after, _, err := Page{Cursor: l.Next}.After("letters")
	require.NoError(t, err)
	require.Equal(t, "d", after)
	after, _, err = Page{Cursor: l.Cursor("e")}.After("letters")
	require.NoError(t, err)
	require.Equal(t, "e", after, "every item has a cursor")

	l = PageOf("letters", rows[:2], 2, key)
	require.Empty(t, l.Next, "a full page that is the last has none")
	require.Empty(t, PageOf("letters", nil, 2, key).Items)
}

func TestCursorsThatAreRefused(t *testing.T) {
	type filter struct {
		States []string
		Job    JobID
	}
	encode := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	running, failed := ListName("runs", filter{States: []string{"running"}}), ListName("runs", filter{States: []string{"failed"}})
	require.NotEqual(t, running, failed)
	require.NotEqual(t, ListName("runs", filter{Job: "job_1"}), ListName("runs", filter{}))
	for name, cursor := range map[string]string{
		"of another list":   encodeCursor("jobs", "job_1"),
		"of another filter": encodeCursor(failed, "run_1"),
		"not base 64":       "not base 64!",
		"not JSON":          encode("run_1"),
		"an array":          encode("[]"),
		"a number":          encode(`{"l":1}`),
		"cut":               encodeCursor(running, "run_1")[:9],
		"more behind":       encode(`{"l":"` + running + `","k":"a"}{}`),
		"NUL":               encodeCursor(running, "run_\x00"),
		"long":              encodeCursor(running, strings.Repeat("x", 10_000)),
		"padded":            base64.URLEncoding.EncodeToString([]byte(`{"l":"x","k":"yy"}`)),
	} {
		_, _, err := Page{Cursor: cursor}.After(running)
		require.True(t, IsCode(err, CodeInvalid), "%s: %v", name, err)
		require.Equal(t, "cursor", AsError(err).Field, name)
	}
}
