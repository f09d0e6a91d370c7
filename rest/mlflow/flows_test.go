package mlflow_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// later are the flows that need what the platform does not have yet.
var later = map[string]string{
	"autologging": "uploads a picture of the estimator: artifacts",
}

// TestFlowsOfTheRealClient runs the released MLflow client. A flow of later that passes must leave
// that list.
func TestFlowsOfTheRealClient(t *testing.T) {
	python := mlflowClient(t)
	w := newWorld(t)
	cmd := exec.CommandContext(t.Context(), python, "testdata/flows.py")
	cmd.Env = append(os.Environ(), "MLFLOW_TRACKING_URI="+w.url, "MLFLOW_TRACKING_TOKEN="+w.ours.editor, "PYTHONWARNINGS=ignore", "PYTHONDONTWRITEBYTECODE=1", "HOME="+t.TempDir())
	out, _ := cmd.CombinedOutput() // its status counts the flows of later too
	passed := 0
	for line := range strings.Lines(string(out)) {
		verdict, rest, _ := strings.Cut(line, " ")
		name, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
		name = strings.TrimSuffix(name, ":")
		_, isLater := later[name]
		switch verdict {
		case "ok":
			passed++
			require.False(t, isLater, "%s passes now: remove it from later", name)
		case "failed":
			require.True(t, isLater, "%s", out)
		}
	}
	require.GreaterOrEqual(t, passed, 12, "%s", out)
	require.NotContains(t, w.logged.String(), "request failed", "nothing goes wrong on our side")
	require.NotContains(t, w.logged.String(), "panicked")
}

// mlflowClient returns the Python of the environment with the MLflow client.
func mlflowClient(t *testing.T) string {
	t.Helper()
	pins, err := os.ReadFile("testdata/requirements.txt")
	require.NoError(t, err)
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	sum := sha256.Sum256(pins)
	dir := filepath.Join(cache, "millpond", "mlflow", hex.EncodeToString(sum[:])[:12])
	if _, err := os.Stat(filepath.Join(dir, ".complete")); err != nil {
		t.Fatalf("the MLflow client is not installed for the tests: run scripts/mlflow.sh, as make test-go does (%v)", err)
	}
	return filepath.Join(dir, "bin", "python")
}
