package lake

import (
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/millpond/millpond/domain"
)

const filePrefix = "file:///data/lake/ws_1/"

// TestCanonical: every spelling of a path in the prefix has one form, and every path out of it is
// refused.
func TestCanonical(t *testing.T) {
	for _, c := range []struct{ prefix, raw, want string }{
		{filePrefix, "file:///data/lake/ws_1/t/x", "file:///data/lake/ws_1/t/x"},
		{filePrefix, "file:/data/lake/ws_1/t/x", "file:///data/lake/ws_1/t/x"},
		{filePrefix, "file://localhost/data/lake/ws_1/t/x", "file:///data/lake/ws_1/t/x"},
		{filePrefix, "FILE:///data/lake/ws_1/t", "file:///data/lake/ws_1/t"},
		{filePrefix, "/data/lake/ws_1/t/x", "file:///data/lake/ws_1/t/x"},
		{filePrefix, "file:////data//lake///ws_1//t//x", "file:///data/lake/ws_1/t/x"},
		{filePrefix, "file:///data/lake/ws_1/t/p=a%2Fb/x", "file:///data/lake/ws_1/t/p=a%2Fb/x"},
		{filePrefix, "file:///data/lake/ws_1/t/p=100%/x", "file:///data/lake/ws_1/t/p=100%/x"},
		{filePrefix, "file:///data/lake/ws_1/t/ä b+c:d@e", "file:///data/lake/ws_1/t/ä b+c:d@e"},
		{filePrefix, "file:///data/lake/ws_1/t/..x/x..", "file:///data/lake/ws_1/t/..x/x.."},
		{"s3://b/p/ws_1/", "s3://b/p/ws_1/t/x", "s3://b/p/ws_1/t/x"},
		{"s3://b/p/ws_1/", "s3a://b/p/ws_1/t/x", "s3://b/p/ws_1/t/x"},
		{"s3://b/p/ws_1/", "S3N://b/p/ws_1/t/x", "s3://b/p/ws_1/t/x"},
		{"s3://b/ws_1/", "s3://b/ws_1/t", "s3://b/ws_1/t"},
		{"gs://b/p/ws_1/", "gs://b/p/ws_1/t", "gs://b/p/ws_1/t"},
		{"abfss://c@a.dfs.core.windows.net/ws_1/", "abfs://c@a.dfs.core.windows.net/ws_1/t", "abfss://c@a.dfs.core.windows.net/ws_1/t"},
	} {
		got, err := newFence(c.prefix).canonical("location", c.raw)
		require.NoError(t, err, c.raw)
		require.Equal(t, c.want, got)
	}
	for _, c := range []struct{ prefix, raw string }{
		{filePrefix, ""},
		{filePrefix, "t/x"},
		{filePrefix, "file:t/x"},
		{filePrefix, "file://data/lake/ws_1/t"},
		{filePrefix, "file://evil/data/lake/ws_1/t"},
		{filePrefix, "file://user@localhost/data/lake/ws_1/t"},
		{filePrefix, "file://localhost:80/data/lake/ws_1/t"},
		{filePrefix, "file:///data/lake/ws_1"},
		{filePrefix, "file:///data/lake/ws_1/"},
		{filePrefix, "file:///data/lake/ws_1//"},
		{filePrefix, "file:///data/lake/ws_10/t"},
		{filePrefix, "file:///data/lake/ws_2/t"},
		{filePrefix, "file:///data/lake/WS_1/t"},
		{filePrefix, "file:///etc/passwd"},
		{filePrefix, "/etc/passwd"},
		{filePrefix, "file:///data/lake/ws_1/../ws_2/t"},
		{filePrefix, "file:///data/lake/ws_1/t/.."},
		{filePrefix, "file:///data/lake/ws_1/./t"},
		{filePrefix, "file:///data/lake/ws_1/t/%2e%2e/%2E%2E/ws_2"},
		{filePrefix, "file:///data/lake/ws_1/t/.%2e/x"},
		{filePrefix, "file:///data/lake/ws_1/t%2f..%2f..%2fws_2"},
		{filePrefix, "file:///data/lake/ws_1/t/%252e%252e/x"},
		{filePrefix, "file:///data/lake/ws_1/t/%5c..%5cx"},
		{filePrefix, `file:///data/lake/ws_1/t\..\..\ws_2`},
		{filePrefix, "file:///data/lake/ws_1/t?x=y"},
		{filePrefix, "file:///data/lake/ws_1/t#x"},
		{filePrefix, "file:///data/lake/ws_1/t\x00x"},
		{filePrefix, "file:///data/lake/ws_1/t%00x"},
		{filePrefix, "file:///data/lake/ws_1/t\nx"},
		{filePrefix, "file:///data/lake/ws_1/\xff"},
		{filePrefix, "file:///data/lake/ws_1/" + strings.Repeat("x", 3000)},
		{filePrefix, " file:///data/lake/ws_1/t"},
		{filePrefix, "s3://data/lake/ws_1/t"},
		{filePrefix, "http://localhost/data/lake/ws_1/t"},
		{filePrefix, "hdfs:///data/lake/ws_1/t"},
		{"s3://b/p/ws_1/", "/p/ws_1/t"},
		{"s3://b/p/ws_1/", "s3:/b/p/ws_1/t"},
		{"s3://b/p/ws_1/", "s3://c/p/ws_1/t"},
		{"s3://b/p/ws_1/", "s3://B/p/ws_1/t"},
		{"s3://b/p/ws_1/", "s3://b.evil/p/ws_1/t"},
		{"s3://b/p/ws_1/", "s3://key:secret@b/p/ws_1/t"},
		{"s3://b/p/ws_1/", "s3://b:443/p/ws_1/t"},
		{"s3://b/p/ws_1/", "s3://b/p/ws_2/t"},
		{"s3://b/p/ws_1/", "s3://b/p/ws_1"},
		{"s3://b/p/ws_1/", "s3://b//p/ws_1/t"},
		{"s3://b/p/ws_1/", "s3://b/p/ws_1//t"},
		{"s3://b/p/ws_1/", "file:///p/ws_1/t"},
		{"s3://b/p/ws_1/", "gs://b/p/ws_1/t"},
		{"abfss://c@a.dfs.core.windows.net/ws_1/", "abfss://d@a.dfs.core.windows.net/ws_1/t"},
		{"abfss://c@a.dfs.core.windows.net/ws_1/", "abfss://c@evil.example/ws_1/t"},
	} {
		_, err := newFence(c.prefix).canonical("location", c.raw)
		require.Error(t, err, c.raw)
		require.True(t, domain.IsCode(err, domain.CodeInvalid))
	}
}

