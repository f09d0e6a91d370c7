package install

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheVersionsOfJava(t *testing.T) {
	for _, c := range []struct {
		said    string
		version string
		major   int
		home    string
		fails   bool
	}{
		{said: "Property settings:\n    java.home = /opt/jdk\n    java.specification.version = 25\n    java.version = 25.0.2\n    java.version.date = 2026-01-20\n", version: "25.0.2", major: 25, home: "/opt/jdk"},
		{said: "    java.specification.version = 24\n    java.version = 24\n", version: "24", major: 24},
		{said: "    java.specification.version = 26\n    java.version = 26-ea\n", version: "26-ea", major: 26},
		{said: "    java.specification.version = 1.8\r\n    java.version = 1.8.0_402\r\n", version: "1.8.0_402", major: 8},
		{said: "Picked up JAVA_TOOL_OPTIONS: -Da=b=c\n    java.home = /a = b\n    java.specification.version = 25\n    java.version = 25\n", version: "25", major: 25, home: "/a = b"},
		{said: "openjdk version \"25.0.2\" 2026-01-20 LTS\n", fails: true},
		{said: "    java.specification.version = next\n    java.version = 25\n", fails: true},
		{said: "", fails: true},
	} {
		version, major, home, err := parseJava([]byte(c.said))
		require.Equal(t, c.fails, err != nil, c.said)
		require.Equal(t, []any{c.version, c.major, c.home}, []any{version, major, home}, c.said)
	}
}

func TestTheMachinesOwnJavaIsTakenWhereItIsNewEnough(t *testing.T) {
	f := newFixture(t).withFiles().withJava()
	f.JavaFile = ""
	got := f.installed()
	require.Equal(t, filepath.Join(f.bin, "java"), got.Java)
	require.Equal(t, "25.0.1", got.JavaVersion)

	home := t.TempDir()
	t.Setenv("JAVA_HOME", home)
	real := writeProgram(t, filepath.Join(t.TempDir(), "jdk", "bin", "java"), javaScript("26"))
	writeProgram(t, filepath.Join(home, "bin", "java"), javaScript("26")+"echo '    java.home = "+filepath.Dir(filepath.Dir(real))+"'\n")
	f = f.again(func(i *installer) { i.Dir = filepath.Join(t.TempDir(), "engines") })
	got = f.installed()
	require.Equal(t, real, got.Java, "JAVA_HOME goes before the PATH, and what it leads to is noted")
	require.Equal(t, []string{lockFile, "trino-476"}, names(t, f.Dir))
}

func TestAnOldJavaIsPassedOver(t *testing.T) {
	f := newFixture(t).withFiles()
	f.JavaFile = ""
	t.Setenv("JAVA_HOME", t.TempDir())
	writeProgram(t, filepath.Join(f.bin, "java"), javaScript("1.8.0_402"))
	err := f.fails()
	require.ErrorContains(t, err, "no Java 24 or newer was found in JAVA_HOME and on the PATH, and neither was pip")
	require.ErrorContains(t, err, "--java-file")
	require.Contains(t, f.said.String(), "Java 1.8.0_402 at "+filepath.Join(f.bin, "java")+" is too old; Trino needs 24 or newer.")
	require.Contains(t, f.said.String(), "does not run")

	f = f.again(func(i *installer) { i.platform = "linux/riscv64" })
	require.ErrorContains(t, f.fails(), "there is no Java runtime to install for linux/riscv64; install Java 24 or newer and give the path of its java with --java")
}

func TestAGivenJavaIsTakenOrRefused(t *testing.T) {
	f := newFixture(t).withFiles().withJava()
	f.JavaFile = ""
	for script, want := range map[string]string{
		javaScript("23.0.1"):              "is 23.0.1, and Trino needs 24 or newer; give another with --java",
		"#!/bin/sh\necho broken; exit 3":  "does not run; give the path of a java binary with --java: exit status 3:\n  broken",
		"#!/bin/sh\necho 'I am no Java.'": "it does not report its version",
	} {
		java := writeProgram(t, filepath.Join(t.TempDir(), "java"), script)
		require.ErrorContains(t, f.again(func(i *installer) { i.Java = java }).fails(), want)
	}
	java := writeProgram(t, filepath.Join(t.TempDir(), "java"), javaScript("24.0.2"))
	link := filepath.Join(t.TempDir(), "java")
	require.NoError(t, os.Symlink(java, link))
	got := f.again(func(i *installer) { i.Java = link }).installed()
	require.Equal(t, link, got.Java, "as it was given")
	require.Equal(t, "24.0.2", got.JavaVersion)

	other := writeProgram(t, filepath.Join(t.TempDir(), "java"), javaScript("26.0.1"))
	f = f.again(func(i *installer) { i.Java, i.File = other, "/gone" })
	require.Equal(t, other, f.installed().Java)
	require.Contains(t, f.said.String(), "with Java 26.0.1 at "+other)

	require.NoError(t, os.Remove(other))
	f = f.again(func(i *installer) { i.Java, i.File = "", "/gone" })
	require.Equal(t, filepath.Join(f.bin, "java"), f.installed().Java, "where the Java is gone, another is looked for, and the server stays")
}

func TestTheRuntimeIsKeptForTheNextInstallation(t *testing.T) {
	f := newFixture(t).withFiles()
	f.File = "/gone"
	require.ErrorContains(t, f.fails(), "/gone")
	require.Contains(t, names(t, f.Dir), "java-25.0.2.1")
	f = f.again(func(i *installer) { i.File, i.JavaFile = filepath.Join(f.outside, "trino.tar.gz"), "" })
	f.installed()
}

func TestARuntimeThatDoesNotRunIsNotInstalled(t *testing.T) {
	f := newFixture(t).withFiles()
	f.pinWheel(wheel(t, "bin/javac"))
	require.ErrorContains(t, f.fails(), "the Java runtime 25.0.2.1 does not run here; install Java 24 or newer")
	require.NotContains(t, names(t, f.Dir), "java-25.0.2.1")
}
