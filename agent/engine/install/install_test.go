package install

import (
	"archive/tar"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestInstalledFromFilesAndTrimmed(t *testing.T) {
	f := newFixture(t).withFiles()
	got := f.installed()
	require.Equal(t, filepath.Join(f.Dir, "java-25.0.2.1", "bin", "java"), got.Java)
	require.Equal(t, "25.0.2", got.JavaVersion)
	found, err := find(f.Dir, "476")
	require.NoError(t, err)
	require.Equal(t, got, found)
	b, err := os.ReadFile(filepath.Join(got.Dir, recordFile))
	require.NoError(t, err)
	var r map[string]any
	require.NoError(t, json.Unmarshal(b, &r))
	require.Equal(t, "476", r["version"])
	require.Equal(t, sumOf(f.archive), r["sha256"])
	require.Equal(t, "java-25.0.2.1/bin/java", r["java"])
	require.NotEmpty(t, r["installed_at"])
	moved := filepath.Join(t.TempDir(), "moved")
	require.NoError(t, os.Rename(f.Dir, moved))
	found, err = find(moved, "476")
	require.NoError(t, err)
	require.Equal(t, Trino{Dir: moved + "/trino-476", Version: "476", Java: moved + "/java-25.0.2.1/bin/java", JavaVersion: "25.0.2"}, found)
}

func TestAnInstallationIsNotMadeAgain(t *testing.T) {
	f := newFixture(t).withFiles()
	got := f.installed()
	f = f.again(func(i *installer) { i.File, i.JavaFile = "/gone", "" })
	require.Equal(t, got, f.installed())
	require.Contains(t, f.said.String(), "Trino 476 is installed in "+f.home())
	if os.Geteuid() == 0 {
		require.Contains(t, f.said.String(), "Other users cannot pass through")
	}
}

func TestOtherUsersRunWhatWasInstalledWhateverTheUmask(t *testing.T) {
	f := newFixture(t).withFiles()
	before := syscall.Umask(0o077)
	defer syscall.Umask(before)
	got := f.installed()
	for path, mode := range map[string]os.FileMode{
		filepath.Dir(f.Dir): 0o711, f.Dir: 0o755, got.Dir: 0o755, got.Dir + "/plugin/iceberg/hdfs": 0o755, got.Dir + "/" + recordFile: 0o644, got.Dir + "/NOTICE": 0o644,
		got.Dir + "/bin/launcher": 0o755, got.Dir + "/plugin/iceberg/shared.jar": 0o644, got.Java: 0o755, f.Dir + "/java-25.0.2.1/lib/jspawnhelper": 0o755,
		f.Dir + "/java-25.0.2.1/lib/modules": 0o644,
	} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), path)
	}
	if os.Geteuid() != 0 {
		return
	}
	require.Contains(t, f.said.String(), "Other users cannot pass through")
	for dir := filepath.Dir(f.Dir); barrier(dir+"/x") != ""; dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o711))
	}
	cmd := exec.Command(got.Java)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 61999, Gid: 61999}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err)
	require.Contains(t, string(out), "25.0.2")
}

func TestHostileArchivesAreRefused(t *testing.T) {
	top := "trino-server-476/"
	for name, e := range map[string]entry{
		"a name that leads out":        file("../evil", "x"),
		"a name that leads far out":    file(top+"../../../../evil", "x"),
		"an absolute name":             file("/tmp/evil", "x"),
		"the directory as a file":      file("trino-server-476", "x"),
		"a file that is there":         file(top+"NOTICE", "again"),
		"a file through a file":        file(top+"NOTICE/evil", "x"),
		"a symbolic link":              {tar.Header{Typeflag: tar.TypeSymlink, Name: top + "lib/evil", Linkname: "/etc"}, ""},
		"a device":                     {tar.Header{Typeflag: tar.TypeChar, Name: top + "lib/evil", Devmajor: 1, Devminor: 3}, ""},
		"a disk":                       {tar.Header{Typeflag: tar.TypeBlock, Name: top + "lib/evil", Devmajor: 8}, ""},
		"a pipe":                       {tar.Header{Typeflag: tar.TypeFifo, Name: top + "lib/evil"}, ""},
		"a link to an absolute path":   hardLink(top+"lib/evil", "/etc/passwd"),
		"a link that leads out":        hardLink(top+"lib/evil", "../../../../etc/passwd"),
		"a link to nothing":            hardLink(top+"lib/evil", top+"lib/none"),
		"a link to a directory":        hardLink(top+"lib/evil", top+"lib"),
		"a link from an absolute path": hardLink("/tmp/evil", top+"NOTICE"),
		"a link in place of a file":    hardLink(top+"bin/launcher", top+"NOTICE"),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t).withJava()
			f.archive = tarball(t, append(server(), e)...)
			pin(&f.pins.trino, f.archive)
			f.File = f.put("trino.tar.gz", f.archive)
			require.ErrorContains(t, f.fails(), "unpacking Trino from "+f.File)
			require.Equal(t, []string{"engines"}, names(t, filepath.Dir(f.Dir)))
			require.NoFileExists(t, "/tmp/evil")
		})
	}
}

