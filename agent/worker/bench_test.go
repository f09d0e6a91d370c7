package worker

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/millpond/millpond/agent"
)

// BenchmarkStart measures an empty task from the request to its reported end, one after the other.
func BenchmarkStart(b *testing.B) {
	c := newControl(b)
	c.agent(c.options())
	c.start(agent.Attempt{ID: "att_first", Command: ":"})
	c.exited("att_first")
	n := 0
	for b.Loop() {
		id := fmt.Sprint("att_", n)
		n++
		c.start(agent.Attempt{ID: id, Command: ":"})
		c.exited(id)
	}
}

// BenchmarkFiftyStarts measures fifty empty tasks, eight at a time.
func BenchmarkFiftyStarts(b *testing.B) {
	c := newControl(b)
	o := c.options()
	o.Slots = 8
	c.agent(o)
	n := 0
	for b.Loop() {
		first := n
		for ; n < first+50; n++ {
			if n >= first+8 {
				c.exited(fmt.Sprint("att_", n-8))
			}
			c.start(agent.Attempt{ID: fmt.Sprint("att_", n), Command: ":"})
		}
		for i := n - 8; i < n; i++ {
			c.exited(fmt.Sprint("att_", i))
		}
	}
}

// tickMain writes lines with the time of their writing.
func tickMain(args []string) int {
	every, _ := time.ParseDuration(args[0])
	count, _ := strconv.Atoi(args[1])
	tick := time.NewTicker(every)
	for range count {
		<-tick.C
		fmt.Fprintf(os.Stdout, "%d\n", time.Now().UnixNano())
	}
	return 0
}

// BenchmarkLogLatency measures the time from a process's write to its arrival at the control plane,
// with 100 lines a second.
func BenchmarkLogLatency(b *testing.B) {
	for _, attempts := range []int{1, 20, 200} {
		b.Run(fmt.Sprint("attempts=", attempts), func(b *testing.B) {
			c := newControl(b)
			var took []time.Duration
			c.seen = func(chunk agent.Chunk) {
				now := time.Now().UnixNano()
				for line := range bytes.Lines(chunk.Data) {
					if at, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 64); err == nil {
						took = append(took, time.Duration(now-at))
					}
				}
			}
			c.agent(c.options())
			round := 0
			for b.Loop() {
				round++
				for i := range attempts {
					c.start(agent.Attempt{ID: fmt.Sprintf("att_%d_%d", round, i), Command: "exec " + testBinary(b) + " tick 10ms 500"})
				}
				for i := range attempts {
					c.exited(fmt.Sprintf("att_%d_%d", round, i))
				}
			}
			slices.Sort(took)
			for _, p := range []int{50, 95, 99} {
				b.ReportMetric(float64(took[len(took)*p/100].Microseconds()), fmt.Sprintf("p%d-µs", p))
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkLogThroughput measures one process that writes as fast as it can.
func BenchmarkLogThroughput(b *testing.B) {
	c := newControl(b)
	c.agent(c.options())
	const size = 256 << 20
	b.SetBytes(size)
	n := 0
	for b.Loop() {
		id := fmt.Sprint("att_", n)
		n++
		c.start(agent.Attempt{ID: id, Command: fmt.Sprintf("yes 'a line of a log as it is often seen, about this long or so' | head -c %d", size)})
		c.exited(id)
	}
}
