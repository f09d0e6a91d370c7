package lake

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/millpond/millpond/domain"
)

// maxLocation bounds a path in bytes.
const maxLocation = 2048

// fence is the prefix that every path of a workspace must be strictly under. Paths are taken as they are written: nothing in them is decoded, since the
// engines that open them do not either; but what would lead out of the prefix if somebody decoded it is refused as well.
type fence struct {
	scheme    string // file, s3, gs or abfss
	authority string // bucket; empty for files
	root      string // path with a slash at its end
}

// schemes are those that stand for another one.
var schemes = map[string]string{
	"file": "file", "s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "gcs": "gs", "abfss": "abfss", "abfs": "abfss",
}

// newFence makes a fence of a canonical prefix.
func newFence(prefix string) fence {
	scheme, rest, _ := strings.Cut(prefix, "://")
	authority, path, _ := strings.Cut(rest, "/")
	return fence{scheme: scheme, authority: authority, root: "/" + path}
}

func (c *Catalog) fence(s domain.Scope) fence { return newFence(c.Files.Prefix(s.Workspace())) }

// prefix is the fence's own URI, with a slash at its end.
func (f fence) prefix() string { return f.scheme + "://" + f.authority + f.root }

// canonical is the one way to write the URI. It refuses, with CodeInvalid, what is not strictly under the prefix or is open to more than one reading.
func (f fence) canonical(field, raw string) (string, error) {
	path, why := f.path(raw)
	if why != "" {
		return "", domain.Invalid(field, "The location %q %s. Locations of this workspace begin with %s.", raw, why, f.prefix())
	}
	return f.scheme + "://" + f.authority + path, nil
}

// directory is canonical for a directory, without a slash at its end.
func (f fence) directory(field, raw string) (string, error) {
	uri, err := f.canonical(field, strings.TrimRight(raw, "/"))
	return strings.TrimRight(uri, "/"), err
}

// path is the path of the URI, or why it is refused.
func (f fence) path(raw string) (path, why string) {
	if why := unclean(raw); why != "" {
		return "", why
	}
	authority, path, why := f.split(raw)
	switch {
	case why != "":
		return "", why
	case authority != f.authority:
		return "", "is in another bucket or on another host"
	}
	if f.scheme == "file" {
		path = collapse(path)
	}
	if why := f.crooked(path); why != "" {
		return "", why
	}
	if f.scheme != "file" && strings.Contains(path, "//") {
		return "", "has an empty part"
	}
	return path, ""
}

// unclean says what no location may hold.
func unclean(raw string) string {
	switch {
	case raw == "":
		return "is empty"
	case len(raw) > maxLocation:
		return "is too long"
	case !utf8.ValidString(raw) || strings.ContainsFunc(raw, func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError }):
		return "holds a character that cannot be shown"
	case strings.ContainsAny(raw, `\?#`):
		return "holds a backslash, a question mark or a number sign"
	}
	return ""
}

// split takes scheme and authority off.
func (f fence) split(raw string) (authority, path, why string) {
	if strings.HasPrefix(raw, "/") && f.scheme == "file" {
		return "", raw, ""
	}
	scheme, rest, found := strings.Cut(raw, ":")
	if !found || schemes[strings.ToLower(scheme)] != f.scheme {
		return "", "", "is of another kind of storage"
	}
	if after, full := strings.CutPrefix(rest, "//"); full {
		authority, path, _ = strings.Cut(after, "/")
		path = "/" + path
	} else if f.scheme == "file" {
		path = rest
	}
	if f.scheme == "file" && strings.EqualFold(authority, "localhost") {
		authority = ""
	}
	if !strings.HasPrefix(path, "/") {
		return "", "", "is not absolute"
	}
	return authority, path, ""
}

// collapse writes several slashes in a row as one, as file systems read them.
func collapse(path string) string {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	return path
}

// maxDecodings is how often a path is decoded to see where it would lead.
const maxDecodings = 4

