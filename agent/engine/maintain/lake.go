package maintain

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/apache/iceberg-go/catalog/rest"
	"github.com/apache/iceberg-go/table"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/catalog"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// lake is the platform's catalog, for one table. It implements table.CatalogIO. Its tables read and
// write through files.
type lake struct {
	job     *job
	catalog *rest.Catalog
	proxy   *catalog.Proxy
	asking  *catalog.Statement
	name    table.Identifier
	totals  map[string]int64 // of the committed snapshot; nil to use iceberg-go's
	forgets http.Header      // for the next change

	registered atomic.Bool // the loaded table is registered: its files came from elsewhere
}

func openLake(j *job) (_ *lake, err error) {
	l := &lake{job: j, proxy: catalog.New(catalog.Options{CommitTime: j.commitTime, Repeat: true}), name: append(strings.Split(j.Table.Schema, "."), j.Table.Table)}
	l.asking = l.proxy.Open(&agent.Statement{ID: j.Statement, Catalog: j.Catalog})
	l.catalog, err = rest.NewCatalog(j.ctx, "lake", strings.TrimSuffix(j.Catalog.URL, "/"), rest.WithCustomTransport(l), rest.WithOAuthToken(l.asking.Handle()), rest.WithWarehouseLocation(j.Table.Database))
	if err != nil {
		l.proxy.Close()
	}
	return l, err
}

func (l *lake) close() {
	_ = l.catalog.Close()
	l.proxy.Close()
}

// registeredHeader marks a registered table in the catalog's answers. Its files are never removed.
const registeredHeader = "Millpond-Registered"

// RoundTrip sends the requests of iceberg-go, with what a change forgets.
func (l *lake) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost && l.forgets != nil {
		r = r.Clone(r.Context())
		maps.Copy(r.Header, l.forgets)
	}
	res, err := l.asking.RoundTrip(r)
	if err == nil && res.Header.Get(registeredHeader) == "true" {
		l.registered.Store(true)
	}
	return res, err
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
	a, said := errors.AsType[*catalog.AnsweredError](err)
	if said && a.Status == http.StatusConflict {
		return nil, "", errLost
	}
	if err == nil {
		l.job.kept++
		l.job.files.keep()
		return meta, location, nil
	}
	if !said || a.Status >= http.StatusInternalServerError { // or an unreadable answer: the files may be in the table
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
		l.forgets = http.Header{"Millpond-Erase-List": {list}, "Millpond-Erase-After": {l.job.EraseAfter.String()}}
		defer func() { l.forgets = nil }()
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

// attempts bounds how often a job that loses the race for its table restarts on the table's new
// state.
const attempts = 30

// racing retries try until it wins the race.
func (j *job) racing(try func() error) error {
	for n := 1; ; n++ {
		err := try()
		if !errors.Is(err, errLost) {
			return err
		}
		if n == attempts {
			return sqltext.Fail(agent.FaultConflict, "The statement lost the race for its table %d times: others commit to it all the time. Run it again when less is written.", attempts)
		}
		if err := catalog.PauseAfter(j.ctx, n); err != nil {
			return err
		}
	}
}

// collected refuses a table whose properties say that others share its files.
func collected(t *table.Table) error {
	if t.Properties().GetBool("gc.enabled", true) {
		return nil
	}
	return sqltext.Fail(agent.FaultQuery, "The table has the property gc.enabled=false, by which none of its files is ever removed: others may need them. Set it to true if that is not so.")
}
