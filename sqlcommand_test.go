package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestTheNamesOfColumnsAreLeftOutOfFurtherChunks(t *testing.T) {
	var out bytes.Buffer
	_, err := io.Copy(lineFrom(&out, true), iotest.OneByteReader(bytes.NewReader([]byte("\"a\n\"\"b\",c\n1,2\n\"x\ny\",3\n"))))
	require.NoError(t, err)
	require.Equal(t, "1,2\n\"x\ny\",3\n", out.String())
}

func TestJSONIsOneDocument(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int
		_, _ = fmt.Sscanf(r.URL.Path, "/api/v1/sql/statements/stm_1/chunks/%d", &n)
		next := fmt.Sprintf(`,"next_chunk":%d`, n+1)
		if n == 2 {
			next = ""
		}
		_, _ = fmt.Fprintf(w, `{"statement_id":"stm_1","columns":["a"],"rows":[[%d],["x"]],"truncated":true%s}`, n, next)
	}))
	defer server.Close()
	c := &sqlCommand{URL: server.URL}
	res, err := http.Get(server.URL + "/api/v1/sql/execute")
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, c.printJSON(t.Context(), &out, res))
	var got struct {
		Columns []string
		Rows    [][]any
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &got), out.String())
	require.Equal(t, [][]any{{0.0}, {"x"}, {1.0}, {"x"}, {2.0}, {"x"}}, got.Rows)
	require.Equal(t, []string{"a"}, got.Columns)
}

func TestAResultForATerminal(t *testing.T) {
	for answer, want := range map[string]string{
		`{"columns":["n","text"],"rows":[[1,"a\tb\n\u001b[2J"],[null,"null"]]}`: "n     text\n1     a b  [2J\nnull  null\n",
		`{"columns":["n"],"rows":[],"truncated":true}`:                          "n\n… there are more rows; --format csv prints them all\n",
		`{"columns":[],"rows":[],"rows_affected":2}`:                            "Rows changed: 2\n",
		`{"columns":[],"rows":[]}`:                                              "Done.\n",
	} {
		var out bytes.Buffer
		require.NoError(t, printTable(&out, strings.NewReader(answer)))
		require.Equal(t, want, out.String())
	}
}
