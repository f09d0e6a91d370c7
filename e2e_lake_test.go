package main_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pyiceberg is a command for a Python that has PyIceberg, which every user can run.
func pyiceberg(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("scripts/pyiceberg.sh").Output()
	require.NoError(t, err, "PyIceberg for the tests: scripts/pyiceberg.sh")
	made := strings.TrimSpace(string(out))
	if os.Geteuid() != 0 { // tasks are this user
		return filepath.Join(made, "bin", "python")
	}
	dir := filepath.Join(newDir(t), "packages")
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(filepath.Dir(dir))) })
	from := filepath.Join(made, "lib", "python3.11", "site-packages")
	if exec.Command("cp", "-al", from, dir).Run() != nil { // links are not for another file system
		require.NoError(t, os.RemoveAll(dir))
		out, err := exec.Command("cp", "-a", from, dir).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	return "env PYTHONPATH=" + dir + " " + everybodys(t, "python3.11")
}

// everybodys is the program where every user can run it.
func everybodys(t testing.TB, name string) string {
	t.Helper()
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/local/bin", "/usr/bin") {
		path, err := filepath.EvalSymlinks(filepath.Join(dir, name))
		for open := err == nil; open; {
			info, err := os.Stat(path)
			open = err == nil && info.Mode()&1 != 0
			if open && path == "/" {
				return filepath.Join(dir, name)
			}
			path = filepath.Dir(path)
		}
	}
	t.Fatalf("these tests need %s where every user can run it: install it for all", name)
	return ""
}

// What the tasks of TestTablesInATask do. Each is another user than the others and than the engine.
const (
	lakeBySQL = `set -eu
millpond sql 'CREATE TABLE lake.public.birds (name VARCHAR, mass INTEGER, year INTEGER)'
millpond sql 'ALTER TABLE lake.public.birds SET PARTITIONED BY (year)'
millpond sql 'INSERT INTO birds VALUES (?, ?::INTEGER, 2007)' --parameter "o'brien, the first" --parameter 3750
millpond sql --format csv 'SELECT * FROM birds ORDER BY name'
`
	lakeByPython = `import os
import pyarrow as pa
from pyiceberg.catalog import load_catalog
catalog = load_catalog()
birds = catalog.load_table("public.birds")
for dir, _, _ in os.walk(birds.location().removeprefix("file://")):
    assert os.access(dir, os.W_OK), "no files can be added to " + dir
birds.append(pa.table({"name": ["second"], "mass": pa.array([3800], pa.int32()), "year": pa.array([2007], pa.int32())}))
print(sorted(r["name"] for r in birds.scan().to_arrow().to_pylist()))
rows = pa.table({"id": [1, 2], "island": ["Torgersen", "Dream"]})
flock = catalog.create_table("public.flock", schema=rows.schema)
flock.append(rows)
with flock.update_spec() as spec:
    spec.add_identity("island")
flock.append(pa.table({"id": [3], "island": ["Biscoe"]}))
print(catalog.load_table("public.flock").scan().to_arrow().num_rows)
`
	lakeBack = `set -eu
millpond sql "INSERT INTO flock VALUES (4, 'Biscoe')"
millpond sql "INSERT INTO birds VALUES ('third', 3250, 2007)"
millpond sql --format csv 'SELECT (SELECT count(*) FROM flock), (SELECT sum(mass) FROM birds)'
! millpond sql 'SELECT * FROM nowhere'
`
)

// TestTablesInATask: in a task, SQL and a plain PyIceberg work as they come, on each other's tables, and the run's lineage shows it.
func TestTablesInATask(t *testing.T) {
	t.Parallel()
	python := pyiceberg(t)
	p := newPlatform(t, options{})
	run := p.run(p.job(map[string]any{"tasks": []any{
		map[string]any{"key": "sql", "command": lakeBySQL},
		map[string]any{"key": "python", "command": "cat > task.py <<'END'\n" + lakeByPython + "END\nexec " + python + " task.py", "depends_on": []string{"sql"}},
		map[string]any{"key": "back", "command": lakeBack, "depends_on": []string{"python"}},
	}}))
	p.awaitTasks(run, "sql", "python", "back")
	p.requireTrueEnd(run, "success")
	require.Contains(t, p.text(run, "sql"), "name,mass,year\r\n\"o'brien, the first\",3750,2007\r\n")
	require.Equal(t, []string{"[\"o'brien, the first\", 'second']", "3"}, strings.Split(strings.TrimSpace(p.text(run, "python")), "\n"))
	require.Contains(t, p.text(run, "back"), "\n4,10800\r\n")
	require.Contains(t, p.text(run, "back"), "nowhere")

	var lineage struct{ Read, Written []string }
	p.must(http.MethodGet, "/runs/"+run+"/lineage", nil, &lineage)
	slices.Sort(lineage.Read)
	slices.Sort(lineage.Written)
	both := []string{"lake.public.birds", "lake.public.flock"}
	require.Equal(t, both, lineage.Read)
	require.Equal(t, both, lineage.Written)
	by := p.lineageBy(run)
	for _, want := range []string{"sql written lake.public.birds statement", "python written lake.public.birds attempt", "python written lake.public.flock attempt", "python read lake.public.birds attempt", "back read lake.public.flock statement"} {
		require.Contains(t, by, want)
	}
	p.requireLakeFenced("birds")
}

// awaitTasks waits for each of the tasks in turn: every one of them starts many processes, which stand back for all else on the machine.
func (p *platform) awaitTasks(run string, keys ...string) {
	p.t.Helper()
	for _, key := range keys {
		await(p.t, "the task "+key+" ends", func() bool {
			return slices.ContainsFunc(p.tasks(run), func(t taskRow) bool {
				return t.Key == key && slices.Contains([]string{"success", "failed", "cancelled", "skipped"}, t.Status)
			})
		})
	}
}

