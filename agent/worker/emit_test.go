package worker

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent/worker/shim"
)

// emission is the output of the test binary as "emit": bytes derived from the seed, in writes of
// random sizes. It stores in the file "count" how many bytes the kernel has accepted: 0 before the
// first write, then the sum after each.
type emission struct {
	seed  uint64
	total int64
	most  int           // bytes of one write
	pause time.Duration // at most, after a write
	err   bool          // to stderr
}

func (e emission) command(t testing.TB) string {
	return fmt.Sprintf("exec %s emit %d %d %d %d %t", testBinary(t), e.seed, e.total, e.most, e.pause, e.err)
}

func (e emission) bytes() io.Reader {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], e.seed)
	return io.LimitReader(rand.NewChaCha8(seed), e.total)
}

// sha is the digest of the first n bytes.
func (e emission) sha(n int64) string {
	sum := sha256.New()
	_, _ = io.CopyN(sum, e.bytes(), n)
	return hex.EncodeToString(sum.Sum(nil))
}

func emitMain(args []string) int {
	number := func(i int) int64 { n, _ := strconv.ParseInt(args[i], 10, 64); return n }
	e := emission{seed: uint64(number(0)), total: number(1), most: int(number(2)), pause: time.Duration(number(3)), err: args[4] == "true"}
	out := os.Stdout
	name := "count"
	if e.err {
		out, name = os.Stderr, "count.err"
	}
	count, err := os.Create(name)
	if err != nil {
		return 1
	}
	in, buf, noted := e.bytes(), make([]byte, e.most), make([]byte, 8)
	_, _ = count.WriteAt(noted, 0) // it may be killed between its first write and the update of the count
	choose := rand.New(rand.NewPCG(e.seed, 1))
	for done := int64(0); done < e.total; {
		n, err := io.ReadFull(in, buf[:min(int64(1+choose.IntN(e.most)), e.total-done)])
		if err != nil {
			return 1
		}
		// One write(2) at a time, so that the count is behind by at most one write.
		for part := buf[:n]; len(part) > 0; {
			k, err := out.Write(part[:min(len(part), 4096)])
			if err != nil {
				return 1
			}
			part = part[k:]
			done += int64(k)
			binary.LittleEndian.PutUint64(noted, uint64(done))
			_, _ = count.WriteAt(noted, 0)
		}
		if e.pause > 0 {
			<-time.After(time.Duration(choose.Int64N(int64(e.pause))))
		}
	}
	return 0
}

// counted reads how many bytes the process has written.
func counted(t testing.TB, dir, name string) int64 {
	b, err := os.ReadFile(filepath.Join(dir, shim.WorkDir, name))
	require.NoError(t, err)
	if len(b) < 8 {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(b))
}

// testBinary is the path of a copy of this program that task users can run.
func testBinary(t testing.TB) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("millpond-test-%d", os.Getpid()))
	path := filepath.Join(dir, "worker.test")
	if fileExists(path) {
		return path
	}
	require.NoError(t, os.MkdirAll(dir, 0o755))
	if os.Link(self, path) == nil {
		return path
	}
	in, err := os.Open(self)
	require.NoError(t, err)
	defer in.Close()
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(out, in)
	require.NoError(t, err)
	require.NoError(t, out.Close())
	return path
}

func removeTestBinary() {
	os.RemoveAll(filepath.Join(os.TempDir(), fmt.Sprintf("millpond-test-%d", os.Getpid())))
}
