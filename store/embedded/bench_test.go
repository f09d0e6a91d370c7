package embedded

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The three ways to start, on disk and durable, as a server does.

func BenchmarkStartOnAFreshDirectory(b *testing.B) {
	for b.Loop() {
		s, err := Start(b.Context(), Options{Dir: dataDir(b)})
		require.NoError(b, err)
		b.StopTimer()
		closeServer(b, s)
		b.StartTimer()
	}
}

func BenchmarkStartOnAnExistingDirectory(b *testing.B) {
	dir := dataDir(b)
	s, err := Start(b.Context(), Options{Dir: dir})
	require.NoError(b, err)
	closeServer(b, s)
	for b.Loop() {
		s, err := Start(b.Context(), Options{Dir: dir})
		require.NoError(b, err)
		b.StopTimer()
		closeServer(b, s)
		b.StartTimer()
	}
}

func BenchmarkAdopt(b *testing.B) {
	dir := dataDir(b)
	s, err := Start(b.Context(), Options{Dir: dir})
	require.NoError(b, err)
	defer closeServer(b, s)
	for b.Loop() {
		_, err := Start(b.Context(), Options{Dir: dir})
		require.NoError(b, err)
	}
}