func TestAHostileWheelIsRefused(t *testing.T) {
	for _, name := range []string{"../../../../evil", "/evil", "bin/java", "bin/link"} {
		f := newFixture(t).withFiles()
		f.pinWheel(wheel(t, "bin/java", name))
		require.ErrorContains(t, f.fails(), "unpacking the Java runtime 25.0.2.1 from "+f.JavaFile)
	}
}

func TestOnlyThePinnedArchivesAreUnpacked(t *testing.T) {
	f := newFixture(t).withFiles()
	other := append([]byte(nil), f.archive...)
	other[len(other)/2] ^= 1
	for text, b := range map[string][]byte{
		"is not the archive of Trino 476: its SHA-256 is " + sumOf(other): other,
		"it is another file, or incomplete":                               f.archive[:len(f.archive)-1],
	} {
		f := f.again(func(i *installer) { i.File = f.put("other.tar.gz", b) })
		require.ErrorContains(t, f.fails(), text)
		require.NotContains(t, f.said.String(), "Unpacking it ("+size(f.pins.trino.unpacked)+"), to keep")
	}
	wheel := append([]byte(nil), f.wheel...)
	wheel[len(wheel)/2] ^= 1
	err := f.again(func(i *installer) { i.Dir, i.JavaFile = filepath.Join(t.TempDir(), "e"), f.put("other.whl", wheel) }).fails()
	require.ErrorContains(t, err, "is not the archive of the Java runtime 25.0.2.1")
	require.ErrorContains(t, f.again(func(i *installer) { i.File = "/gone.tar.gz" }).fails(), "/gone.tar.gz")

	cut := f.archive[:len(f.archive)*2/3] // as if a broken archive were pinned
	f = f.again(func(i *installer) { pin(&i.pins.trino, cut); i.File = f.put("cut.tar.gz", cut) })
	require.ErrorContains(t, f.fails(), "unexpected EOF")
}

func TestAnInterruptedInstallationLeavesNothing(t *testing.T) {
	for _, step := range []string{"Checking", "Unpacking it"} {
		ctx, cancel := context.WithCancel(t.Context())
		f := newFixture(t).withFiles().withJava()
		f.JavaFile = ""
		f.said.on = func(line string) {
			if strings.HasPrefix(line, step) {
				cancel()
			}
		}
		_, err := f.run(ctx)
		require.ErrorIs(t, err, context.Canceled)
		f.hasNothing()
		f.again(nil).installed()
	}
}

func TestWhatAKilledInstallationHasLeftIsRemoved(t *testing.T) {
	f := newFixture(t).withFiles()
	require.NoError(t, os.MkdirAll(filepath.Join(f.Dir, tempPrefix+"1/tree/lib"), 0o755))
	f.installed()
}

func TestADamagedInstallationIsMadeAgain(t *testing.T) {
	f := newFixture(t).withFiles()
	got := f.installed()
	empty, jar, modules := filepath.Join(got.Dir, "lib", "empty"), filepath.Join(got.Dir, "lib", "trino-main-476.jar"), filepath.Join(f.Dir, "java-25.0.2.1", "lib", "modules")
	require.NoError(t, os.Remove(empty))
	f.again(nil).installed()
	require.FileExists(t, empty)
	require.NoError(t, os.Truncate(jar, 1))
	f.again(nil).installed()
	require.NoError(t, os.Remove(modules))
	_, err := f.again(func(i *installer) { i.JavaFile = "" }).run(t.Context())
	require.ErrorContains(t, err, "neither was pip", "it is missed")
	f.again(nil).installed()
	require.FileExists(t, modules)
	require.NoError(t, os.WriteFile(filepath.Join(got.Dir, recordFile), []byte("{"), 0o644))
	_, err = find(f.Dir, "476")
	require.ErrorIs(t, err, ErrNotInstalled)
	f.again(nil).installed()
}

func TestTwoInstallationsAtOnce(t *testing.T) {
	f := newFixture(t).withFiles()
	waiting, errs := make(chan struct{}), make(chan error, 1)
	second := f.again(func(i *installer) { i.JavaFile = "" })
	second.said.on = func(line string) {
		if strings.HasPrefix(line, "Waiting for another installation") {
			close(waiting)
		}
	}
	f.said.on = func(line string) {
		if strings.HasPrefix(line, "Unpacking it") && strings.HasSuffix(line, "used of it.\n") {
			go func() {
				_, err := second.run(t.Context())
				errs <- err
			}()
			select {
			case <-waiting:
			case <-time.After(time.Minute):
				t.Error("the second does not wait")
			}
		}
	}
	f.installed()
	require.NoError(t, <-errs)
	require.Contains(t, second.said.String(), "Trino 476 is installed in "+f.home(), "it found what the first has installed")
}

