package trino

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// Storage is the workspace's storage and how Trino opens it.
type Storage struct {
	Prefix string // of everything that Trino may open there, with a trailing slash
	// S3 is nil for files. Without keys, the catalog vends keys for each table.
	S3 *agent.S3Storage

	fence string // path of the file that restricts Trino to this storage
}

// Database is a database of the workspace and its catalog in Trino.
type Database struct {
	Name      string
	Warehouse string // the catalog's id of it; a new database of that name has another
	Catalog   string // address of the Iceberg REST catalog
	Token     string // for requests outside a statement
	Storage   Storage
}

// CatalogName returns the name of a database in Trino, which has no upper-case letters.
func CatalogName(database string) string { return strings.ToLower(database) }

// Reserved reports whether Trino reserves the name of a database, so that Trino cannot reach the
// database.
func Reserved(database string) bool { return CatalogName(database) == "system" }

// conflictRetries is how often Trino retries a commit that lost a race, if it needs no new reads.
const conflictRetries = "10"

// properties returns the properties of the database's catalog in Trino.
func (d Database) properties() map[string]string {
	p := map[string]string{
		"iceberg.catalog.type": "rest", "iceberg.rest-catalog.uri": d.Catalog, "iceberg.rest-catalog.warehouse": d.Warehouse,
		"iceberg.rest-catalog.nested-namespace-enabled": "true",
		// The client replaces this token by the token of each statement.
		"iceberg.rest-catalog.security": "OAUTH2", "iceberg.rest-catalog.oauth2.token": d.Token, "iceberg.rest-catalog.session": "USER",
		"iceberg.rest-catalog.oauth2.token-refresh-enabled": "false", "iceberg.rest-catalog.oauth2.server-uri": d.Catalog + "/none",
		"iceberg.max-commit-retry": conflictRetries,
		// It would add a second commit after each write. If that failed, the statement would fail
		// although it has written.
		"iceberg.extended-statistics.collect-on-write": "false",
	}
	if s := d.Storage.S3; s != nil {
		maps.Copy(p, bucketProperties(s))
		p["s3.security-mapping.enabled"], p["s3.security-mapping.config-file"] = "true", d.Storage.fence
	} else {
		p["fs.hadoop.enabled"], p["hive.config.resources"] = "true", d.Storage.fence
	}
	return p
}

func bucketProperties(s *agent.S3Storage) map[string]string {
	p := map[string]string{"fs.native-s3.enabled": "true", "s3.region": s.Region, "s3.path-style-access": fmt.Sprint(s.PathStyle)}
	if s.Endpoint != "" {
		p["s3.endpoint"] = s.Endpoint
	}
	if s.AccessKeyID == "" {
		p["iceberg.rest-catalog.vended-credentials-enabled"] = "true"
		return p
	}
	p["s3.aws-access-key"], p["s3.aws-secret-key"] = s.AccessKeyID, s.SecretKey
	return p
}

func (d Database) create() string {
	p := d.properties()
	var with []string
	for _, k := range slices.Sorted(maps.Keys(p)) {
		with = append(with, sqltext.Quote(k)+" = "+sqltext.Literal(p[k]))
	}
	return "CREATE CATALOG " + sqltext.Quote(CatalogName(d.Name)) + " USING iceberg WITH (" + strings.Join(with, ", ") + ")"
}

// Reach creates Trino catalogs for the wanted databases and drops those of databases that are not
// in all. It replaces a catalog if its database was created again or the storage changed.
func (s *Session) Reach(ctx context.Context, wanted []Database, all []string) error {
	s.server.catalogs.Lock()
	defer s.server.catalogs.Unlock()
	made := s.server.made
	for i := range wanted {
		if err := s.server.fence(&wanted[i].Storage); err != nil {
			return err
		}
	}
	for name, d := range made {
		i := slices.IndexFunc(wanted, func(w Database) bool { return CatalogName(w.Name) == name })
		stale := i >= 0 && wanted[i].create() != d.create()
		if !stale && slices.ContainsFunc(all, func(n string) bool { return CatalogName(n) == name }) {
			continue
		}
		if err := s.platform(ctx, "DROP CATALOG "+sqltext.Quote(name)); err != nil {
			return err
		}
		delete(made, name)
	}
	for _, d := range wanted {
		if _, ok := made[CatalogName(d.Name)]; ok {
			continue
		}
		if err := s.platform(ctx, d.create()); err != nil {
			return err
		}
		made[CatalogName(d.Name)] = d
	}
	return nil
}

// fence writes the file that restricts Trino to the storage, whatever files its tables name. For
// S3, that is the storage's prefix. For files, no other scheme works. The file has no secrets.
func (s *Server) fence(storage *Storage) error {
	text, err := []byte(onlyFiles()), error(nil)
	if storage.S3 != nil {
		text, err = json.Marshal(map[string]any{"mappings": []map[string]any{{"prefix": storage.Prefix, "useClusterDefault": true}}})
	}
	if err != nil {
		return err
	}
	storage.fence = filepath.Join(s.o.Dir, fmt.Sprintf("fence-%x.json", sha256.Sum256(text)))
	if _, err := os.Stat(storage.fence); err == nil {
		return nil
	}
	part := storage.fence + ".part" // a node may read the file at the same time
	if err := errors.Join(os.WriteFile(part, text, 0o644), os.Rename(part, storage.fence)); err != nil {
		return fmt.Errorf("writing what Trino may open: %w", err)
	}
	return nil
}

// closedSchemes are the schemes of Hadoop's file systems except file.
var closedSchemes = []string{
	"http", "https", "ftp", "sftp", "hdfs", "webhdfs", "swebhdfs", "har", "viewfs", "gs", "s3", "s3a", "s3n", "abfs", "abfss", "wasb", "wasbs", "adl", "oss", "cosn", "o3fs", "ofs",
}

// onlyFiles returns a Hadoop configuration in which those schemes have a missing class.
func onlyFiles() string {
	var b strings.Builder
	b.WriteString("<configuration>\n")
	for _, scheme := range closedSchemes {
		fmt.Fprintf(&b, "<property><name>fs.%s.impl</name><value>closed.to.Trino</value><final>true</final></property>\n", scheme)
	}
	b.WriteString("</configuration>\n")
	return b.String()
}

// platform runs a statement as the platform.
func (s *Session) platform(ctx context.Context, query string) error {
	own := &Session{server: s.server, caller: s.server.caller(platformUser), address: s.address}
	_, err := own.Query(ctx, Statement{ID: platformUser, Query: query}, nil)
	return err
}

// database returns the database of a catalog.
func (s *Server) database(catalog string) string {
	s.catalogs.Lock()
	defer s.catalogs.Unlock()
	if d, ok := s.made[catalog]; ok {
		return d.Name
	}
	return catalog
}
