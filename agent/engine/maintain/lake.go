package maintain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	"github.com/millpond/millpond/agent/engine/errand"
)

// lake is the platform's catalog, for one table. It implements table.CatalogIO, and has tables read and write through the fence.
type lake struct {
	job     *job
	catalog *rest.Catalog
	carrier *carrier
	name    table.Identifier
	totals  map[string]int64 // of the snapshot that is committed; nil for what iceberg-go says
}

func openLake(j *job) (*lake, error) {
	c := &carrier{token: j.Catalog.Token, statement: j.Statement, patience: j.patience}
	c.client.Transport = &http.Transport{MaxIdleConnsPerHost: 4}
	opened, err := rest.NewCatalog(j.ctx, "lake", strings.TrimSuffix(j.Catalog.URL, "/"), rest.WithCustomTransport(c), rest.WithOAuthToken(j.Catalog.Token), rest.WithWarehouseLocation(j.Table.Database))
	if err != nil {
		return nil, err
	}
	return &lake{job: j, catalog: opened, carrier: c, name: append(strings.Split(j.Table.Schema, "."), j.Table.Table)}, nil
}

func (l *lake) close() {
	_ = l.catalog.Close()
	l.carrier.client.CloseIdleConnections()
}

// load reads the table as it is now.
func (l *lake) load() (*table.Table, error) { return l.LoadTable(l.job.ctx, l.name) }

// LoadTable implements table.CatalogIO.
func (l *lake) LoadTable(ctx context.Context, name table.Identifier) (*table.Table, error) {
	t, err := l.catalog.LoadTable(ctx, name)
	if err != nil {
		return nil, err
	}
	return table.New(name, t.Metadata(), t.MetadataLocation(), l.job.files.io, l), nil
}

// errLost says that another commit was faster: nothing was made of this one. It is none of iceberg-go's own, which would try again by itself, on what was read before.
var errLost = errors.New("another commit was faster")

// CommitTable implements table.CatalogIO.
func (l *lake) CommitTable(ctx context.Context, name table.Identifier, requirements []table.Requirement, updates []table.Update) (table.Metadata, string, error) {
	// iceberg-go adds a mapping of names to the table's properties, by which other clients may read files otherwise than before.
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
	if _, said := errors.AsType[*answeredError](err); !said { // also an answer that cannot be read: what was written may be in the table
		if _, unsure := errors.AsType[*errand.UnsureError](err); !unsure {
			err = &errand.UnsureError{Why: err}
		}
	}
	return nil, "", err
}

// counted is a change that adds a snapshot, with its totals.
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

// A job that loses the race for its table begins anew on the table as it is then, so often and after about so long.
const (
	attempts = 30
	backoff  = 20 * time.Millisecond
)

// racing commits until the race is won.
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

// carrier sends what iceberg-go asks of the catalog: with the statement's token, and a change under a key, until it is known what became of it.
type carrier struct {
	client    http.Client
	token     string
	statement string
	patience  time.Duration

	mu   sync.Mutex
	sent int // changes
}

// RoundTrip implements http.RoundTripper.
func (c *carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	asked := &errand.Errand{Method: r.Method, URL: r.URL.String(), Header: errand.Passed(r.Header)}
	if r.Body != nil {
		var err error
		asked.Body, err = io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	asked.Header.Set("Authorization", "Bearer "+c.token)
	a, err := c.carry(r.Context(), asked)
	if err != nil {
		return nil, err
	}
	if a.Status >= http.StatusBadRequest && a.Status != http.StatusNotFound {
		return nil, answered(a)
	}
	return &http.Response{
		Status: http.StatusText(a.Status), StatusCode: a.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: errand.Passed(a.Header), Body: io.NopCloser(bytes.NewReader(a.Body)), ContentLength: int64(len(a.Body)), Request: r,
	}, nil
}

func (c *carrier) carry(ctx context.Context, asked *errand.Errand) (*errand.Answer, error) {
	if asked.Method == http.MethodGet || asked.Method == http.MethodHead {
		return asked.Until(ctx, &c.client, c.patience)
	}
	c.mu.Lock()
	c.sent++
	key := fmt.Sprint(c.statement, "/", c.sent) // what was refused is asked anew: not all refusals are for ever
	c.mu.Unlock()
	asked.Header.Set("Idempotency-Key", asked.Key(key))
	a, err := asked.Until(context.WithoutCancel(ctx), &c.client, c.patience)
	if err != nil {
		return nil, &errand.UnsureError{Why: err}
	}
	return a, nil
}

// answeredError is an answer other than success.
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

func answered(a *errand.Answer) error {
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

// collected refuses what says that its files are not only its own.
func collected(t *table.Table) error {
	if t.Properties().GetBool("gc.enabled", true) {
		return nil
	}
	return refuse(agent.FaultQuery, "The table has the property gc.enabled=false, by which none of its files is ever removed: others may need them. Set it to true if that is not so.")
}