// seeds are the parts of hostile paths.
var seeds = []string{
	"file:", "file://", "localhost", "/data/lake/ws_1/", "s3://b/p/ws_1/", "s3a://b", "/", "//", "..", ".", "%2e", "%2E%2e", "%252e", "%2f", "%5c", "\\", "%00", "ws_2", "t", "a%2Fb", "?", "#", "@", ":", " ",
}

// straight checks an accepted path. It is under the prefix however often it is decoded and cleaned,
// and is its own canonical form.
func straight(t interface{ Fatalf(string, ...any) }, raw string) {
	for _, prefix := range []string{filePrefix, "s3://b/p/ws_1/"} {
		fence := newFence(prefix)
		uri, err := fence.canonical("location", raw)
		if err != nil {
			continue
		}
		again, err := fence.canonical("location", uri)
		if err != nil || again != uri {
			t.Fatalf("%q is %q, and that is %q: %v", raw, uri, again, err)
		}
		p := strings.TrimPrefix(uri, strings.TrimSuffix(prefix, fence.root))
		for range 6 {
			if clean := path.Clean(strings.ReplaceAll(p, `\`, "/")); !strings.HasPrefix(clean, fence.root) {
				t.Fatalf("%q leads to %q", raw, clean)
			}
			decoded, err := url.PathUnescape(p)
			if err != nil {
				break
			}
			p = decoded
		}
	}
}

// TestCanonicalOfAnything joins pieces at random.
func TestCanonicalOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.SampledFrom([]string{filePrefix, "s3://b/p/ws_1/", "/data/lake/ws_1/", ""}).Draw(t, "start")
		straight(t, start+strings.Join(rapid.SliceOfN(rapid.SampledFrom(seeds), 0, 12).Draw(t, "pieces"), ""))
	})
}

// FuzzCanonical tries any text.
func FuzzCanonical(f *testing.F) {
	for _, seed := range seeds {
		f.Add(filePrefix + seed)
		f.Add("s3://b/p/ws_1/x" + seed)
	}
	f.Fuzz(func(t *testing.T, raw string) { straight(t, raw) })
}

// TestSlug: only harmless characters of a name are in a path.
func TestSlug(t *testing.T) {
	for name, want := range map[string]string{"Events": "-events", "../../x": "-x", "Ö": "", "a b.c": "-abc", strings.Repeat("x", 99): "-" + strings.Repeat("x", 40)} {
		require.Equal(t, want, slug(name))
	}
}
