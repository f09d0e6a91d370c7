package storetest

import (
	"errors"
	"io"
	"os/exec"
	"syscall"
)

// The watchdog waits for a line from the test binary. If the pipe closes instead, the binary has
// died. Then the watchdog ends the cluster and removes its directory.
const watchdogScript = `
read -r word && [ "$word" = dismissed ] && exit 0
pid=$(head -n 1 "$1/postgres/postmaster.pid" 2>/dev/null) && kill -QUIT "$pid" 2>/dev/null
for _ in 1 2 3 4 5 6 7 8 9 10; do
	[ -n "$pid" ] && kill -0 "$pid" 2>/dev/null || break
	sleep 1
done
rm -rf -- "$1"
`

// watchdog ends the cluster when the test binary is killed.
type watchdog struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

func watch(dir string) (*watchdog, error) {
	cmd := exec.Command("/bin/sh", "-c", watchdogScript, "sh", dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a signal to the test's group must not reach it
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	return &watchdog{cmd: cmd, stdin: stdin}, cmd.Start()
}

// dismiss ends the watch after the cluster has stopped.
func (w *watchdog) dismiss() error {
	_, err := io.WriteString(w.stdin, "dismissed\n")
	return errors.Join(err, w.stdin.Close(), w.cmd.Wait())
}
