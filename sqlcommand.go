package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"
	"unicode"
)

// sqlCommand runs a SQL statement on a warehouse. A task's environment holds the platform's address
// and a token.
type sqlCommand struct {
	Query     string   `arg:"" help:"One SQL statement; - reads it from standard input."`
	URL       string   `help:"Address of the platform." default:"http://127.0.0.1:8080"`
	Token     string   `help:"An API key or an access token. Better in the environment (MILLPOND_TOKEN), where other users do not see it."`
	Warehouse string   `help:"Name or id of the warehouse." default:"default"`
	Database  string   `help:"Default database of names." placeholder:"NAME" env:"MILLPOND_SQL_DATABASE"`
	Schema    string   `help:"Default schema of names." placeholder:"NAME" env:"MILLPOND_SQL_SCHEMA"`
	Parameter []string `help:"Value of $1, $2 and so on, or of the next ?, as text; cast it in the statement. Repeatable." placeholder:"TEXT" sep:"none"`
	Format    string   `help:"table, csv or json." enum:"table,csv,json" default:"table"`
}

// Run runs the statement and prints its result.
func (c *sqlCommand) Run(ctx context.Context) error {
	query := c.Query
	if query == "-" {
		b, err := io.ReadAll(os.Stdin)
		if err != nil {
			return err
		}
		query = string(b)
	}
	if c.Token == "" {
		return errors.New("give an API key in MILLPOND_TOKEN; create one on the console under Workspace, API keys")
	}
	body, err := json.Marshal(map[string]any{
		"query": query, "warehouse_id": c.Warehouse, "database": c.Database, "schema": c.Schema, "parameters": c.Parameter,
	})
	if err != nil {
		return err
	}
	accept := "application/json"
	if c.Format == "csv" {
		accept = "text/csv"
	}
	res, err := c.call(ctx, http.MethodPost, "/sql/execute", accept, body)
	if err != nil {
		return err
	}
	if c.Format == "table" {
		defer func() { _ = res.Body.Close() }()
		return printTable(os.Stdout, res.Body)
	}
	if c.Format == "json" {
		return c.printJSON(ctx, os.Stdout, res)
	}
	for n := 0; ; n++ {
		_, err := io.Copy(lineFrom(os.Stdout, n > 0), res.Body)
		_ = res.Body.Close()
		next := res.Header.Get("Millpond-Next-Chunk")
		if err != nil || next == "" {
			return err
		}
		if res, err = c.chunk(ctx, res.Header.Get("Millpond-Statement-Id"), next, accept); err != nil {
			return err
		}
	}
}

// printJSON prints the result as one document: the first answer with the rows of all chunks.
func (c *sqlCommand) printJSON(ctx context.Context, w io.Writer, res *http.Response) error {
	var first map[string]json.RawMessage
	comma := ""
	for {
		var piece map[string]json.RawMessage
		err := json.NewDecoder(res.Body).Decode(&piece)
		_ = res.Body.Close()
		if err != nil {
			return fmt.Errorf("reading the result: %w", err)
		}
		if first == nil {
			first = piece
			if _, err := io.WriteString(w, `{"rows":[`); err != nil {
				return err
			}
		}
		if rows := bytes.TrimSpace(piece["rows"]); len(rows) > 2 {
			if _, err := fmt.Fprintf(w, "%s%s", comma, rows[1:len(rows)-1]); err != nil {
				return err
			}
			comma = ","
		}
		next := string(piece["next_chunk"])
		if next == "" {
			return endJSON(w, first)
		}
		var id string
		if err := json.Unmarshal(first["statement_id"], &id); err != nil {
			return err
		}
		if res, err = c.chunk(ctx, id, next, "application/json"); err != nil {
			return err
		}
	}
}

