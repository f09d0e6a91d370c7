package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/worker/proc"
)

// BenchmarkShimCost measures the CPU time of a shim for one line of a process that writes 1000
// lines a second.
func BenchmarkShimCost(b *testing.B) {
	c := newControl(b)
	o := c.options()
	c.agent(o)
	const count = 3000
	n := 0
	for b.Loop() {
		n++
		id := fmt.Sprint("att_", n)
		c.start(agent.Attempt{ID: id, Command: testBinary(b) + " tick 1ms " + fmt.Sprint(count) + "; cat >/dev/null; sleep 1"})
		dir := filepath.Join(o.Dir, "attempts", id)
		c.reached(id, 1)
		shimPid := shimOf(b, dir)
		before := cpuTime(shimPid)
		c.reached(id, 20*count)
		b.ReportMetric(float64(cpuTime(shimPid)-before)/count/1000, "µs/line")
		c.exited(id)
	}
	b.ReportMetric(0, "ns/op")
}

// cpuTime is the CPU time of all threads of a process, in ns.
func cpuTime(pid int) (sum int64) {
	tasks, _ := os.ReadDir(proc.Path(pid, "task"))
	for _, t := range tasks {
		var ran int64
		if b, err := os.ReadFile(filepath.Join(proc.Path(pid, "task"), t.Name(), "schedstat")); err == nil {
			_, _ = fmt.Sscan(string(b), &ran)
			sum += ran
		}
	}
	return sum
}
