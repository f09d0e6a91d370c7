package catalog

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/millpond/millpond/agent/engine/avrofile"
)

// Files reads and writes files of the workspace's storage.
type Files interface {
	Read(path string) ([]byte, error)
	Write(path string, content []byte) error
}

// maxRebases bounds the rebased commits of a statement before it runs again.
const maxRebases = 10

// errNoAppend means that a commit cannot be rebased. Its statement runs again.
var errNoAppend = errors.New("the commit cannot be rebased")

// appendCommit is a commit that only appends to the main branch of one table.
type appendCommit struct {
	body         map[string]any
	table        string // path in the catalog
	requirements []any
	ref          map[string]any // the requirement that pins the state which the commit builds on
	snapshot     map[string]any
}

// tableState is the part of a table's metadata that a rebase needs.
type tableState struct {
	Version      json.Number      `json:"format-version"`
	UUID         string           `json:"table-uuid"`
	Schema       json.Number      `json:"current-schema-id"`
	Spec         json.Number      `json:"default-spec-id"`
	Sequence     json.Number      `json:"last-sequence-number"`
	NextRow      json.Number      `json:"next-row-id"`
	Updated      json.Number      `json:"last-updated-ms"`
	Current      json.Number      `json:"current-snapshot-id"`
	RawSnapshots []map[string]any `json:"snapshots"`
}

// current returns the current snapshot, or nil.
func (t tableState) current() map[string]any {
	for _, s := range t.RawSnapshots {
		if s["snapshot-id"] == t.Current {
			return s
		}
	}
	return nil
}

// has reports whether the table has a snapshot.
func (t tableState) has(id any) bool {
	return slices.ContainsFunc(t.RawSnapshots, func(s map[string]any) bool { return s["snapshot-id"] == id })
}

// readNumbers decodes JSON and keeps all digits of numbers.
func readNumbers(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return d.Decode(into)
}

// readAppend parses a commit in either form of the protocol. It returns errNoAppend if the commit
// does more than append.
func readAppend(r *Request, upstream string) (*appendCommit, error) {
	c := &appendCommit{}
	if r.Method != http.MethodPost || readNumbers(r.Body, &c.body) != nil {
		return nil, errNoAppend
	}
	change := c.body
	c.table = strings.TrimPrefix(r.URL, upstream)
	if prefix, ok := strings.CutSuffix(c.table, "/transactions/commit"); ok {
		changes, _ := c.body["table-changes"].([]any)
		if len(changes) != 1 {
			return nil, errNoAppend
		}
		change, _ = changes[0].(map[string]any)
		identifier, _ := change["identifier"].(map[string]any)
		levels, _ := identifier["namespace"].([]any)
		var names []string
		for _, l := range levels {
			names = append(names, fmt.Sprint(l))
		}
		c.table = prefix + "/namespaces/" + url.PathEscape(strings.Join(names, "\x1f")) + "/tables/" + url.PathEscape(fmt.Sprint(identifier["name"]))
	}
	if tableOf(c.table) == "" || !c.readChange(change) {
		return nil, errNoAppend
	}
	return c, nil
}

// readChange reports whether a change is a single append to main.
func (c *appendCommit) readChange(change map[string]any) bool {
	c.requirements, _ = change["requirements"].([]any)
	for _, q := range c.requirements {
		switch q, _ := q.(map[string]any); q["type"] {
		case "assert-ref-snapshot-id":
			if c.ref != nil || q["ref"] != "main" {
				return false
			}
			c.ref = q
		case "assert-create":
			return false
		}
	}
	updates, _ := change["updates"].([]any)
	led := false
	for _, u := range updates {
		u, _ := u.(map[string]any)
		switch u["action"] {
		case "add-snapshot":
			if c.snapshot != nil {
				return false
			}
			c.snapshot, _ = u["snapshot"].(map[string]any)
		case "set-snapshot-ref":
			if led || u["ref-name"] != "main" || c.snapshot == nil || u["snapshot-id"] != c.snapshot["snapshot-id"] {
				return false
			}
			led = true
		default:
			return false
		}
	}
	summary, _ := c.snapshot["summary"].(map[string]any)
	return c.ref != nil && led && summary["operation"] == "append"
}

