// Package s3test starts a real S3 server for tests: versitygw, an S3 gateway over a directory. It
// is built once from its Go module and cached for the user.
package s3test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// module is the server's Go module, pinned.
const module = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"

// gatewayEnv names a server's binary to use instead of building one.
const gatewayEnv = "MILLPOND_TEST_S3_GATEWAY"

// Server is a running S3 server with one bucket.
type Server struct {
	Endpoint string // with its scheme
	Region   string
	Bucket   string
	Key      string
	Secret   string
	Dir      string // the directory of the bucket's objects as files
}

// URL is the address of a prefix in the bucket, for objects.OpenLake.
func (s Server) URL(prefix string) string {
	return fmt.Sprintf("s3://%s/%s?endpoint=%s&region=%s&s3ForcePathStyle=true", s.Bucket, prefix, s.Endpoint, s.Region)
}

const (
	buildTime = 15 * time.Minute
	startTime = 30 * time.Second
	pollEvery = 20 * time.Millisecond
)

// Start starts a server, and ends it with the test. It sets the server's credentials in the
// process's environment.
func Start(t testing.TB) Server {
	t.Helper()
	binary := gateway(t)
	root := t.TempDir()
	s := Server{Region: "us-east-1", Bucket: "lake", Key: "test-key", Secret: "test-secret", Dir: filepath.Join(root, "lake")}
	if err := os.Mkdir(s.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	s.Endpoint = "http://" + address
	cmd := exec.CommandContext(context.Background(), binary, "--access", s.Key, "--secret", s.Secret, "--region", s.Region, "--port", address, "posix", root)
	cmd.Dir = t.TempDir()
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting the S3 server: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Setenv("AWS_ACCESS_KEY_ID", s.Key)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s.Secret)
	t.Setenv("AWS_SESSION_TOKEN", "")
	await(t, s.Endpoint)
	return s
}

func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// await waits until the server answers any request.
func await(t testing.TB, endpoint string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint, nil)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := http.DefaultClient.Do(req); err == nil {
			_ = answer.Body.Close()
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the S3 server does not answer at %s", endpoint)
		case <-tick.C:
		}
	}
}

// gateway returns the server's binary, and builds a missing one.
func gateway(t testing.TB) string {
	t.Helper()
	if binary := os.Getenv(gatewayEnv); binary != "" {
		return binary
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "millpond", "s3", "v1.8.0")
	binary := filepath.Join(dir, "versitygw")
	if _, err := os.Stat(binary); err == nil {
		return binary
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildTime)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "install", module)
	build.Dir = t.TempDir() // outside of this module
	build.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the S3 server: %v\n%s", err, out)
	}
	return binary
}