// endJSON prints the result's fields after its rows. If the first answer named further chunks,
// their rows are included by now.
func endJSON(w io.Writer, first map[string]json.RawMessage) error {
	if first["next_chunk"] != nil {
		delete(first, "truncated")
	}
	delete(first, "rows")
	delete(first, "next_chunk")
	rest, err := json.Marshal(first)
	if err != nil {
		return err
	}
	end := "]}\n"
	if len(first) > 0 {
		end = "]," + string(rest[1:]) + "\n"
	}
	_, err = io.WriteString(w, end)
	return err
}

// chunk requests a chunk of the result until it is available.
func (c *sqlCommand) chunk(ctx context.Context, id, n, accept string) (*http.Response, error) {
	for {
		res, err := c.call(ctx, http.MethodGet, "/sql/statements/"+id+"/chunks/"+n, accept, nil)
		if err != nil || res.StatusCode != http.StatusAccepted {
			return res, err
		}
		_ = res.Body.Close() // the server has already waited
	}
}

// call returns answers with 200 and 202; every other status is an error in the platform's words.
func (c *sqlCommand) call(ctx context.Context, method, path, accept string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.URL, "/")+"/api/v1"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.Token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", accept)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("the platform cannot be reached: %w", err)
	}
	if res.StatusCode == http.StatusOK || res.StatusCode == http.StatusAccepted {
		return res, nil
	}
	defer func() { _ = res.Body.Close() }()
	var failed struct {
		Error string `json:"error"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&failed); err != nil || failed.Error == "" {
		return nil, fmt.Errorf("the platform answered %s", res.Status)
	}
	return nil, errors.New(failed.Error)
}

// printTable prints a result as a table. For a write it prints the number of changed rows, or that
// it is done. Of several chunks it prints the first.
func printTable(to io.Writer, body io.Reader) error {
	var r struct {
		Columns   []string            `json:"columns"`
		Rows      [][]json.RawMessage `json:"rows"`
		Affected  *int64              `json:"rows_affected"`
		Truncated bool                `json:"truncated"`
	}
	if err := json.NewDecoder(body).Decode(&r); err != nil {
		return err
	}
	if r.Affected != nil {
		_, err := fmt.Fprintln(to, "Rows changed:", *r.Affected)
		return err
	}
	if len(r.Columns) == 0 {
		_, err := fmt.Fprintln(to, "Done.")
		return err
	}
	w := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	printRow(w, r.Columns)
	for _, row := range r.Rows {
		texts := make([]string, len(row))
		for i, value := range row {
			if json.Unmarshal(value, &texts[i]) != nil || string(value) == "null" {
				texts[i] = string(value)
			}
		}
		printRow(w, texts)
	}
	if r.Truncated {
		fmt.Fprintln(w, "… there are more rows; --format csv prints them all")
	}
	return w.Flush()
}

// printRow prints cells in one line. A space replaces each control character, which the terminal
// would interpret.
func printRow(w io.Writer, cells []string) {
	for i, cell := range cells {
		if i > 0 {
			fmt.Fprint(w, "\t")
		}
		fmt.Fprint(w, strings.Map(visible, cell))
	}
	fmt.Fprintln(w)
}

func visible(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return ' '
}

// lineFrom drops the first line if skip is set: the column names with which each chunk begins.
func lineFrom(w io.Writer, skip bool) io.Writer {
	if !skip {
		return w
	}
	return &lineSkipper{w: w}
}

type lineSkipper struct {
	w      io.Writer
	past   bool
	quoted bool
}

// Write implements io.Writer. Quoted names may contain line ends, so the line ends at a line end
// outside quotes. A doubled quote closes and reopens.
func (l *lineSkipper) Write(b []byte) (int, error) {
	for i := 0; !l.past && i < len(b); i++ {
		switch {
		case b[i] == '"':
			l.quoted = !l.quoted
		case b[i] == '\n' && !l.quoted:
			l.past = true
			n, err := l.w.Write(b[i+1:])
			return i + 1 + n, err
		}
	}
	if !l.past {
		return len(b), nil
	}
	return l.w.Write(b)
}