// lostRace reports whether the catalog refused a commit because another commit won.
func lostRace(a *Answer) bool {
	return a.Status == http.StatusConflict && bytes.Contains(a.Body, []byte(`"CommitFailedException"`))
}

// rebase sends an append that lost its race again, on the table's newest state. It returns the
// first answer that is not a conflict. It returns errNoAppend if a rebase is impossible or the time
// is over.
func (s *Statement) rebase(ctx context.Context, r *Request) (*Answer, error) {
	s.rebasing.Lock()
	defer s.rebasing.Unlock()
	if s.files == nil {
		return nil, errNoAppend
	}
	c, err := readAppend(r, s.upstream)
	if err != nil {
		return nil, err
	}
	var ours *avrofile.File
	for ; s.rebases < maxRebases; s.rebases++ {
		now, loaded, err := s.newest(ctx, c)
		if err != nil {
			return nil, err
		}
		if now.has(c.snapshot["snapshot-id"]) {
			return s.made(r, loaded), nil
		}
		if ours == nil {
			if ours, err = s.list(c.snapshot["manifest-list"]); err != nil {
				return nil, errNoAppend
			}
		}
		body, err := s.rebased(now, c, ours)
		if err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, errNoAppend
		}
		again := &Request{Method: r.Method, URL: r.URL, Header: r.Header.Clone(), Body: body}
		a, err := s.send(ctx, again)
		if err != nil || !lostRace(a) {
			return a, err
		}
	}
	return nil, errNoAppend
}

// newest loads the table of a commit.
func (s *Statement) newest(ctx context.Context, c *appendCommit) (now tableState, a *Answer, err error) {
	var loaded struct{ Metadata tableState }
	a, err = (&Request{Method: http.MethodGet, URL: s.upstream + c.table, Header: s.authorized()}).Once(ctx, &s.proxy.client)
	if err != nil || a.Status != http.StatusOK || readNumbers(a.Body, &loaded) != nil {
		return now, nil, errNoAppend
	}
	return loaded.Metadata, a, nil
}

// made returns the answer to a commit that the loaded table already contains.
func (s *Statement) made(r *Request, loaded *Answer) *Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = true
	if strings.HasSuffix(r.URL, "/transactions/commit") {
		return &Answer{Status: http.StatusNoContent}
	}
	return loaded
}

func (s *Statement) list(path any) (*avrofile.File, error) {
	name, _ := path.(string)
	b, err := s.files.Read(name)
	if err != nil {
		return nil, err
	}
	return avrofile.Read(b)
}

// rebased returns the body of the commit on the table's newest state. It writes the manifest list.
func (s *Statement) rebased(now tableState, c *appendCommit, ours *avrofile.File) ([]byte, error) {
	if !c.fits(now) {
		return nil, errNoAppend
	}
	var before []map[string]any
	if current := now.current(); current != nil {
		theirs, err := s.list(current["manifest-list"])
		if err != nil {
			return nil, errNoAppend
		}
		before = translated(theirs, ours)
	}
	records, err := c.manifests(now, before, ours)
	if err != nil {
		return nil, err
	}
	c.follow(now)
	for key, value := range map[string]any{"sequence-number": c.snapshot["sequence-number"], "parent-snapshot-id": c.snapshot["parent-snapshot-id"]} {
		if _, there := ours.Header[key]; there {
			ours.Header[key] = []byte(fmt.Sprint(value))
		}
	}
	b, err := ours.Encode("", records)
	if err != nil { // another writer's list has fields that ours cannot hold
		return nil, errNoAppend
	}
	list, _ := c.snapshot["manifest-list"].(string)
	at := strings.TrimSuffix(list, path.Base(list)) + "snap-" + fmt.Sprint(c.snapshot["snapshot-id"]) + "-" + rand.Text() + ".avro"
	if err := s.files.Write(at, b); err != nil {
		return nil, errNoAppend
	}
	c.snapshot["manifest-list"] = at
	return json.Marshal(c.body)
}

