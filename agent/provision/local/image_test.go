package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

// binaryOf copies the test's own binary with extra bytes, so that it is another image.
func binaryOf(t *testing.T, dir, extra string) string {
	b, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	path := filepath.Join(dir, "millpond")
	require.NoError(t, os.WriteFile(path+".next", append(b, extra...), 0o700))
	require.NoError(t, os.Rename(path+".next", path))
	return path
}

func stored(t *testing.T, h *house) []string {
	found, err := filepath.Glob(filepath.Join(h.dir, "images", "*"))
	require.NoError(t, err)
	return found
}

func TestAPinnedImageOutlivesAnUpgrade(t *testing.T) {
	dir := t.TempDir()
	h := newHouse(t, func(h *house) { h.options.Binary = binaryOf(t, dir, "old") })
	s := h.spec("cmp_a", 1)
	require.Regexp(t, `^millpond:v1@sha256:[0-9a-f]{64}$`, s.ImageRef)
	h.ensure(s)
	binaryOf(t, dir, "new")
	h.options.Version = "v2"
	h.reopen()
	upgraded := h.spec("cmp_b", 1)
	require.Contains(t, upgraded.ImageRef, "millpond:v2@")
	h.ensure(upgraded)
	require.Len(t, stored(t, h), 2)
	s.Incarnation = 2
	h.ensure(s)
	exe, err := os.Readlink("/proc/" + strings.Fields(h.agents(s.Machine)[0])[0] + "/exe")
	require.NoError(t, err)
	require.Contains(t, exe, strings.TrimPrefix(s.ImageRef, "millpond:v1@sha256:"))
	for _, image := range []string{"default", "millpond", "millpond:v2", upgraded.ImageRef} {
		ref, err := h.Resolve(t.Context(), settings, image)
		require.NoError(t, err)
		require.Equal(t, upgraded.ImageRef, ref)
	}
	_, err = h.Resolve(t.Context(), settings, "millpond:v1")
	require.True(t, domain.IsCode(err, domain.CodeInvalid))
	require.Contains(t, err.Error(), "millpond:v2")

	require.NoError(t, h.Release(t.Context(), s.Ref))
	require.NoError(t, h.Remove(t.Context(), upgraded.Ref))
	require.Len(t, stored(t, h), 2, "a machine that is stopped keeps its image")
	require.NoError(t, h.Remove(t.Context(), s.Ref))
	require.Len(t, stored(t, h), 1, "the next machine's image stays")
}

func TestADamagedImageIsNotRun(t *testing.T) {
	dir := t.TempDir()
	h := newHouse(t, func(h *house) { h.options.Binary = binaryOf(t, dir, "old") })
	s := h.spec("cmp_a", 1)
	image := filepath.Join(stored(t, h)[0], "millpond")
	damage := func() {
		require.NoError(t, os.Chmod(image, 0o700))
		require.NoError(t, os.WriteFile(image, []byte("#!/bin/sh\nexit 0\n"), 0o700))
	}
	damage()
	h.ensure(s)
	info, err := os.Stat(image)
	require.NoError(t, err)
	require.Greater(t, info.Size(), int64(1000), "the server's own binary is stored again")
	require.NoError(t, h.Release(t.Context(), s.Ref))

	binaryOf(t, dir, "new")
	damage()
	s.Incarnation = 2
	err = h.Ensure(t.Context(), s)
	require.True(t, domain.IsCode(err, domain.CodeInvalid))
	require.Contains(t, err.Error(), "update the machine's image while it is stopped")
	require.Empty(t, h.agents(s.Machine))
	s.ImageRef = h.spec("cmp_a", 2).ImageRef
	h.ensure(s)
}

func TestAReferenceTellsTheTrueVersion(t *testing.T) {
	dir := t.TempDir()
	h := newHouse(t, func(h *house) { h.options.Binary = binaryOf(t, dir, "old") })
	s := h.spec("cmp_a", 1)
	h.ensure(s)
	binaryOf(t, dir, "new")
	h.options.Version = "v2"
	h.reopen()
	for _, truth := range []string{s.ImageRef, h.spec("cmp_a", 1).ImageRef} {
		ref, err := h.Resolve(t.Context(), settings, truth)
		require.NoError(t, err)
		require.Equal(t, truth, ref)
		_, sum, _ := strings.Cut(truth, "@")
		_, err = h.Resolve(t.Context(), settings, "millpond:v9@"+sum)
		require.True(t, domain.IsCode(err, domain.CodeInvalid), "%v", err)
		require.Contains(t, err.Error(), truth)
	}
	for _, image := range stored(t, h) {
		require.NoError(t, os.Remove(filepath.Join(image, versionFile)))
	}
	_, err := h.Resolve(t.Context(), settings, s.ImageRef)
	require.True(t, domain.IsCode(err, domain.CodeInvalid), "nobody knows its version any more")
	current := h.spec("cmp_a", 1).ImageRef
	ref, err := h.Resolve(t.Context(), settings, current)
	require.NoError(t, err)
	require.Equal(t, current, ref, "the server knows its own")
}
