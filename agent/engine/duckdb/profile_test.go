package duckdb

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestColumnsOfFilters(t *testing.T) {
	for filter, want := range map[string][]string{
		"b='x'": {"b"}, "d>='2020-01-01'::DATE": {"d"}, "s.y>1": {"s.y"}, "((d + 1) > '2020-01-02'::DATE)": {"d"}, "z>='x' AND z<'y'": {"z", "z"}, "(lower(Z) = 'x')": {"Z"},
		"a IS NOT NULL": {"a"}, "a IN ('p', 'q')": {"a"}, "a=1.5::DECIMAL(3,1)": {"a"}, "(a = b)": {"a", "b"}, "(a < -5)": {"a"},
	} {
		got, ok := columnsOfFilter(filter)
		require.True(t, ok, filter)
		require.Equal(t, want, got, filter)
	}
	for _, filter := range []string{"my col>1", "a-b>1", "a b='x'", "50%>1 AND b%c=1"} {
		_, ok := columnsOfFilter(filter)
		require.False(t, ok, filter)
	}
}

func TestMapsAsText(t *testing.T) {
	require.Equal(t, map[string]string{"Function": "F", "Projections": "a\nmy col", "Filename(s)": `it's, \a`, "n": "1"}, parseMap(`{Function=F, Projections=a`+"\n"+`my col, 'Filename(s)'='it\'s, \\a', n=1}`))
	require.Empty(t, parseMap(""))
	require.NotPanics(t, func() { parseMap("{a"); parseMap("{'a"); parseMap("{a='b"); parseMap("{=,,}") })
}