// fits reports whether this is the table that the commit was made for, with the same schema and
// format. A table of the same name may have replaced it.
func (c *appendCommit) fits(now tableState) bool {
	same := slices.ContainsFunc(c.requirements, func(q any) bool {
		asserted, _ := q.(map[string]any)
		return asserted["type"] == "assert-table-uuid" && asserted["uuid"] == now.UUID
	})
	if !same {
		return false
	}
	_, rows := c.snapshot["first-row-id"]
	return c.snapshot["schema-id"] == now.Schema && number(now.Version) >= 2 && rows == (number(now.Version) >= 3) && (now.Current == "" || number(now.Current) < 0 || now.current() != nil)
}

// manifests returns the manifests of the table's newest state, followed by those that the commit
// adds.
func (c *appendCommit) manifests(now tableState, before []map[string]any, ours *avrofile.File) ([]map[string]any, error) {
	id := number(c.snapshot["snapshot-id"])
	next := number(now.NextRow)
	versioned := number(now.Version) >= 3
	for _, m := range before {
		if versioned && number(m["content"]) == 0 && m["first_row_id"] == nil { // of an upgraded table
			return nil, errNoAppend
		}
	}
	added := 0
	for _, m := range ours.Records {
		if number(m["added_snapshot_id"]) != id {
			continue
		}
		if number(m["content"]) != 0 || number(m["partition_spec_id"]) != number(now.Spec) || number(m["existing_files_count"]) != 0 || number(m["deleted_files_count"]) != 0 {
			return nil, errNoAppend
		}
		m["sequence_number"], m["min_sequence_number"] = number(now.Sequence)+1, number(now.Sequence)+1
		if versioned {
			m["first_row_id"] = next
			next += number(m["added_rows_count"])
		}
		before = append(before, m)
		added++
	}
	if added == 0 {
		return nil, errNoAppend
	}
	return before, nil
}

// follow makes the snapshot the successor of the table's newest snapshot.
func (c *appendCommit) follow(now tableState) {
	current := now.current()
	c.snapshot["sequence-number"] = json.Number(strconv.FormatInt(number(now.Sequence)+1, 10))
	if number(c.snapshot["timestamp-ms"]) < number(now.Updated) {
		c.snapshot["timestamp-ms"] = now.Updated
	}
	if number(now.Version) >= 3 {
		c.snapshot["first-row-id"] = now.NextRow
	}
	delete(c.snapshot, "parent-snapshot-id")
	c.ref["snapshot-id"] = nil
	if current != nil {
		c.snapshot["parent-snapshot-id"], c.ref["snapshot-id"] = current["snapshot-id"], current["snapshot-id"]
	}
	summary, _ := c.snapshot["summary"].(map[string]any)
	totals, _ := current["summary"].(map[string]any)
	for total, added := range map[string]string{
		"total-records": "added-records", "total-data-files": "added-data-files", "total-files-size": "added-files-size",
		"total-delete-files": "", "total-position-deletes": "", "total-equality-deletes": "",
	} {
		if _, known := totals[total]; !known && current != nil {
			delete(summary, total)
			continue
		}
		if _, kept := summary[total]; kept || current != nil {
			summary[total] = strconv.FormatInt(number(totals[total])+number(summary[added]), 10)
		}
	}
}

// translated renames the fields of manifest list records. Fields with the same ids get the names of
// the other list.
func translated(from, to *avrofile.File) []map[string]any {
	names := fieldNames(to.Schema)
	theirs := fieldNames(from.Schema)
	all := make([]map[string]any, len(from.Records))
	for i, record := range from.Records {
		all[i] = map[string]any{}
		for id, name := range names {
			all[i][name] = record[theirs[id]]
		}
	}
	return all
}

// fieldNames maps field ids to the names of a record's fields.
func fieldNames(schema any) map[string]string {
	names := map[string]string{}
	record, _ := schema.(map[string]any)
	fields, _ := record["fields"].([]any)
	for _, f := range fields {
		field, _ := f.(map[string]any)
		names[fmt.Sprint(field["field-id"])], _ = field["name"].(string)
	}
	return names
}

// number returns an integer from JSON, Avro or a summary. It returns 0 for other values.
func number(v any) int64 {
	n, _ := strconv.ParseInt(fmt.Sprint(v), 10, 64) // 0 on error
	return n
}
