package trino

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The users in Trino. Only statements of people run as the second.
const (
	platformUser  = "platform"
	statementUser = "statement"
)

// rules are Trino's access control. A statement reaches only the catalogs of the workspace's
// databases. It reaches no queries of others, nodes, settings, procedures, roles or other catalogs.
var rules = map[string]any{
	"catalogs": []map[string]string{
		{"user": platformUser, "allow": "owner"},
		{"user": statementUser, "catalog": "system", "allow": "none"},
		{"user": statementUser, "allow": "all"},
	},
	"queries": []map[string]any{
		{"user": platformUser, "allow": []string{"execute", "kill", "view"}},
		{"user": statementUser, "allow": []string{"execute"}},
	},
	"system_information": []map[string]any{{"user": platformUser, "allow": []string{"read", "write"}}},
	"system_session_properties": []map[string]any{
		{"user": platformUser, "allow": true},
		{"allow": false},
	},
	"catalog_session_properties": []map[string]any{{"allow": false}},
	"impersonation":              []any{},
	"procedures":                 []any{},
	"authorization":              []any{},
}

// secrets are a cluster's secrets, created at each start of its coordinator.
type secrets struct {
	internal string // authenticates the nodes to each other
	key      []byte // signs the tokens of requests
}

func newSecrets() secrets {
	internal, key := make([]byte, 48), make([]byte, 32)
	_, _ = rand.Read(internal) // never fails
	_, _ = rand.Read(key)
	return secrets{base64.StdEncoding.EncodeToString(internal), key}
}

// layout is the disk layout of one node. Its configuration, log and spill files are below dir.
type layout struct {
	dir         string
	id          string
	port        int
	coordinator int // port of the coordinator; the node's own if it is the coordinator
	memory      memory
	spill       int64 // maximum bytes of spill files
	cores       int
	secrets     secrets
	spooling    *spooling // nil if results come only through the coordinator
	grace       string    // how long a node that shuts down waits, before and after its last work
}

// memory is the memory of a Trino process, in bytes.
type memory struct{ heap, query, headroom int64 }

// The JVM needs besideHeap outside its heap for code, classes, stacks and buffers. Trino does not
// run with a heap below minHeap.
const (
	besideHeap = 448 << 20
	minHeap    = 576 << 20
)

// MinMemory is the least memory of a node, in bytes.
const MinMemory = besideHeap + minHeap

// divide splits a node's memory into the heap, the heap that queries may reserve, and the headroom
// for unaccounted memory.
func divide(total int64) memory {
	heap := max(total-besideHeap, minHeap)
	headroom := heap * 4 / 10 // mostly uncollected garbage and growing arrays
	return memory{heap: heap, headroom: headroom, query: heap - headroom}
}

func megabytes(n int64) string { return fmt.Sprintf("%dMB", n>>20) }

