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

// fence is the prefix that every path of a workspace must be strictly under. Paths are used as
// written, without decoding, as engines do. A path that would leave the prefix after decoding is
// refused too.
type fence struct {
	scheme    string // file, s3, gs or abfss
	authority string // bucket; empty for files
	root      string // path with a slash at its end
}

// schemes maps each scheme to the one that it stands for.
var schemes = map[string]string{
	"file": "file", "s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "gcs": "gs", "abfss": "abfss", "abfs": "abfss",
}

// newFence returns the fence of a canonical prefix.
func newFence(prefix string) fence {
	scheme, rest, _ := strings.Cut(prefix, "://")
	authority, path, _ := strings.Cut(rest, "/")
	return fence{scheme: scheme, authority: authority, root: "/" + path}
}

func (c *Catalog) fence(s domain.Scope) fence { return newFence(c.Files.Prefix(s.Workspace())) }

// prefix is the fence's own URI, with a slash at its end.
func (f fence) prefix() string { return f.scheme + "://" + f.authority + f.root }

// canonical returns the canonical form of the URI. CodeInvalid for a URI that is not strictly under
// the prefix, or that has more than one reading.
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

// path returns the path of the URI, or why it is refused.
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

// unclean returns why raw can be no location, or "".
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

// split separates scheme and authority from the path.
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

// collapse replaces repeated slashes by one, as file systems do.
func collapse(path string) string {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	return path
}

// maxDecodings bounds how often a path is decoded to check where it leads.
const maxDecodings = 4

// crooked returns why a path is refused: it has "." or ".." in it, or is not under the prefix. The
// path is checked as written and decoded.
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
			return "" // nothing is left to decode
		}
		path = decoded
	}
	return "is encoded too many times"
}

// inside reports whether the file or directory is the directory or in it.
func inside(uri, directory string) bool {
	return uri == directory || strings.HasPrefix(uri, strings.TrimRight(directory, "/")+"/")
}

// levels is the number of directories from the prefix to the location.
func (f fence) levels(location string) int {
	return strings.Count(strings.TrimPrefix(location, f.prefix()), "/") + 1
}

// chosen returns the canonical form of a location that a client chose. It is so deep that no
// default location can be in it.
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

// defaultLocation is the location that the catalog chooses for a table.
func (f fence) defaultLocation(database domain.DatabaseID, id domain.TableID, name string) string {
	return f.prefix() + string(database) + "/" + string(id) + slug(name)
}

// maxSlug bounds the characters of a name in a path.
const maxSlug = 40

// slug returns the characters of a name that are safe in a path, after a dash.
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

// pathProperties are the table properties that set where writers put files.
var pathProperties = []string{"write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path"}

// steering lists property names, or prefixes of them, that set a client's servers, credentials or
// code. Clients merge a table's properties with their own settings. So whoever changes a table
// would control whoever reads it.
var steering = []string{"io-impl", "py-io-impl", "write.location-provider.impl", "write.py-location-provider.impl", "token", "uri", "credential", "oauth2-server-uri", "rest.", "s3.", "client.", "gcs.", "adls.", "hdfs."}

// checkProperties fences the properties that hold a path, and refuses those in steering.
func (f fence) checkProperties(properties map[string]string) error {
	for name := range properties {
		for _, s := range steering {
			if name == s || strings.HasSuffix(s, ".") && strings.HasPrefix(name, s) {
				return domain.Invalid(name, "The property %q is a setting of clients and is not allowed on a table; remove it from the table, and set it in the client.", name)
			}
		}
	}
	_, err := f.paths(properties)
	return err
}

// paths returns the directories that the properties name, each with its property. They are as deep
// as locations that a client chooses.
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

// around returns the directories that contain the file, from its own up to the workspace's.
func (f fence) around(uri string) (dirs []string) {
	for i := strings.LastIndexByte(uri, '/'); i > len(f.prefix()); i = strings.LastIndexByte(uri[:i], '/') {
		dirs = append(dirs, uri[:i])
	}
	return dirs
}

func overlappingPath(property, dir string) error {
	return domain.Invalid(property, "The property %s leads to %s, which is another table's location, or in it, or around it; choose another place.", property, dir)
}

// reservePaths reserves for its table the directories that the change's properties name. From then
// on no other table's location or property can overlap them. It runs in the change's transaction.
// Directories that the table already has cost one query.
func (p *prepared) reservePaths(ctx context.Context, tx Tx) error {
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
			return overlappingPath(paths[dir], dir)
		}
	}
	return nil
}

// pathsOf returns the path properties of the metadata that the change writes or registers.
func (p *prepared) pathsOf() (map[string]string, error) {
	if p.row.Kind == KindView {
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