// lineageBy says which tasks of the run did what, and whether by a statement or by themselves.
func (p *platform) lineageBy(run string) (by []string) {
	var lineage struct {
		Edges []struct {
			Direction, Name string
			TaskKey         string  `json:"task_key"`
			StatementID     *string `json:"statement_id"`
		}
	}
	p.must(http.MethodGet, "/runs/"+run+"/lineage", nil, &lineage)
	for _, e := range lineage.Edges {
		way := "attempt"
		if e.StatementID != nil {
			way = "statement"
		}
		by = append(by, strings.Join([]string{e.TaskKey, e.Direction, e.Name, way}, " "))
	}
	return by
}

// requireLakeFenced holds that a task which is told no path finds none, and that one of another workspace, with an agent on the same host, opens none that it is told.
// Where all is one user, nothing is fenced.
func (p *platform) requireLakeFenced(table string) {
	p.t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	lake := filepath.Join(p.dir, "lake")
	run := p.run(p.job(map[string]any{"name": "curious", "command": "ls " + lake + " || cat " + lake + "/* || cat " + lake + "/.names || ls " + lake + "/ws_*"}))
	require.Equal(p.t, "failed", p.awaitRun(run).Status, p.text(run, ""))

	var loaded struct{ Location string }
	p.must(http.MethodGet, "/databases/lake/schemas/public/tables/"+table, nil, &loaded)
	dir := strings.TrimPrefix(loaded.Location, "file://")
	use := "ls " + dir + "/data && cat " + dir + "/metadata/*.json && mkdir " + dir + "/data/new && rmdir " + dir + "/data/new"
	run = p.run(p.job(map[string]any{"name": "own", "command": use}))
	require.Equal(p.t, "success", p.awaitRun(run).Status, p.text(run, ""))
	stranger := p.stranger()
	for _, command := range []string{"ls " + dir, "ls " + dir + "/data", "cat " + dir + "/metadata/*.json", "touch " + dir + "/data/new", "rm -r " + dir} {
		run := stranger.run(stranger.job(map[string]any{"command": command}))
		require.Equal(p.t, "failed", stranger.awaitRun(run).Status, stranger.text(run, ""))
		require.Contains(p.t, stranger.text(run, ""), "Permission denied")
	}
	require.DirExists(p.t, dir+"/data")
}

// stranger is another workspace of the instance. Its agent runs on this host, too.
func (p *platform) stranger() *platform {
	p.t.Helper()
	made, err := command(p.t, "workspace", "create", "stranger", "--data-dir", p.dir).Output()
	require.NoError(p.t, err)
	other := &platform{t: p.t, dir: newDir(p.t), arena: p.arena + "-none", client: &client{url: p.url}}
	p.t.Cleanup(other.end)
	var in struct {
		AccessToken string `json:"access_token"`
	}
	setUp := map[string]string{"token": setUpLink.FindStringSubmatch(string(made))[1], "email": "bob@example.com", "password": "correct horse battery"}
	other.must(http.MethodPost, "/auth/setup", setUp, &in)
	other.key = in.AccessToken
	require.NoError(p.t, os.WriteFile(filepath.Join(other.dir, "agent.token"), []byte(createdToken.FindString(string(made))), 0o600))
	other.agentByHand(p.url)
	return other
}

// TestSample: a new workspace's sample ends in SQL, leaves its tables, does the same again, and goes with them.
func TestSample(t *testing.T) {
	t.Parallel()
	p := &platform{t: t, dir: newDir(t)}
	t.Cleanup(p.end)
	p.servers = []*server{newServer(t, p.dir)}
	p.servers[0].start()
	key, err := administrator(p.servers[0])
	require.NoError(t, err)
	p.client = &client{url: p.servers[0].url, key: key}
	var runs page[struct {
		ID    string
		JobID string `json:"job_id"`
	}]
	p.must(http.MethodGet, "/runs", nil, &runs)
	require.Len(t, runs.Data, 1)
	first, job := runs.Data[0].ID, runs.Data[0].JobID
	require.Equal(t, p.summaryOf(first), p.summaryOf(p.run(job)), "a second run finds what it would make")
	var lineage struct{ Read, Written []string }
	p.must(http.MethodGet, "/runs/"+first+"/lineage", nil, &lineage)
	require.Subset(t, lineage.Written, []string{"lake.samples.penguins", "lake.samples.species_summary"})
	require.Contains(t, lineage.Read, "lake.samples.penguins")
	counts := p.ok("SELECT (SELECT count(*) FROM lake.samples.penguins), (SELECT count(*) FROM lake.samples.species_summary)")
	require.Equal(t, [][]any{{344.0, 3.0}}, counts.Rows)
	p.must(http.MethodDelete, "/samples", nil, nil)
	require.Equal(t, http.StatusBadRequest, p.sql("SELECT * FROM lake.samples.penguins").status)
	var schemas page[struct{ Name string }]
	p.must(http.MethodGet, "/databases/lake/schemas", nil, &schemas)
	require.Equal(t, []struct{ Name string }{{"public"}}, schemas.Data)
}

// summaryOf is what the run's summary has printed.
func (p *platform) summaryOf(run string) string {
	p.t.Helper()
	p.awaitTasks(run, "load", "summary")
	p.requireTrueEnd(run, "success")
	text := p.text(run, "summary")
	require.Regexp(p.t, `Gentoo +124 +47\.5 +217\.19 +5076 +6300`, text)
	return text
}
