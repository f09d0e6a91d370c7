package domain

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNames(t *testing.T) {
	for in, want := range map[string]string{
		"nightly": "nightly", "  nightly\n": "nightly", "Bücher 本 🐧": "Bücher 本 🐧", "a'); DROP TABLE jobs; --": "a'); DROP TABLE jobs; --",
		"<script>": "<script>", strings.Repeat("本", 128): strings.Repeat("本", 128), "%_\\": "%_\\",
	} {
		got, err := ValidName("name", in)
		require.NoError(t, err, "%q", in)
		require.Equal(t, want, got)
	}
	for _, in := range []string{
		"", " \t\n", "a\x00b", "a\nb", "a\x1b[31mb", "\xff\xfe", "abc\u202edef", "zero\u200bwidth", "a\u00a0b", "\ufeffbom", strings.Repeat("x", 129),
	} {
		_, err := ValidName("name", in)
		require.True(t, IsCode(err, CodeInvalid), "%q: %v", in, err)
		require.Equal(t, "name", AsError(err).Field)
	}
	got, err := OptionalName("name", " ")
	require.NoError(t, err)
	require.Empty(t, got)
}

// TestProseHidesNothing checks that a description is shown as it is written.
func TestProseHidesNothing(t *testing.T) {
	for _, s := range []string{"", "two\nlines\r\n\tand a tab", "שלום עולם", "👩‍👩‍👧 é"} {
		require.NoError(t, ValidProse("description", s, 10_000), "%q", s)
	}
	for _, s := range []string{"x\u202eevil", "\u2066x\u2069", "\x1b[31m", "\a", "\u0085", "\x7f", "\x00"} {
		require.True(t, IsCode(ValidProse("description", s, 10_000), CodeInvalid), "%q", s)
	}
}