// crooked says why a path is not straight: it goes up or stays, or is not under the prefix, as it is or when somebody decodes it.
func (f fence) crooked(path string) string {
	for range maxDecodings {
		if clean := strings.TrimRight(collapse(strings.ReplaceAll(path, `\`, "/")), "/"); !strings.HasPrefix(clean, f.root) {
			return "is not in the workspace's storage"
		}
		for part := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
			if part == "." || part == ".." {
				return `has "." or ".." in it`
			}
		}
		if strings.ContainsRune(path, 0) {
			return "holds a NUL byte"
		}
		decoded, err := url.PathUnescape(path)
		if err != nil || decoded == path {
			return "" // what is no code for anything is nothing but text
		}
		path = decoded
	}
	return "is encoded too many times"
}

// inside says that the file or directory is in the directory, or is it.
func inside(uri, directory string) bool {
	return uri == directory || strings.HasPrefix(uri, strings.TrimRight(directory, "/")+"/")
}

// levels is how many directories deep the location is under the prefix.
func (f fence) levels(location string) int {
	return strings.Count(strings.TrimPrefix(location, f.prefix()), "/") + 1
}

// chosen is a table's location that a client chose: canonical, and deep enough that none which the catalog chooses can be in it.
func (f fence) chosen(raw string) (string, error) {
	location, err := f.directory("location", raw)
	if err != nil {
		return "", err
	}
	if f.levels(location) < 2 {
		return "", domain.Invalid("location", "The location %q is too close to the root; it must be at least two directories under %s.", raw, f.prefix())
	}
	return location, nil
}

// defaultLocation is where the catalog puts a table.
func (f fence) defaultLocation(database domain.DatabaseID, id domain.TableID, name string) string {
	return f.prefix() + string(database) + "/" + string(id) + slug(name)
}

// maxSlug bounds how much of a name is in a path.
const maxSlug = 40

// slug is what of a name is good for a path, with a dash before it.
func slug(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' {
			b.WriteRune(r)
		}
		if b.Len() == maxSlug {
			break
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "-" + b.String()
}

// pathProperties are the properties of tables that lead writers somewhere.
var pathProperties = []string{"write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path"}

// steering are names of properties, or what they begin with, by which clients are told which server to take files from, what to trust, and which code to load.
// Clients merge a table's properties with their own settings, so whoever may change a table would steer whoever reads it.
var steering = []string{"io-impl", "py-io-impl", "write.location-provider.impl", "write.py-location-provider.impl", "token", "uri", "credential", "oauth2-server-uri", "rest.", "s3.", "client.", "gcs.", "adls.", "hdfs."}

// checkProperties fences the properties that hold a path, and refuses those that steer clients.
func (f fence) checkProperties(properties map[string]string) error {
	for name := range properties {
		for _, s := range steering {
			if name == s || strings.HasSuffix(s, ".") && strings.HasPrefix(name, s) {
				return domain.Invalid(name, "The property %q is a client's setting, and none of a table: leave it out here, or remove it where the table is now, and give it to the client.", name)
			}
		}
	}
	_, err := f.paths(properties)
	return err
}

// paths are the directories that the properties lead writers into, each with the name of its property. They are as deep as locations that a client chooses.
func (f fence) paths(properties map[string]string) (map[string]string, error) {
	found := map[string]string{}
	for _, name := range pathProperties {
		value, has := properties[name]
		if !has {
			continue
		}
		dir, err := f.directory(name, value)
		if err != nil {
			return nil, err
		}
		if f.levels(dir) < 2 {
			return nil, domain.Invalid(name, "The property %s leads to %q, which is too close to the root; it must be at least two directories under %s.", name, value, f.prefix())
		}
		if found[dir] == "" {
			found[dir] = name
		}
	}
	return found, nil
}

// around are the directories that the file is in, from its own up to the workspace's.
func (f fence) around(uri string) (dirs []string) {
	for i := strings.LastIndexByte(uri, '/'); i > len(f.prefix()); i = strings.LastIndexByte(uri[:i], '/') {
		dirs = append(dirs, uri[:i])
	}
	return dirs
}

// ownPaths refuses properties that lead writers into another table's location, or around one, before anything is written: its purge would take their files along.
// What is free is taken when the change is made (takePaths).
func (c *Catalog) ownPaths(ctx context.Context, s domain.Scope, id domain.TableID, properties map[string]string) error {
	f := c.fence(s)
	paths, err := f.paths(properties)
	if err != nil || len(paths) == 0 {
		return err
	}
	named := map[string]string{} // directories by the property that leads into them
	for dir, name := range paths {
		for _, around := range append(f.around(dir), dir) {
			named[around] = name
		}
	}
	return c.Store.In(ctx, s, func(tx domain.Tx) error {
		owners, err := tx.LocationOwners(ctx, slices.Collect(maps.Keys(named)))
		for dir, owner := range owners {
			if owner != id {
				return ledAstray(named[dir], dir)
			}
		}
		return err
	})
}

func ledAstray(property, dir string) error {
	return domain.Invalid(property, "The property %s leads to %s, which is another table's location, or in it, or around it; choose another place.", property, dir)
}

// takePaths makes the directories that the properties of the change lead writers into its table's own: no other table's location, and no other table's property,
// can be there, in them or around them from then on. It is called in the transaction that makes the change; what the table has already costs one query.
func (p *prepared) takePaths(ctx context.Context, tx domain.Tx) error {
	paths, err := p.pathsOf()
	maps.DeleteFunc(paths, func(dir, _ string) bool { return inside(dir, p.row.Location) })
	if err != nil || len(paths) == 0 {
		return err
	}
	dirs := slices.Sorted(maps.Keys(paths))
	owners, err := tx.LocationOwners(ctx, dirs)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if owners[dir] == p.row.ID {
			continue
		}
		free, err := tx.TakePath(ctx, p.row.ID, dir)
		if err != nil {
			return err
		}
		if !free {
			return ledAstray(paths[dir], dir)
		}
	}
	return nil
}

// pathsOf are the paths of the metadata that the change makes or registers.
func (p *prepared) pathsOf() (map[string]string, error) {
	if p.row.Kind == domain.KindView {
		var meta struct {
			Properties map[string]string `json:"properties"`
		}
		if err := json.Unmarshal(p.doc.json, &meta); err != nil {
			return nil, err
		}
		return p.fence.paths(meta.Properties)
	}
	meta, err := p.doc.metadata()
	if err != nil {
		return nil, err
	}
	return p.fence.paths(meta.Properties())
}
