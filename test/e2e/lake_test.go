package e2e_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/test/harness"
)

// pyiceberg returns a Python with PyIceberg that every user can run.
func pyiceberg(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("../../scripts/pyiceberg.sh").Output()
	require.NoError(t, err, "PyIceberg for the tests: scripts/pyiceberg.sh")
	made := strings.TrimSpace(string(out))
	if os.Geteuid() != 0 { // tasks run as this user
		return filepath.Join(made, "bin", "python")
	}
	dir := filepath.Join(harness.NewDir(t), "packages")
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(filepath.Dir(dir))) })
	from := filepath.Join(made, "lib", "python3.11", "site-packages")
	if exec.Command("cp", "-al", from, dir).Run() != nil { // hard links need one file system
		require.NoError(t, os.RemoveAll(dir))
		out, err := exec.Command("cp", "-a", from, dir).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	return "env PYTHONPATH=" + dir + " " + everybodys(t, "python3.11")
}

// everybodys returns a path of the program that every user can run.
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

// Commands of the tasks of TestTablesInATask. Each task runs as its own user, and so does the
// engine.
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

// TestTablesInATask: in a task, SQL and plain PyIceberg work without settings, also on each other's
// tables. The run's lineage shows it.
func TestTablesInATask(t *testing.T) {
	t.Parallel()
	python := pyiceberg(t)
	p := harness.NewPlatform(t, harness.Options{})
	run := p.StartRun(p.CreateJob(map[string]any{"tasks": []any{
		map[string]any{"key": "sql", "command": lakeBySQL},
		map[string]any{"key": "python", "command": "cat > task.py <<'END'\n" + lakeByPython + "END\nexec " + python + " task.py", "depends_on": []string{"sql"}},
		map[string]any{"key": "back", "command": lakeBack, "depends_on": []string{"python"}},
	}}))
	awaitTasks(p, run, "sql", "python", "back")
	p.RequireTrueEnd(run, "success")
	require.Contains(t, p.LogText(run, "sql"), "name,mass,year\r\n\"o'brien, the first\",3750,2007\r\n")
	require.Equal(t, []string{"[\"o'brien, the first\", 'second']", "3"}, strings.Split(strings.TrimSpace(p.LogText(run, "python")), "\n"))
	require.Contains(t, p.LogText(run, "back"), "\n4,10800\r\n")
	require.Contains(t, p.LogText(run, "back"), "nowhere")

	var lineage struct{ Read, Written []string }
	p.Must(http.MethodGet, "/runs/"+run+"/lineage", nil, &lineage)
	slices.Sort(lineage.Read)
	slices.Sort(lineage.Written)
	both := []string{"lake.public.birds", "lake.public.flock"}
	require.Equal(t, both, lineage.Read)
	require.Equal(t, both, lineage.Written)
	by := lineageBy(p, run)
	for _, want := range []string{"sql written lake.public.birds statement", "python written lake.public.birds attempt", "python written lake.public.flock attempt", "python read lake.public.birds attempt", "back read lake.public.flock statement"} {
		require.Contains(t, by, want)
	}
	requireLakeFenced(p, "birds")
}

// awaitTasks waits for each task in turn. Every task starts many processes at low priority.
func awaitTasks(p *harness.Platform, run string, keys ...string) {
	p.T.Helper()
	for _, key := range keys {
		harness.Await(p.T, "the task "+key+" ends", func() bool {
			return slices.ContainsFunc(p.Tasks(run), func(t harness.TaskRow) bool {
				return t.Key == key && slices.Contains([]string{"success", "failed", "cancelled", "skipped"}, t.Status)
			})
		})
	}
}

// lineageBy lists which tasks of the run read and wrote which tables, and whether by a statement.
func lineageBy(p *harness.Platform, run string) (by []string) {
	var lineage struct {
		Edges []struct {
			Direction, Name string
			TaskKey         string  `json:"task_key"`
			StatementID     *string `json:"statement_id"`
		}
	}
	p.Must(http.MethodGet, "/runs/"+run+"/lineage", nil, &lineage)
	for _, e := range lineage.Edges {
		way := "attempt"
		if e.StatementID != nil {
			way = "statement"
		}
		by = append(by, strings.Join([]string{e.TaskKey, e.Direction, e.Name, way}, " "))
	}
	return by
}

