package maintain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/iceberg-go/catalog/rest"
	"github.com/apache/iceberg-go/table"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/catalog"
)

// lake is the platform's catalog, for one table. It implements table.CatalogIO. Its tables read and
// write through files.
type lake struct {
	job              *job
	catalog          *rest.Catalog
	catalogTransport *catalogTransport
	name             table.Identifier
	totals           map[string]int64 // of the committed snapshot; nil to use iceberg-go's
}

func openLake(j *job) (*lake, error) {
	c := &catalogTransport{token: j.Catalog.Token, statement: j.Statement, commitTime: j.commitTime}
	c.client.Transport = &http.Transport{MaxIdleConnsPerHost: 4}
	opened, err := rest.NewCatalog(j.ctx, "lake", strings.TrimSuffix(j.Catalog.URL, "/"), rest.WithCustomTransport(c), rest.WithOAuthToken(j.Catalog.Token), rest.WithWarehouseLocation(j.Table.Database))
	if err != nil {
		return nil, err
	}
	return &lake{job: j, catalog: opened, catalogTransport: c, name: append(strings.Split(j.Table.Schema, "."), j.Table.Table)}, nil
}

func (l *lake) close() {
	_ = l.catalog.Close()
	l.catalogTransport.client.CloseIdleConnections()
}

// load loads the table's current state.
func (l *lake) load() (*table.Table, error) { return l.LoadTable(l.job.ctx, l.name) }

// LoadTable implements table.CatalogIO.
func (l *lake) LoadTable(ctx context.Context, name table.Identifier) (*table.Table, error) {
	t, err := l.catalog.LoadTable(ctx, name)
	if err != nil {
		return nil, err
	}
	return table.New(name, t.Metadata(), t.MetadataLocation(), l.job.files.io, l), nil
}

// errLost means that another commit won the race, and that this one changed nothing. It is not an
// iceberg-go error, because iceberg-go would retry with stale state.
var errLost = errors.New("another commit was faster")

// CommitTable implements table.CatalogIO.
func (l *lake) CommitTable(ctx context.Context, name table.Identifier, requirements []table.Requirement, updates []table.Update) (table.Metadata, string, error) {
	// iceberg-go adds a name mapping to the table's properties. Other clients could then read the
	// files differently.
	updates = slices.DeleteFunc(slices.Clone(updates), func(u table.Update) bool { return u.Action() == table.UpdateSetProperties })
	for i, u := range updates {
		counted, err := l.counted(u)
		if err != nil {
			return nil, "", err
		}
		updates[i] = counted
	}
	meta, location, err := l.catalog.CommitTable(context.WithoutCancel(ctx), name, requirements, updates)
	if a, ok := errors.AsType[*answeredError](err); ok && a.status == http.StatusConflict {
		return nil, "", errLost
	}
	if err == nil {
		l.job.kept++
		l.job.files.keep()
		return meta, location, nil
	}
	if _, said := errors.AsType[*answeredError](err); !said { // or an unreadable answer: the files may be in the table
		if _, unsure := errors.AsType[*catalog.UnsureError](err); !unsure {
			err = &catalog.UnsureError{Why: err}
		}
	}
	return nil, "", err
}

// forget commits the removal of snapshots. The catalog stores the id of the list of files to erase
// with the commit. An empty list means that no files are erased.
func (l *lake) forget(t *table.Table, requirements []table.Requirement, updates []table.Update, list string) error {
	if list != "" {
		l.catalogTransport.forgets = http.Header{"Millpond-Erase-List": {list}, "Millpond-Erase-After": {l.job.EraseAfter.String()}}
		defer func() { l.catalogTransport.forgets = nil }()
	}
	_, _, err := l.CommitTable(l.job.ctx, t.Identifier(), requirements, updates)
	return err
}

// counted sets the totals in an update that adds a snapshot.
func (l *lake) counted(u table.Update) (table.Update, error) {
	if l.totals == nil || u.Action() != table.UpdateAddSnapshot {
		return u, nil
	}
	b, err := json.Marshal(u)
	if err != nil {
		return nil, err
	}
	var fields, snapshot map[string]json.RawMessage
	var summary map[string]string
	if err := errors.Join(json.Unmarshal(b, &fields), json.Unmarshal(fields["snapshot"], &snapshot), json.Unmarshal(snapshot["summary"], &summary)); err != nil {
		return nil, err
	}
	for name, n := range l.totals {
		summary[name] = strconv.FormatInt(n, 10)
	}
	if snapshot["summary"], err = json.Marshal(summary); err != nil {
		return nil, err
	}
	if fields["snapshot"], err = json.Marshal(snapshot); err != nil {
		return nil, err
	}
	if b, err = json.Marshal([]any{fields}); err != nil {
		return nil, err
	}
	var all table.Updates
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, err
	}
	return all[0], nil
}