// write writes the node's configuration. Only the owner can read files with secrets.
func (l layout) write() error {
	for _, dir := range []string{l.etc(), l.data(), l.spillDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	access, err := json.MarshalIndent(rules, "", "  ")
	if err != nil {
		return err
	}
	files := map[string]string{
		"node.properties": properties(l.node()), "config.properties": properties(l.config()), "log.properties": properties(levels),
		"access-control.properties": properties(map[string]string{"access-control.name": "file", "security.config-file": l.file("rules.json")}),
		"rules.json":                string(access), "jwt.key": base64.StdEncoding.EncodeToString(l.secrets.key),
	}
	if l.spooling != nil {
		files["spooling-manager.properties"] = properties(l.spooling.properties())
	}
	for name, text := range files {
		if err := os.WriteFile(l.file(name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("writing Trino's configuration: %w", err)
		}
	}
	return nil
}

func (l layout) etc() string             { return filepath.Join(l.dir, "etc") }
func (l layout) data() string            { return filepath.Join(l.dir, "data") }
func (l layout) spillDir() string        { return filepath.Join(l.dir, "spill") }
func (l layout) log() string             { return filepath.Join(l.dir, "server.log") }
func (l layout) file(name string) string { return filepath.Join(l.etc(), name) }
func (l layout) url() string             { return fmt.Sprintf("http://127.0.0.1:%d", l.port) }

// levels are Trino's log levels. The history of statements replaces its messages about queries.
var levels = map[string]string{
	"io.trino": "INFO", "io.trino.event.QueryMonitor": "WARN", "org.apache.iceberg": "WARN", "org.apache.iceberg.rest.auth": "ERROR", "org.eclipse.jetty": "WARN", "Bootstrap": "WARN",
	"io.airlift": "WARN", "io.trino.memory.RemoteNodeMemory": "ERROR",
}

func (l layout) node() map[string]string {
	return map[string]string{
		"node.environment": "millpond", "node.id": l.id, "node.data-dir": l.data(),
		"node.bind-ip": "127.0.0.1", "node.internal-address": "127.0.0.1",
	}
}

func (l layout) config() map[string]string {
	c := map[string]string{
		"coordinator":           fmt.Sprint(l.port == l.coordinator),
		"discovery.uri":         fmt.Sprintf("http://127.0.0.1:%d", l.coordinator),
		"http-server.http.port": fmt.Sprint(l.port),
		// Requests that claim HTTPS must carry a token; plain HTTP requests need none.
		"http-server.process-forwarded":                       "true",
		"http-server.authentication.type":                     "JWT",
		"http-server.log.enabled":                             "false",
		"http-server.authentication.jwt.key-file":             l.file("jwt.key"),
		"internal-communication.shared-secret":                l.secrets.internal,
		"access-control.config-files":                         l.file("access-control.properties"),
		"catalog.management":                                  "dynamic",
		"query.max-memory-per-node":                           megabytes(l.memory.query),
		"memory.heap-headroom-per-node":                       megabytes(l.memory.headroom),
		"memory-revoking-threshold":                           "0.6",
		"memory-revoking-target":                              "0.4",
		"spill-enabled":                                       "true",
		"spiller-spill-path":                                  l.spillDir(),
		"max-spill-per-node":                                  megabytes(l.spill),
		"query-max-spill-per-node":                            megabytes(l.spill),
		"shutdown.grace-period":                               l.grace,
		"log.path":                                            l.log(),
		"log.max-size":                                        "16MB",
		"log.max-total-size":                                  "64MB",
		"task.max-worker-threads":                             fmt.Sprint(max(4, 2*l.cores)),
		"task.concurrency":                                    fmt.Sprint(powerOfTwo(l.cores)),
		"query.max-history":                                   "200",
		"query.min-expire-age":                                "1m",
		"http-server.authentication.allow-insecure-over-http": "false",
	}
	if l.port == l.coordinator {
		c["catalog.store"] = "memory"
		c["node-scheduler.include-coordinator"] = "true"
		c["web-ui.enabled"] = "false"
		c["query.max-memory"] = megabytes(64 * l.memory.query) // the nodes' own limits apply
		c["query.max-length"] = "2000000"
		c["query.client.timeout"] = "1m"
	}
	if l.spooling != nil {
		c["protocol.spooling.enabled"] = "true"
		c["protocol.spooling.shared-secret-key"] = base64.StdEncoding.EncodeToString(l.secrets.key)
	}
	return c
}

// powerOfTwo returns the largest power of two that is at most n. Trino requires one as a task's
// concurrency.
func powerOfTwo(n int) int {
	p := 1
	for 2*p <= n {
		p *= 2
	}
	return p
}

func properties(of map[string]string) string {
	lines := make([]string, 0, len(of))
	for k, v := range of {
		lines = append(lines, k+"="+strings.ReplaceAll(v, "\\", "\\\\")+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// arguments returns the arguments of the JVM.
func (l layout) arguments(installation string) []string {
	args := []string{
		"-server", fmt.Sprintf("-Xmx%d", l.memory.heap), "-XX:+UseG1GC", "-XX:+ExplicitGCInvokesConcurrent", "-XX:+ExitOnOutOfMemoryError", "-XX:-OmitStackTraceInFastThrow",
		"-XX:ReservedCodeCacheSize=256M", "-XX:PerMethodRecompilationCutoff=10000", "-XX:PerBytecodeRecompilationCutoff=10000",
		// The JVM writes only to its own directory.
		"-XX:-UsePerfData", "-Duser.home=" + l.dir, "-Djava.io.tmpdir=" + l.spillDir(),
		"-Djdk.attach.allowAttachSelf=true", "-Djdk.nio.maxCachedBufferSize=2000000", "-Dfile.encoding=UTF-8", "-Duser.timezone=UTC",
		"--enable-native-access=ALL-UNNAMED", "-XX:+EnableDynamicAgentLoading", "--sun-misc-unsafe-memory-access=allow",
		"-Dplugin.dir=" + filepath.Join(installation, "plugin"),
		"-Dlog.levels-file=" + l.file("log.properties"), "-Dlog.enable-console=false", "-Dconfig=" + l.file("config.properties"),
	}
	for k, v := range l.node() {
		args = append(args, "-D"+k+"="+v)
	}
	return append(args, "-cp", filepath.Join(installation, "lib", "*"), "io.trino.server.TrinoServer")
}
