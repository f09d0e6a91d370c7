package job

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

func TestVariables(t *testing.T) {
	good := []Variable{{"A", ""}, {"_x9", "two\nlines"}, {"PATH", "/bin"}, {"millpond_", "lower case is free"}, {"V", strings.Repeat("x", maxVariableValue)}}
	require.NoError(t, validVariables("environment", good))
	for name, v := range map[string]Variable{
		"no name": {"", "x"}, "digit": {"1A", "x"}, "equals": {"A=B", "x"}, "space": {"A B", "x"}, "NUL": {"A\x00", "x"}, "umlaut": {"Ä", "x"}, "dash": {"A-B", "x"},
		"ours": {"MILLPOND_TOKEN", "x"}, "ours, new": {"MILLPOND_", "x"}, "again": {"A", "x"}, "NUL value": {"B", "x\x00"}, "not UTF-8": {"B", "\xff"},
		"long name": {strings.Repeat("A", 129), "x"}, "long value": {"B", strings.Repeat("x", maxVariableValue+1)},
	} {
		err := validVariables("environment", []Variable{{"A", "1"}, v})
		require.True(t, domain.IsCode(err, domain.CodeInvalid), "%s: %v", name, err)
		require.Contains(t, domain.AsError(err).Field, "environment", name)
	}
	many := make([]Variable, maxVariables+1)
	for i := range many {
		many[i].Name = fmt.Sprintf("V%d", i)
	}
	require.NoError(t, validVariables("parameters", many[1:]))
	require.True(t, domain.IsCode(validVariables("parameters", many), domain.CodeInvalid))
}

func TestParametersReplaceDefaults(t *testing.T) {
	declared := []Variable{{"A", "1"}, {"B", "2"}}
	got, err := mergeParameters(declared, []Variable{{"B", "3"}})
	require.NoError(t, err)
	require.Equal(t, []Variable{{"A", "1"}, {"B", "3"}}, got)
	require.Equal(t, "2", declared[1].Value, "the job's own are left alone")
	_, err = mergeParameters(declared, []Variable{{"C", "3"}})
	require.True(t, domain.IsCode(err, domain.CodeInvalid))
	_, err = mergeParameters(declared, []Variable{{"B", "3"}, {"B", "4"}})
	require.True(t, domain.IsCode(err, domain.CodeInvalid))
}

func TestFiles(t *testing.T) {
	sum := strings.Repeat("ab", 32)
	files := []File{{Path: "a.py", Content: []byte("x")}, {Path: "lib/b.py", SHA256: strings.ToUpper(sum), Size: 3}, {Path: "empty", Content: []byte{}}}
	require.NoError(t, prepareFiles(files))
	require.Equal(t, "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881", files[0].SHA256)
	require.Equal(t, 1, files[0].Size)
	require.Equal(t, sum, files[1].SHA256, "hashes are kept in lower case, as contents are found by them")
	require.Equal(t, 0, files[2].Size)

	for _, p := range []string{"", ".", "..", "/etc/passwd", "../x", "a/../../x", "a/../x", "./a", "a//b", "a/", "a\\b", "a\x00", "\xff", strings.Repeat("x", 256)} {
		err := prepareFiles([]File{{Path: p, Content: []byte("x")}})
		require.True(t, domain.IsCode(err, domain.CodeInvalid), "%q: %v", p, err)
		require.Equal(t, "files[0].path", domain.AsError(err).Field, "%q", p)
	}
	for name, f := range map[string][]File{
		"twice":              {{Path: "a", Content: []byte("x")}, {Path: "a", Content: []byte("y")}},
		"file and directory": {{Path: "a/b/c", Content: []byte("x")}, {Path: "a", Content: []byte("y")}},
		"neither":            {{Path: "a"}},
		"not a hash":         {{Path: "a", SHA256: strings.Repeat("zz", 32)}},
		"short hash":         {{Path: "a", SHA256: "abcd"}},
	} {
		require.True(t, domain.IsCode(prepareFiles(f), domain.CodeInvalid), name)
	}
	require.True(t, domain.IsCode(prepareFiles([]File{{Path: "a", Content: bytes.Repeat([]byte("x"), maxFileBytes+1)}}), domain.CodeTooLarge))
	require.True(t, domain.IsCode(prepareFiles(make([]File, maxFiles+1)), domain.CodeInvalid))
}

func TestJobsThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		job   Job
		field string
		code  domain.Code
	}{
		"command and tasks": {Job{Name: "x", Spec: Spec{Command: "true", Tasks: chain(1)}}, "command", domain.CodeInvalid},
		"no name":           {Job{Spec: Spec{Command: "true"}}, "name", domain.CodeInvalid},
		"NUL":               {Job{Name: "x", Spec: Spec{Command: "\x00"}}, "command", domain.CodeInvalid},
		"description":       {Job{Name: "x", Description: strings.Repeat("x", 4097)}, "description", domain.CodeInvalid},
		"concurrency":       {Job{Name: "x", Spec: Spec{MaxConcurrentRuns: -1}}, "max_concurrent_runs", domain.CodeInvalid},
		"retries":           {Job{Name: "x", Spec: Spec{MaxRetries: 101}}, "max_retries", domain.CodeInvalid},
	} {
		err := c.job.validate()
		require.True(t, domain.IsCode(err, c.code), "%s: %v", name, err)
		require.Equal(t, c.field, domain.AsError(err).Field, name)
	}
	large := Job{Name: "x"}
	for i := range 50 {
		large.Tasks = append(large.Tasks, TaskSpec{Key: fmt.Sprintf("t%d", i), Command: strings.Repeat("x", maxCommand)})
	}
	require.True(t, domain.IsCode(large.validate(), domain.CodeTooLarge))
	wide := Job{Name: "x", Spec: Spec{Tasks: chain(1000)}}
	for i := range wide.Tasks {
		wide.Tasks[i].Key = fmt.Sprintf("%s%03d", strings.Repeat("k", 97), i)
		wide.Tasks[i].DependsOn = nil
		for d := range i {
			wide.Tasks[i].DependsOn = append(wide.Tasks[i].DependsOn, wide.Tasks[d].Key)
		}
	}
	require.True(t, domain.IsCode(wide.validate(), domain.CodeTooLarge), "what tasks depend on is part of a job's size")
	empty := Job{Name: "x", Spec: Spec{Tasks: []TaskSpec{}}}
	require.NoError(t, empty.validate(), "a job without anything to run can be saved")
	require.True(t, empty.empty())
}
