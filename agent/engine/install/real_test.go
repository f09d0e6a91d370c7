package install_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent/engine/install"
	"github.com/millpond/millpond/agent/engine/install/installtest"
)

func TestTheRealTrino(t *testing.T) {
	trino := installtest.Trino(t)
	require.Equal(t, "476", trino.Version)
	require.FileExists(t, trino.StartupCache)
	out, err := exec.CommandContext(t.Context(), trino.Java, "-version").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), trino.JavaVersion)
	for _, pattern := range []string{
		"bin/launcher", "lib/io.trino_trino-main-476.jar", "plugin/iceberg/*trino-iceberg-476*.jar", "plugin/iceberg/hdfs/*.jar", "plugin/spooling-filesystem/*.jar",
		"plugin/exchange-filesystem/*.jar", "secrets-plugin/*", "NOTICE",
	} {
		found, err := filepath.Glob(filepath.Join(trino.Dir, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, found, pattern)
	}
	again, err := install.InstallTrino(t.Context(), install.Options{Dir: installtest.Dir(t), File: "/none"})
	require.NoError(t, err, "it is whole")
	require.Equal(t, trino, again)
	all, err := install.List(installtest.Dir(t))
	require.NoError(t, err)
	require.Contains(t, sizes(all), "476")
	require.InDelta(t, 570e6, sizes(all)["476"], 70e6, "trimmed; with or without a Java of its own")
}

func sizes(all []install.Installed) map[string]int64 {
	m := map[string]int64{}
	for _, i := range all {
		m[i.Version] = i.Bytes
	}
	return m
}

func TestOtherUsersRunTheSharedTrino(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may run a process as another user")
	}
	trino := installtest.Shared(t)
	cmd := exec.CommandContext(t.Context(), trino.Java, "-cp", filepath.Join(trino.Dir, "lib", "*"), "-version")
	cmd.Dir, cmd.SysProcAttr = trino.Dir, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 61999, Gid: 61999}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}
