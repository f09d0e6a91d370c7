package maintain

import (
	"math"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/require"
)

// Names in the storage are plain paths below the prefix.
func TestNamesInTheStorage(t *testing.T) {
	local, remote := &files{prefix: "file:///lake/ws/"}, &files{prefix: "s3://bucket/ws/"}
	for uri, want := range map[string]string{
		"file:///lake/ws/db/t/x.parquet": "db/t/x.parquet", "file:/lake/ws/db/x": "db/x", "/lake/ws/db//x": "db/x", "file://localhost/lake/ws/x": "x", "file:///lake/ws/k=a%2F..%2Fb/x": "k=a%2F..%2Fb/x",
		"file:///lake/ws/é?#[*]": "é?#[*]", "file:///lake/ws/": "", "file:///lake/ws": "", "file:///lake/ws2/x": "", "file:///lake/ws/../other/x": "", "file:///lake/ws/a/./x": "", "file:///lake/ws/a/..": "",
		"file://host/lake/ws/x": "", "s3://bucket/ws/x": "", "": "", "x": "", "file:///lake/ws/a\x00b": "", `file:///lake/ws/a\..\b`: "", "http:///lake/ws/x": "",
	} {
		name, err := local.name(uri)
		require.Equal(t, want == "", err != nil, "%q: %q", uri, name)
		require.Equal(t, want, name, uri)
	}
	for uri, want := range map[string]string{
		"s3://bucket/ws/a/b": "a/b", "s3a://bucket/ws/a": "a", "s3n://bucket/ws/a": "a", "s3://bucket/ws//a": "", "s3://bucket/ws/../b": "", "s3://bucket2/ws/a": "", "s3://bucket/ws2/a": "", "file:///bucket/ws/a": "",
	} {
		name, err := remote.name(uri)
		require.Equal(t, want == "", err != nil, uri)
		require.Equal(t, want, name, uri)
	}
}

// Delete files stay as long as they apply to a data file that stays. A part of the rewritten files
// may be committed before the rest.
func TestDeletesThatStay(t *testing.T) {
	file := func(content iceberg.ManifestEntryContent) iceberg.DataFile {
		b, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, content, "file:///d", iceberg.ParquetFile, nil, nil, nil, 1, 1)
		require.NoError(t, err)
		return b.Build()
	}
	positions, equality := file(iceberg.EntryContentPosDeletes), file(iceberg.EntryContentEqDeletes)
	oldest := least{}
	oldest.add("0 a", 5)
	oldest.add("0 b", 3)
	sequences := map[string]int64{"stays": 4, "gone": math.MaxInt64, "unknown": -1}
	of := func(paths ...string) map[string]bool {
		all := map[string]bool{}
		for _, p := range paths {
			all[p] = true
		}
		return all
	}
	for name, c := range map[string]struct {
		deleteFile
		dead bool
	}{
		"of a file that stays":            {deleteFile{file: positions, sequence: 4, targets: of("stays")}, false},
		"of two, one of which stays":      {deleteFile{file: positions, sequence: 6, targets: of("gone", "stays")}, false},
		"of what is gone":                 {deleteFile{file: positions, sequence: 6, targets: of("gone")}, true},
		"of what came after":              {deleteFile{file: positions, sequence: 3, targets: of("stays")}, true},
		"of what may be older":            {deleteFile{file: positions, sequence: 3, targets: of("unknown")}, false},
		"of nobody knows when":            {deleteFile{file: positions, sequence: -1, targets: of("gone")}, false},
		"of a partition":                  {deleteFile{file: positions, sequence: 5, partition: "0 a"}, false},
		"of a partition before its files": {deleteFile{file: positions, sequence: 4, partition: "0 a"}, true},
		"by equality":                     {deleteFile{file: equality, sequence: 6, partition: "0 a"}, false},
		"by equality, of older ones":      {deleteFile{file: equality, sequence: 5, partition: "0 a"}, true},
		"by equality, of all":             {deleteFile{file: equality, sequence: 4}, false},
		"by equality, of none":            {deleteFile{file: equality, sequence: 9, partition: "0 c"}, true},
	} {
		require.Equal(t, c.dead, c.deleteFile.dead(sequences, oldest), name)
	}
}

// The parts of a commit contain all groups in order, and each has the wanted size.
func TestPartsOfACommit(t *testing.T) {
	require.Equal(t, [][]group{nil}, parts(nil, 10))
	var groups []group
	for i := range 7 {
		groups = append(groups, group{spec: i, bytes: 4})
	}
	found := parts(groups, 10)
	require.Equal(t, [][]group{groups[:3], groups[3:6], groups[6:]}, found)
	require.Equal(t, [][]group{groups}, parts(groups, 100))
}
