package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/worker/shim"
)

// pipeSize is the requested size of a pipe, so that a process that writes much rarely blocks. The
// kernel may give less. Without root, all pipes of a user share 64 MiB, enough for 128 attempts.
const pipeSize = 256 << 10

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

var attemptID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// invalidError means that the request is invalid: nothing was changed.
type invalidError struct{ message string }

func (e invalidError) Error() string { return e.message }

func invalid(format string, args ...any) error { return invalidError{fmt.Sprintf(format, args...)} }

// checkAttempt refuses an attempt that could reach outside its directory or cannot be started.
func checkAttempt(a *agent.Attempt) error {
	if !attemptID.MatchString(a.ID) {
		return invalid("The attempt's id %q is invalid: use letters, digits, _ and -, at most 64.", a.ID)
	}
	if strings.ContainsRune(a.Command, 0) {
		return invalid("The command contains a NUL byte; remove it.")
	}
	for k, v := range a.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			return invalid("The environment variable %q cannot be set: its name must not be empty or contain =, and neither name nor value a NUL byte.", k)
		}
	}
	for _, f := range a.Files {
		if !filepath.IsLocal(f.Path) || path.Clean(f.Path) != f.Path || f.Path == "." || strings.ContainsRune(f.Path, 0) {
			return invalid("The file name %q is not a plain relative path inside the working directory.", f.Path)
		}
		if f.Path == shim.TempDir || strings.HasPrefix(f.Path, shim.TempDir+"/") {
			return invalid("The file name %q is taken by the directory for temporary files; choose another.", f.Path)
		}
	}
	if a.GraceSeconds < 0 || a.TimeoutSeconds < 0 || a.LogLimit < 0 {
		return invalid("The attempt has a negative time or limit.")
	}
	return nil
}

// create creates the attempt's directory. On an error it leaves nothing.
func (w *worker) create(in agent.Attempt) (_ *attempt, err error) {
	if err := checkAttempt(&in); err != nil {
		return nil, err
	}
	if err := w.checkShared(in.Env); err != nil {
		return nil, err
	}
	in.LogLimit = w.options.logLimit(in.LogLimit)
	a := newAttempt(filepath.Join(w.attemptsDir(), in.ID), shim.Spec{Attempt: in, Directory: w.directory.ID, SpoolLimit: w.options.SpoolLimit})
	defer func() {
		if err != nil {
			w.discard(a)
		}
	}()
	if w.users != nil {
		if a.user, err = w.users.take(); err != nil {
			return nil, err
		}
		a.spec.User, a.spec.Groups, a.spec.PrivateDirs = a.user.id, w.taskGroups(), w.private
	}
	if w.cgroup != "" {
		a.spec.Cgroup = cgroupOf(w.cgroup, w.options.Dir, in.ID)
		if os.Mkdir(a.spec.Cgroup, 0o755) != nil {
			a.spec.Cgroup = ""
		}
	}
	if err := w.layOut(a); err != nil {
		return nil, fmt.Errorf("preparing the attempt's directory: %w", err)
	}
	a.spec.Environ = w.environ(a)
	a.spec.Files, a.spec.Env = nil, nil
	if err := shim.WriteJSON(filepath.Join(a.dir, shim.SpecFile), a.spec); err != nil {
		return nil, fmt.Errorf("writing the attempt's description: %w", err)
	}
	return a, a.openLog()
}

func (w *worker) layOut(a *attempt) error {
	work := filepath.Join(a.dir, shim.WorkDir)
	if err := os.Mkdir(a.dir, 0o711); err != nil {
		return err
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(work, shim.TempDir), 0o700); err != nil {
		return err
	}
	for _, f := range a.spec.Files {
		if err := layFile(work, f); err != nil {
			return err
		}
	}
	if a.user == nil {
		return nil
	}
	return filepath.WalkDir(work, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, int(a.user.id), int(a.user.id))
	})
}