// A job that loses the race for its table restarts on the table's new state. These bound the
// attempts and their pause.
const (
	attempts = 30
	backoff  = 20 * time.Millisecond
)

// racing retries try until it wins the race.
func (j *job) racing(try func() error) error {
	for n := 1; ; n++ {
		err := try()
		if !errors.Is(err, errLost) {
			return err
		}
		if n == attempts {
			return refuse(agent.FaultConflict, "The statement lost the race for its table %d times: others commit to it all the time. Run it again when less is written.", attempts)
		}
		select {
		case <-j.ctx.Done():
			return j.ctx.Err()
		case <-time.After(time.Duration(rand.Int64N(int64(backoff) * int64(min(n, 10))))):
		}
	}
}

// catalogTransport sends iceberg-go's catalog requests with the statement's token. It sends a
// change under an idempotency key until its result is known.
type catalogTransport struct {
	client     http.Client
	token      string
	statement  string
	commitTime time.Duration

	forgets http.Header // for the next change

	mu         sync.Mutex
	sent       int  // number of changes
	registered bool // the loaded table is registered: its files came from elsewhere
}

// RoundTrip implements http.RoundTripper.
func (c *catalogTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	asked := &catalog.Request{Method: r.Method, URL: r.URL.String(), Header: catalog.Passed(r.Header)}
	if r.Body != nil {
		var err error
		asked.Body, err = io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	asked.Header.Set("Authorization", "Bearer "+c.token)
	a, err := c.send(r.Context(), asked)
	if err != nil {
		return nil, err
	}
	if a.Status >= http.StatusBadRequest && a.Status != http.StatusNotFound {
		return nil, answered(a)
	}
	if a.Header.Get(registeredHeader) == "true" {
		c.mu.Lock()
		c.registered = true
		c.mu.Unlock()
	}
	return &http.Response{
		Status: http.StatusText(a.Status), StatusCode: a.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: catalog.Passed(a.Header), Body: io.NopCloser(bytes.NewReader(a.Body)), ContentLength: int64(len(a.Body)), Request: r,
	}, nil
}

// registeredHeader marks a registered table in the catalog's answers. Its files are never removed.
const registeredHeader = "Millpond-Registered"

// registered reports whether the loaded table is a registered one.
func (l *lake) registered() bool {
	l.catalogTransport.mu.Lock()
	defer l.catalogTransport.mu.Unlock()
	return l.catalogTransport.registered
}

func (c *catalogTransport) send(ctx context.Context, asked *catalog.Request) (*catalog.Answer, error) {
	if asked.Method == http.MethodGet || asked.Method == http.MethodHead {
		return asked.Until(ctx, &c.client, c.commitTime)
	}
	c.mu.Lock()
	c.sent++
	// A refused change gets a new key, because a refusal may be temporary.
	key := fmt.Sprint(c.statement, "/", c.sent)
	c.mu.Unlock()
	asked.Header.Set("Idempotency-Key", asked.Key(key))
	maps.Copy(asked.Header, c.forgets)
	a, err := asked.Until(context.WithoutCancel(ctx), &c.client, c.commitTime)
	if err != nil {
		return nil, &catalog.UnsureError{Why: err}
	}
	return a, nil
}

// answeredError is an answer of the catalog with a non-success status.
type answeredError struct {
	status  int
	message string
}

func (e *answeredError) Error() string { return e.message }

func (e *answeredError) fault() agent.StatementFault {
	switch {
	case e.status == http.StatusForbidden || e.status == http.StatusUnauthorized:
		return agent.FaultForbidden
	case e.status == http.StatusConflict:
		return agent.FaultConflict
	case e.status >= http.StatusInternalServerError:
		return agent.FaultEngine
	}
	return agent.FaultQuery
}

func answered(a *catalog.Answer) error {
	var e struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(a.Body, &e) != nil || e.Error.Message == "" {
		e.Error.Message = fmt.Sprintf("the catalog answered %d", a.Status)
	}
	return &answeredError{a.Status, e.Error.Message}
}

// collected refuses a table whose properties say that others share its files.
func collected(t *table.Table) error {
	if t.Properties().GetBool("gc.enabled", true) {
		return nil
	}
	return refuse(agent.FaultQuery, "The table has the property gc.enabled=false, by which none of its files is ever removed: others may need them. Set it to true if that is not so.")
}