func TestTheDiskIsAskedFirst(t *testing.T) {
	f := newFixture(t).withFiles().withJava()
	f.JavaFile, f.pins.trino.unpacked = "", 936_655_091
	f.free = func(dir string) (int64, error) {
		require.Equal(t, f.Dir, dir)
		return 300_000_000, nil
	}
	require.ErrorContains(t, f.fails(), "installing Trino 476 needs 937 MB in "+f.Dir+", and 300 MB are free; make room there")
	f = f.again(func(i *installer) { i.File, i.pins.trino.size = "", 821_045_832 })
	require.ErrorContains(t, f.fails(), "installing Trino 476 needs 1.8 GB in "+f.Dir, "the archive too")
	free, err := freeSpace(t.TempDir())
	require.NoError(t, err)
	require.Positive(t, free)
}

func TestADirectoryThatCannotBeWrittenIsRefused(t *testing.T) {
	f := newFixture(t).withFiles()
	f.Dir = filepath.Join(f.put("file", nil), "engines")
	_, err := f.run(t.Context())
	require.ErrorContains(t, err, "the directory of engines cannot be created; choose another with --engines-dir")
	f.Dir = f.outside
	require.NoError(t, os.Mkdir(filepath.Join(f.Dir, lockFile), 0o755)) // nor may root open it
	_, err = f.run(t.Context())
	require.ErrorContains(t, err, "cannot install in "+f.Dir+"; run this as its owner, or choose another with --engines-dir")
}

func TestFlagsThatExclude(t *testing.T) {
	for _, o := range []Options{{}, {Dir: "x", Java: "a", JavaFile: "b"}} {
		_, err := InstallTrino(t.Context(), o)
		require.ErrorContains(t, err, "--")
	}
}

func TestFindSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	_, err := FindTrino(dir)
	require.ErrorIs(t, err, ErrNotInstalled)
	require.EqualError(t, err, "Trino 476 is not installed in "+dir+"; run `millpond engine install trino --engines-dir "+dir+"`")
	f := newFixture(t).withFiles()
	got := f.installed()
	require.NoError(t, os.Remove(got.Java))
	_, err = find(f.Dir, "476")
	require.ErrorIs(t, err, ErrNotInstalled)
	require.ErrorContains(t, err, "the Java that Trino was installed with, "+got.Java+", is missing, or this user cannot run it; run `millpond engine install trino")
}

func TestList(t *testing.T) {
	all, err := List(filepath.Join(t.TempDir(), "none"))
	require.NoError(t, err)
	require.Empty(t, all)
	f := newFixture(t).withFiles()
	got := f.installed()
	all, err = List(f.Dir)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.NotZero(t, all[0].InstalledAt)
	java := int64(3 * len(javaScript("25.0.2")))
	server := int64(len("notice#!/bin/sh\nmainshared") + 7e5) // links to one file count once
	require.Equal(t, Installed{
		Engine: "trino", Version: "476", Dir: got.Dir, Java: got.Java, JavaVersion: "25.0.2", Bytes: server + java, InstalledAt: all[0].InstalledAt,
	}, all[0])
}

// recording is a Java that makes a startup cache as the JVM does: when it is asked to end.
const recording = `for a in "$@"; do case "$a" in -XX:AOTCacheOutput=*) made="${a#*=}" ;; esac; done
[ -n "$made" ] || exit 0
trap 'echo cache > "$made"; exit 143' TERM
echo "======== SERVER STARTED ========"
while :; do read -t 1 line < /dev/zero || :; done
`

// Trino is started once to record the classes that it loads. Another Java needs another recording.
func TestTheStartIsRecordedOnce(t *testing.T) {
	f := newFixture(t).withFiles()
	f.JavaFile = ""
	java := writeProgram(t, filepath.Join(f.outside, "java"), strings.Replace(javaScript("25.0.1"), "#!/bin/sh", "#!/bin/bash", 1)+recording)
	f.Java = java
	got, err := f.run(t.Context())
	require.NoError(t, err, f.said)
	require.Equal(t, filepath.Join(got.Dir, startupFile), got.StartupCache)
	require.Contains(t, f.said.String(), "Starting Trino once")
	info, err := os.Stat(got.StartupCache)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), info.Mode().Perm())

	f = f.again(func(i *installer) { i.File, i.Java = "", "" })
	again, err := f.run(t.Context())
	require.NoError(t, err)
	require.Equal(t, got, again, "the cache is no change to the installation")
	require.NotContains(t, f.said.String(), "Starting Trino once")

	f = f.again(func(i *installer) {
		i.Java = writeProgram(t, filepath.Join(f.outside, "other", "java"), javaScript("26.0.1"))
	})
	other, err := f.run(t.Context())
	require.NoError(t, err)
	require.Empty(t, other.StartupCache, "the former Java's cache is gone")
	require.Contains(t, f.said.String(), "so Trino starts slower: it ended before it had started (exit status 0)")
	require.NoFileExists(t, got.StartupCache)
	f = f.again(func(i *installer) { i.Java = "" })
	_, err = f.run(t.Context())
	require.NoError(t, err)
	require.NotContains(t, f.said.String(), "Starting Trino once", "it is not tried in vain again")
}