// layFile is called before the process exists, so no link can redirect it.
func layFile(work string, f agent.File) error {
	name := filepath.Join(work, filepath.FromSlash(f.Path))
	err := os.MkdirAll(filepath.Dir(name), 0o755)
	var file *os.File
	if err == nil {
		file, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if errors.Is(err, fs.ErrExist) || errors.Is(err, unix.EISDIR) {
		return invalid("The file name %q is there twice, or as a directory too.", f.Path)
	}
	if errors.Is(err, unix.ENOTDIR) {
		return invalid("The file name %q lies in another file.", f.Path)
	}
	if err != nil {
		return err
	}
	_, err = file.Write(f.Data)
	return errors.Join(err, file.Chmod(fs.FileMode(f.Mode)&fs.ModePerm), file.Close())
}

// gpuVariables name this machine's GPUs among its host's GPUs. Tasks use only these.
var gpuVariables = []string{"CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"}

// environ is the complete environment of the attempt's process. From the agent's own it has only
// the search path, with this program last, and the GPU variables.
func (w *worker) environ(a *attempt) []string {
	work := filepath.Join(a.dir, shim.WorkDir)
	name := w.userName
	if a.user != nil {
		name = fmt.Sprintf("task-%d", a.user.id)
	}
	vars := map[string]string{
		"PATH": w.path, "HOME": work, "TMPDIR": filepath.Join(work, shim.TempDir), "USER": name, "LANG": "C.UTF-8",
	}
	for _, name := range gpuVariables {
		if v, given := os.LookupEnv(name); given {
			vars[name] = v
		}
	}
	maps.Copy(vars, a.spec.Env)
	vars["PATH"] = strings.TrimPrefix(vars["PATH"]+":"+w.binDir(), ":")
	vars[marker], vars[directoryMarker] = a.id, a.spec.Directory
	if shared := w.sharedPath(); shared != "" {
		vars[sharedVariable] = shared
	}
	environ := make([]string, 0, len(vars))
	for k, v := range vars {
		environ = append(environ, k+"="+v)
	}
	slices.Sort(environ)
	return environ
}

// launch passes the attempt to a shim.
func (w *worker) launch(a *attempt) error {
	files := make([]int, shim.FileUserLock, shim.MaxFiles)
	for i := range files {
		files[i] = -1
	}
	defer func() {
		for _, i := range []int{shim.FileListener, shim.FileStdoutWrite, shim.FileStderrWrite, shim.FileShared} {
			if files[i] >= 0 {
				unix.Close(files[i])
			}
		}
	}()
	if err := a.makePipes(files); err != nil {
		return err
	}
	if err := removeIfThere(filepath.Join(a.dir, shim.SocketFile)); err != nil {
		return err
	}
	var err error
	if files[shim.FileListener], err = listenIn(a.dir); err != nil {
		return err
	}
	send := files
	if a.user != nil {
		send = append(send, int(a.user.lock.Fd()))
	}
	return w.handOver(a, send)
}

// makePipes creates the pipes and the page of memory that the attempt shares with a new shim.
func (a *attempt) makePipes(files []int) (err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closePipes()
	for i, ends := range [2][2]int{{shim.FileStdoutRead, shim.FileStdoutWrite}, {shim.FileStderrRead, shim.FileStderrWrite}} {
		if a.pipes[i], files[ends[1]], err = makePipe(a.user); err != nil {
			return err
		}
		files[ends[0]] = a.pipes[i]
	}
	memory, fd, err := shim.NewShared()
	if err != nil {
		return err
	}
	files[shim.FileShared] = fd
	a.share(memory)
	return nil
}

// handOver sends the attempt to a shim. It skips shims that died while they were idle.
func (w *worker) handOver(a *attempt, files []int) error {
	for tries := 0; ; tries++ {
		l, err := w.pool.take()
		if err != nil {
			return err
		}
		a.mu.Lock()
		a.link = l
		a.mu.Unlock()
		// The lease is read after the link is set: for a listed attempt, a later renewal finds the
		// link.
		a.leased = w.killAt()
		err = l.send(shim.Order{Start: &shim.StartOrder{Dir: a.dir, KillAt: a.leased}}, files...)
		if err == nil {
			return nil
		}
		l.destroy()
		if tries == startingRetries {
			return fmt.Errorf("handing the attempt to a shim: %w", err)
		}
	}
}

func makePipe(u *user) (read, write int, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return -1, -1, fmt.Errorf("making a pipe: %w", err)
	}
	_, _ = unix.FcntlInt(uintptr(p[0]), unix.F_SETPIPE_SZ, pipeSize)
	if u != nil {
		// Without this the process could not open /dev/stdout.
		if err := unix.Fchown(p[1], int(u.id), int(u.id)); err != nil {
			unix.Close(p[0])
			unix.Close(p[1])
			return -1, -1, fmt.Errorf("giving a pipe to the task's user: %w", err)
		}
	}
	return p[0], p[1], nil
}

func readSpec(dir string) (shim.Spec, error) {
	var s shim.Spec
	b, err := os.ReadFile(filepath.Join(dir, shim.SpecFile))
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(b, &s)
}
