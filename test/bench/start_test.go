package bench

import (
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const startRepeats = 5

// BenchmarkStart measures the time from the start of the process to its first 200, on an existing
// database. The database was stopped with the previous server, or left running by a killed server.
// The reference of the first is PostgreSQL's own start on the same directory; that of the second is
// the binary's `version` command.
func BenchmarkStart(b *testing.B) {
	b.Run("database=stopped", func(b *testing.B) { measureStart(b, syscall.SIGTERM, (*platform).barePostgres) })
	b.Run("database=running", func(b *testing.B) { measureStart(b, syscall.SIGKILL, (*platform).bareBinary) })
}

func measureStart(b *testing.B, end syscall.Signal, bare func(*platform) time.Duration) {
	p := newPlatform(b, 8)
	s := p.servers[0]
	var ready, reference sample
	for range startRepeats {
		s.end(end)
		reference = append(reference, bare(p))
		start := time.Now()
		s.launch()
		s.awaitReady(time.Millisecond)
		ready = append(ready, time.Since(start))
	}
	b.ReportMetric(ms(ready.median()), "ready-ms")
	b.ReportMetric(ms(reference.median()), "reference-ms")
	b.ReportMetric(float64(ready.median())/float64(reference.median()), "ratio")
	quiet(b)
}

// bareBinary is the time of the binary's `version` command.
func (p *platform) bareBinary() time.Duration {
	p.b.Helper()
	start := time.Now()
	shell(p.b, binary(p.b)+" version")
	return time.Since(start)
}

// barePostgres is the time of the platform's own PostgreSQL, on its directory, from its start to
// the first answer to a query.
func (p *platform) barePostgres() time.Duration {
	p.b.Helper()
	data := filepath.Join(p.dir, "postgres")
	info, err := os.Stat(data)
	require.NoError(p.b, err)
	owner, ok := info.Sys().(*syscall.Stat_t)
	require.True(p.b, ok)
	options, err := os.ReadFile(filepath.Join(data, "postmaster.opts")) // the program and its last arguments
	require.NoError(p.b, err)
	cmd := exec.Command("sh", "-c", "exec "+string(options))
	cmd.Dir = data
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGINT}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}
	}
	start := time.Now()
	require.NoError(p.b, cmd.Start())
	await(p.b, "PostgreSQL answers", time.Millisecond, func() bool {
		db, err := sql.Open("postgres", p.database)
		require.NoError(p.b, err)
		defer db.Close()
		_, err = db.Exec("SELECT 1")
		return err == nil
	})
	took := time.Since(start)
	require.NoError(p.b, cmd.Process.Signal(syscall.SIGINT)) // PostgreSQL's fast shutdown
	require.NoError(p.b, cmd.Wait())
	return took
}

// BenchmarkIdle measures the proportional memory (PSS) of an idle platform's processes, and the
// size of the binary.
func BenchmarkIdle(b *testing.B) {
	p := newPlatform(b, 8)
	var server, agent, postgres int64
	await(b, "the memory of a platform that is left alone stays as it is", 2*time.Second, func() bool {
		before := server + agent + postgres
		server, agent, postgres = pss(b, p.serverPID()), pss(b, p.agentPID()), 0
		for _, pid := range p.postgresPIDs() {
			postgres += pss(b, pid)
		}
		now := server + agent + postgres
		return max(now, before)-min(now, before) < mib
	})
	info, err := os.Stat(binary(b))
	require.NoError(b, err)
	b.ReportMetric(inMiB(server), "server-MiB")
	b.ReportMetric(inMiB(agent), "agent-MiB")
	b.ReportMetric(inMiB(postgres), "postgres-MiB")
	b.ReportMetric(float64(server+agent+postgres)/float64(postgres), "all/postgres")
	b.ReportMetric(inMiB(info.Size()), "binary-MiB")
	quiet(b)
}
