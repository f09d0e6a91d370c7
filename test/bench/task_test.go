package bench

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// taskEnv is the environment variable that makes this test binary the process of a task: lines or
// flood.
const taskEnv = "BENCH_TASK"

// lineBytes is the length of a line of the latency benchmarks' processes, its end included.
const lineBytes = 100

// writing describes the output of a task's process.
type writing struct {
	kind  string // lines or flood
	gate  string // it starts when nobody holds a lock on this file; empty for at once
	count int    // lines
	every time.Duration
	size  int  // bytes of a line
	greet bool // it writes one more line before it waits for the gate
}

func (w writing) environment() map[string]string {
	return map[string]string{
		taskEnv: w.kind, "BENCH_GATE": w.gate, "BENCH_COUNT": strconv.Itoa(w.count), "BENCH_EVERY": w.every.String(), "BENCH_SIZE": strconv.Itoa(w.size),
		"BENCH_GREET": strconv.FormatBool(w.greet),
		"GOMAXPROCS":  "1", "GOGC": "off", "GODEBUG": "asyncpreemptoff=1", // see lines
	}
}

func runTask(kind string) int {
	w := writing{kind: kind, gate: os.Getenv("BENCH_GATE"), greet: os.Getenv("BENCH_GREET") == "true"}
	var errs [3]error
	w.count, errs[0] = strconv.Atoi(os.Getenv("BENCH_COUNT"))
	w.size, errs[1] = strconv.Atoi(os.Getenv("BENCH_SIZE"))
	w.every, errs[2] = time.ParseDuration(os.Getenv("BENCH_EVERY"))
	for _, err := range errs {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
	}
	if w.greet {
		_, errs[0] = os.Stdout.Write(appendLine(nil, now(), 0, w.size))
	}
	err := errors.Join(errs[0], w.await())
	if err == nil {
		err = w.write()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// await waits for the lock on the gate without polling, because two hundred polling processes would
// be an additional load.
func (w writing) await() error {
	if w.gate == "" {
		return nil
	}
	file, err := os.Open(w.gate)
	if err != nil {
		return err
	}
	defer file.Close()
	return unix.Flock(int(file.Fd()), unix.LOCK_SH)
}

func (w writing) write() error {
	if w.kind == "flood" {
		return w.flood()
	}
	return w.lines()
}

// lines writes a line each interval, with its own offset, so that the processes do not write at the
// same moments. Two hundred of these share the machine with the platform. So it sleeps and writes
// by raw system calls, because the threads of Go's scheduler would cost several times as much as
// the platform.
func (w writing) lines() error {
	next := now() + rand.Int64N(int64(w.every))
	line := make([]byte, 0, w.size)
	for i := range w.count {
		sleepUntil(next)
		next += int64(w.every)
		line = appendLine(line[:0], now(), i, w.size)
		if n, _, errno := unix.RawSyscall(unix.SYS_WRITE, 1, uintptr(unsafe.Pointer(&line[0])), uintptr(len(line))); errno != 0 || int(n) != len(line) {
			return fmt.Errorf("writing line %d: %d bytes: %w", i, n, errno)
		}
	}
	return nil
}

// sleepUntil sleeps until a time of the clock of now.
func sleepUntil(at int64) {
	moment := unix.NsecToTimespec(at)
	for {
		_, _, errno := unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, uintptr(unsafe.Pointer(&moment)), 0, 0, 0)
		if errno != unix.EINTR {
			return
		}
	}
}

// floodBlock is the size of the flood's writes: the capacity of a pipe.
const floodBlock = 64 << 10

// flood writes all lines as fast as the pipe accepts them.
func (w writing) flood() error {
	var block []byte
	at := now()
	for i := range w.count {
		block = appendLine(block, at, i, w.size)
		if len(block) < floodBlock && i < w.count-1 {
			continue
		}
		if _, err := os.Stdout.Write(block); err != nil {
			return err
		}
		block = block[:0]
	}
	return nil
}

const (
	stampBytes = 19 // at the beginning of a line: the time of its writing
	indexBytes = 9
)

// appendLine appends a line: the time, the line's index, and padding up to size.
func appendLine(b []byte, at int64, index, size int) []byte {
	end := len(b) + size - 1
	b = fmt.Appendf(b, "%0*d %0*d ", stampBytes, at, indexBytes, index)
	return append(append(b, filling[:end-len(b)]...), '\n')
}

var filling = bytes.Repeat([]byte("what a process says of what it does; "), 1<<10)

// stampOf reads the time at which a line was written.
func stampOf(line []byte) (int64, error) {
	if len(line) < stampBytes {
		return 0, fmt.Errorf("a line of %d bytes: %q", len(line), line)
	}
	return strconv.ParseInt(string(line[:stampBytes]), 10, 64)
}

// now is CLOCK_MONOTONIC in nanoseconds: one clock for all processes of the machine.
func now() int64 {
	var ts unix.Timespec
	_, _, _ = unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&ts)), 0) // Linux always has this clock
	return ts.Nano()
}
