package duckdb

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"

	duckdb "github.com/duckdb/duckdb-go-bindings"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/extensions"
	"github.com/millpond/millpond/agent/engine/spawned"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// connectionsOfChild is the number of statements that a child runs before it is replaced. Each
// statement uses a new connection, opened before the configuration is locked. Per-connection
// settings, such as progress counting, cannot be changed after the lock.
const connectionsOfChild = 128

// database is the DuckDB instance of a child.
type database struct {
	handle      duckdb.Database
	connections []*connection // not used yet
	dir         string

	own sqltext.Engine // the names that no statement may use
}

// connection runs one statement at a time.
type connection struct {
	handle duckdb.Connection
	mu     sync.Mutex // blocks close while another goroutine reads the progress or interrupts
}

// tableFunctions lists the functions allowed in place of a table. They read only their arguments.
var tableFunctions = []string{"generate_series", "json_each", "json_tree", "range", "repeat", "repeat_row", "unnest", "icu_calendar_names", "pg_timezone_names", "duckdb_keywords"}

// scalarsForbidden lists the scalar functions that read settings or change state that outlives a
// statement.
var scalarsForbidden = []string{"current_setting", "getenv", "getvariable", "nextval", "currval", "write_log", "sleep_ms", "pg_sleep", "parse_duckdb_log_message", "current_query", "json_execute_serialized_sql", "json_serialize_plan", "setseed"}

// Version returns the version of DuckDB in this binary.
func Version() string { return duckdb.LibraryVersion() }

func openDatabase(o spawned.Options) (*database, error) {
	var config duckdb.Config
	duckdb.CreateConfig(&config)
	defer duckdb.DestroyConfig(&config)
	for name, value := range map[string]string{
		"autoinstall_known_extensions": "false", "autoload_known_extensions": "false", "allow_community_extensions": "false",
		"memory_limit": fmt.Sprintf("%dB", o.Memory), "threads": fmt.Sprint(o.Threads),
		"temp_directory": filepath.Join(o.Dir, "temp"),
	} {
		if duckdb.SetConfig(config, name, value) != duckdb.StateSuccess {
			return nil, fmt.Errorf("DuckDB does not know the setting %s", name)
		}
	}
	d := &database{dir: o.Dir}
	var message string
	if duckdb.OpenExt("", &d.handle, config, &message) != duckdb.StateSuccess {
		return nil, errors.New(message)
	}
	if err := d.prepare(o); err != nil {
		duckdb.Close(&d.handle)
		return nil, err
	}
	return d, nil
}

// prepare loads the extensions and opens the connections.
func (d *database) prepare(o spawned.Options) error {
	first, err := d.connect()
	if err != nil {
		return err
	}
	for _, name := range extensions.Names {
		if err := first.exec("LOAD " + sqltext.Literal(filepath.Join(o.Extensions, name+extensions.Suffix))); err != nil {
			return err
		}
	}
	for _, setting := range []string{
		"SET GLOBAL TimeZone = 'UTC'",
		fmt.Sprintf("SET GLOBAL max_temp_directory_size = '%dB'", o.TempLimit), // DuckDB ignores this setting when it is given at open
	} {
		if err := first.exec(setting); err != nil {
			return err
		}
	}
	if err := d.learn(first); err != nil {
		return err
	}
	d.connections = append(d.connections, first)
	for range connectionsOfChild {
		c, err := d.connect()
		if err != nil {
			return err
		}
		d.connections = append(d.connections, c)
	}
	return nil
}

func (d *database) connect() (*connection, error) {
	c := &connection{}
	if duckdb.Connect(d.handle, &c.handle) != duckdb.StateSuccess {
		return nil, errors.New("DuckDB gives no connection")
	}
	for _, setting := range []string{
		"SET errors_as_json = true", "SET enable_progress_bar = true", "SET enable_progress_bar_print = false", "SET enable_profiling = 'no_output'",
		"SET custom_profiling_settings = " + sqltext.Literal(profiling),
	} {
		if err := c.exec(setting); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// take returns an unused connection.
func (d *database) take() (*connection, error) {
	if len(d.connections) == 0 {
		return nil, errors.New("all connections of this child are used up")
	}
	c := d.connections[len(d.connections)-1]
	d.connections = d.connections[:len(d.connections)-1]
	return c, nil
}

// learn reads the names of DuckDB's own functions and tables.
func (d *database) learn(c *connection) error {
	tables, tablesErr := c.strings("SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE function_type IN ('table', 'table_macro', 'pragma')")
	values, valuesErr := c.strings("SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE function_type IN ('scalar', 'aggregate', 'macro')")
	views, viewsErr := c.strings("SELECT DISTINCT lower(view_name) FROM duckdb_views() WHERE internal AND schema_name <> 'information_schema'")
	if err := errors.Join(tablesErr, valuesErr, viewsErr); err != nil {
		return err
	}
	d.own = sqltext.Engine{Functions: set(scalarsForbidden), TableFunctions: set(tables), Tables: set(views)}
	for _, name := range tableFunctions {
		delete(d.own.TableFunctions, name)
	}
	alsoValue := set(values)
	for name := range d.own.TableFunctions {
		if !alsoValue[name] {
			d.own.Functions[name] = true
		}
	}
	return nil
}

// lock opens a workspace's storage to DuckDB, closes everything else and fixes the configuration.
// The secret is created after the settings: persistent secrets must be turned off before any secret
// is used.
func (d *database) lock(s agent.Storage) error {
	c, err := d.take()
	if err != nil {
		return err
	}
	defer c.close()
	directories := []string{sqltext.Literal(filepath.Join(d.dir, "temp") + "/")}
	if s.Prefix != "" {
		directories = append(directories, sqltext.Literal(s.Prefix))
	}
	if u, err := url.Parse(s.Prefix); err == nil && u.Scheme == "file" {
		directories = append(directories, sqltext.Literal(u.Path))
	}
	settings := []string{"SET allow_persistent_secrets = false"}
	if s.S3 != nil {
		settings = append(settings, secretOf(s))
	}
	settings = append(settings,
		"SET allowed_directories = ["+strings.Join(directories, ", ")+"]",
		"SET allowed_paths = ['data', 'metadata']", // the iceberg extension checks these two when it creates a table
		"SET enable_external_access = false",
		"SET lock_configuration = true",
	)
	for _, setting := range settings {
		if err := c.exec(setting); err != nil {
			return fmt.Errorf("closing the engine: %w", err)
		}
	}
	return nil
}

func secretOf(s agent.Storage) string {
	options := []string{"TYPE s3", "PROVIDER config", "SCOPE " + sqltext.Literal(s.Prefix), "KEY_ID " + sqltext.Literal(s.S3.AccessKeyID), "SECRET " + sqltext.Literal(s.S3.SecretKey), "REGION " + sqltext.Literal(s.S3.Region)}
	if s.S3.SessionToken != "" {
		options = append(options, "SESSION_TOKEN "+sqltext.Literal(s.S3.SessionToken))
	}
	if u, err := url.Parse(s.S3.Endpoint); err == nil && u.Host != "" {
		options = append(options, "ENDPOINT "+sqltext.Literal(u.Host+u.Path), fmt.Sprintf("USE_SSL %t", u.Scheme == "https"))
	}
	if s.S3.PathStyle {
		options = append(options, "URL_STYLE 'path'")
	}
	return "CREATE SECRET platform (" + strings.Join(options, ", ") + ")"
}

func set(names []string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}