// requireLakeFenced requires that a task cannot find tables without a path. A task of another
// workspace, with an agent on the same host, cannot open given paths. If all tasks run as one user,
// it checks nothing.
func requireLakeFenced(p *harness.Platform, table string) {
	p.T.Helper()
	if os.Geteuid() != 0 {
		return
	}
	lake := filepath.Join(p.Dir, "lake")
	run := p.StartRun(p.CreateJob(map[string]any{"name": "curious", "command": "ls " + lake + " || cat " + lake + "/* || cat " + lake + "/.names || ls " + lake + "/ws_*"}))
	require.Equal(p.T, "failed", p.AwaitRun(run).Status, p.LogText(run, ""))

	var loaded struct{ Location string }
	p.Must(http.MethodGet, "/databases/lake/schemas/public/tables/"+table, nil, &loaded)
	dir := strings.TrimPrefix(loaded.Location, "file://")
	use := "ls " + dir + "/data && cat " + dir + "/metadata/*.json && mkdir " + dir + "/data/new && rmdir " + dir + "/data/new"
	run = p.StartRun(p.CreateJob(map[string]any{"name": "own", "command": use}))
	require.Equal(p.T, "success", p.AwaitRun(run).Status, p.LogText(run, ""))
	stranger := newStranger(p)
	for _, command := range []string{"ls " + dir, "ls " + dir + "/data", "cat " + dir + "/metadata/*.json", "touch " + dir + "/data/new", "rm -r " + dir} {
		run := stranger.StartRun(stranger.CreateJob(map[string]any{"command": command}))
		require.Equal(p.T, "failed", stranger.AwaitRun(run).Status, stranger.LogText(run, ""))
		require.Contains(p.T, stranger.LogText(run, ""), "Permission denied")
	}
	require.DirExists(p.T, dir+"/data")
}

// newStranger creates another workspace of the instance. Its agent also runs on this host.
func newStranger(p *harness.Platform) *harness.Platform {
	p.T.Helper()
	made, err := harness.Command(p.T, "workspace", "create", "stranger", "--data-dir", p.Dir).Output()
	require.NoError(p.T, err)
	other := &harness.Platform{T: p.T, Dir: harness.NewDir(p.T), Arena: p.Arena + "-none", Client: &harness.Client{URL: p.URL}}
	p.T.Cleanup(other.End)
	var in struct {
		AccessToken string `json:"access_token"`
	}
	setUp := map[string]string{"token": harness.SetUpLink.FindStringSubmatch(string(made))[1], "email": "bob@example.com", "password": "correct horse battery"}
	other.Must(http.MethodPost, "/auth/setup", setUp, &in)
	other.Key = in.AccessToken
	require.NoError(p.T, os.WriteFile(filepath.Join(other.Dir, "agent.token"), []byte(harness.CreatedToken.FindString(string(made))), 0o600))
	other.AgentByHand(p.URL)
	return other
}

// TestSample: a new workspace's sample runs SQL, leaves its tables and can run again. Removing the
// sample removes the tables.
func TestSample(t *testing.T) {
	t.Parallel()
	p := &harness.Platform{T: t, Dir: harness.NewDir(t)}
	t.Cleanup(p.End)
	p.Servers = []*harness.Server{harness.NewServer(t, p.Dir)}
	p.Servers[0].Start()
	key, err := harness.Administrator(p.Servers[0])
	require.NoError(t, err)
	p.Client = &harness.Client{URL: p.Servers[0].URL, Key: key}
	var runs harness.Page[struct {
		ID    string
		JobID string `json:"job_id"`
	}]
	p.Must(http.MethodGet, "/runs", nil, &runs)
	require.Len(t, runs.Data, 1)
	first, job := runs.Data[0].ID, runs.Data[0].JobID
	require.Equal(t, summaryOf(p, first), summaryOf(p, p.StartRun(job)), "a second run prints the same")
	var lineage struct{ Read, Written []string }
	p.Must(http.MethodGet, "/runs/"+first+"/lineage", nil, &lineage)
	require.Subset(t, lineage.Written, []string{"lake.samples.penguins", "lake.samples.species_summary"})
	require.Contains(t, lineage.Read, "lake.samples.penguins")
	type named = harness.Page[struct{ ID, Name string }]
	var experiments, trained named
	p.Must(http.MethodGet, "/experiments", nil, &experiments)
	training := "/experiments/" + experiments.Data[0].ID + "/runs/"
	p.Must(http.MethodPost, training+"search", map[string]any{}, &trained)
	require.Len(t, trained.Data, 2, experiments.Data[0].Name)
	p.Must(http.MethodGet, training+trained.Data[0].ID+"/lineage", nil, &lineage)
	require.Equal(t, []string{"lake.samples.penguins"}, lineage.Read)
	counts := p.OK("SELECT (SELECT count(*) FROM lake.samples.penguins), (SELECT count(*) FROM lake.samples.species_summary)")
	require.Equal(t, [][]any{{344.0, 3.0}}, counts.Rows)
	p.Must(http.MethodDelete, "/samples", nil, nil)
	require.Equal(t, http.StatusBadRequest, p.SQL("SELECT * FROM lake.samples.penguins").Status)
	var schemas harness.Page[struct{ Name string }]
	p.Must(http.MethodGet, "/databases/lake/schemas", nil, &schemas)
	require.Equal(t, []struct{ Name string }{{"public"}}, schemas.Data)
}

// summaryOf waits for the run and returns the output of its summary task.
func summaryOf(p *harness.Platform, run string) string {
	p.T.Helper()
	awaitTasks(p, run, "load", "summary")
	p.RequireTrueEnd(run, "success")
	text := p.LogText(run, "summary")
	require.Regexp(p.T, `Gentoo +124 +47\.5 +217\.19 +5076 +6300`, text)
	return text
}
