package iceberg_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPyIceberg runs the released PyIceberg.
func TestPyIceberg(t *testing.T) {
	python := pyIceberg(t)
	w := newWorld(t)
	cmd := exec.CommandContext(t.Context(), python, "testdata/client.py", w.url, w.ours.key, w.ours.viewer, w.theirs.admin)
	cmd.Env = append(os.Environ(), "PYTHONWARNINGS=ignore", "PYICEBERG_HOME="+t.TempDir(), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err, "%s", out)
	require.NotContains(t, w.logged.String(), "request failed", "nothing goes wrong on our side")
	require.NotContains(t, w.logged.String(), "panicked")
}

// pyIceberg returns the Python of the environment with PyIceberg.
func pyIceberg(t *testing.T) string {
	t.Helper()
	pins, err := os.ReadFile("testdata/requirements.txt")
	require.NoError(t, err)
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	sum := sha256.Sum256(pins)
	dir := filepath.Join(cache, "millpond", "pyiceberg", hex.EncodeToString(sum[:])[:12])
	if _, err := os.Stat(filepath.Join(dir, ".complete")); err != nil {
		t.Fatalf("PyIceberg is not installed for the tests: run scripts/pyiceberg.sh, as make test-go does (%v)", err)
	}
	return filepath.Join(dir, "bin", "python")
}
