package enginetest

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// python is PyIceberg in a separate process.
type python struct {
	t      testing.TB
	orders io.Writer
	said   *bufio.Scanner
	errors *bytes.Buffer
}

func newPython(t testing.TB, r *rig) *python {
	made, err := exec.Command("../../../scripts/pyiceberg.sh").Output()
	require.NoError(t, err, "PyIceberg for the tests: scripts/pyiceberg.sh")
	cmd := exec.CommandContext(t.Context(), filepath.Join(strings.TrimSpace(string(made)), "bin", "python"), "testdata/client.py", r.catalog.URL, r.catalog.WriteToken)
	cmd.Env = append(os.Environ(), "PYTHONWARNINGS=ignore", "PYICEBERG_HOME="+t.TempDir(), "PYTHONDONTWRITEBYTECODE=1")
	p := &python{t: t, errors: &bytes.Buffer{}}
	cmd.Stderr = p.errors
	orders, err := cmd.StdinPipe()
	require.NoError(t, err)
	said, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = orders.Close(); _ = cmd.Wait() })
	p.orders, p.said = orders, bufio.NewScanner(said)
	return p
}

// of returns the client for a subtest.
func (p *python) of(t testing.TB) *python { return &python{t, p.orders, p.said, p.errors} }

func (p *python) order(b []byte) {
	p.t.Helper()
	_, err := p.orders.Write(append(b, '\n'))
	require.NoError(p.t, err)
	require.True(p.t, p.said.Scan(), "PyIceberg has ended: %s", p.errors)
	require.Equal(p.t, "{}", p.said.Text(), string(b))
}
