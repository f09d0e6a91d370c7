package sqltext

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/spawned"
)

// The defaults are Trino's. Nothing younger than minRetention is removed, because others may still
// read or write it.
const (
	defaultThreshold = 100 << 20
	defaultRetention = 7 * day
	minRetention     = day
	maxRetention     = 36500 * day
	maxEraseAfter    = 30 * day
	day              = 24 * time.Hour
)

// operations are the maintenance operations, with their statement kinds and their parameters.
var operations = map[spawned.Operation]struct {
	kind       string
	parameters []string
}{
	spawned.Optimize:          {"OPTIMIZE", []string{"file_size_threshold"}},
	spawned.ExpireSnapshots:   {"EXPIRE SNAPSHOTS", []string{"retention_threshold", "retain_last", "max_snapshots", "erase_after"}},
	spawned.RemoveOrphanFiles: {"REMOVE ORPHAN FILES", []string{"retention_threshold"}},
}

// executed returns the procedure that ALTER TABLE … EXECUTE names, and the index of its token. It
// returns nil for other statements.
func executed(all []Token) (procedure *Token, at int) {
	if len(all) < 5 || !all[0].IsWord("alter") || !all[1].IsWord("table") || !all[2].IsName() {
		return nil, 0
	}
	_, i := QualifiedName(all, 2)
	if i+1 >= len(all) || !all[i].IsWord("execute") || !all[i+1].IsName() {
		return nil, 0
	}
	return &all[i+1], i + 1
}

// operationOf returns the operation of a procedure, or "" if the procedure is unknown.
func operationOf(procedure *Token) spawned.Operation {
	if procedure == nil {
		return ""
	}
	o := spawned.Operation(LowerASCII(procedure.Text))
	if operations[o].kind == "" {
		return ""
	}
	return o
}

// Operation returns the maintenance operation that the statement runs, or "" if it runs none.
func (c Class) Operation() spawned.Operation {
	procedure, _ := executed(c.Tokens)
	return operationOf(procedure)
}

// Executes reports whether the statement executes a procedure of a table, known or not.
func (c Class) Executes() bool {
	procedure, _ := executed(c.Tokens)
	return procedure != nil
}

// ParseMaintenance parses a maintenance statement.
func ParseMaintenance(s *agent.Statement, c Class) (spawned.Maintenance, error) {
	m := spawned.Maintenance{
		Statement: s.ID, Catalog: s.Catalog, Storage: s.Storage, MaxRows: s.MaxRows, MaxBytes: s.MaxBytes,
		Threshold: defaultThreshold, Retention: defaultRetention, EraseAfter: day,
	}
	procedure, at := executed(c.Tokens)
	if m.Operation = operationOf(procedure); m.Operation == "" {
		return m, Refuse(procedure.Pos, "ALTER TABLE … EXECUTE %s is not run here; there are optimize, expire_snapshots, remove_orphan_files.", Cut(procedure.Text, 40))
	}
	if len(s.Parameters) > 0 {
		return m, Refuse(-1, "ALTER TABLE … EXECUTE takes no parameters from the request: write the values out.")
	}
	named, _ := QualifiedName(c.Tokens, 2)
	if err := (Engine{}).CheckTable(named, s.Catalog.Databases); err != nil {
		return m, err
	}
	m.Table = Canonical([]TableRef{named}, s.Catalog.Databases)[0].Resolve(s.Database, s.Schema)
	m.Table.Target = true
	if DatabaseNamed(s.Catalog.Databases, m.Table.Database) == "" {
		return m, Refuse(named.Pos, "There is no database %q here.", Cut(m.Table.Database, 60))
	}
	return m, readArguments(&m, c.Tokens[at+1:])
}

// readArguments parses (name => value, …).
func readArguments(m *spawned.Maintenance, rest []Token) error {
	if len(rest) == 0 {
		return nil
	}
	if rest[0].IsWord("where") {
		return Refuse(rest[0].Pos, "EXECUTE … WHERE is not run here: it maintains the whole table and skips files that need nothing.")
	}
	last := len(rest) - 1
	if !rest[0].Is("(") || !rest[last].Is(")") {
		return Refuse(rest[0].Pos, "After EXECUTE %s come its parameters, as in (name => value), and nothing else.", m.Operation)
	}
	parameters := operations[m.Operation].parameters
	given := map[string]bool{}
	for i := 1; i < last; i += 5 {
		if last-i < 4 || !rest[i].IsName() || !rest[i+1].Is("=") || !rest[i+2].Is(">") || rest[i+1].End != rest[i+2].Pos || i+4 < last && !rest[i+4].Is(",") {
			return Refuse(rest[i].Pos, "Write the parameters of %s as name => value, with commas between them; it takes %s.", m.Operation, strings.Join(parameters, ", "))
		}
		name := LowerASCII(rest[i].Text)
		if !slices.Contains(parameters, name) {
			return Refuse(rest[i].Pos, "%s takes no parameter %s; it takes %s.", m.Operation, Cut(name, 40), strings.Join(parameters, ", "))
		}
		if given[name] {
			return Refuse(rest[i].Pos, "The parameter %s is given twice.", name)
		}
		given[name] = true
		if err := setArgument(m, name, rest[i+3]); err != nil {
			return err
		}
		if i+4 == last-1 { // a comma before the end
			return Refuse(rest[i+4].Pos, "A parameter follows a comma.")
		}
	}
	return nil
}

func setArgument(m *spawned.Maintenance, name string, value Token) (err error) {
	switch name {
	case "file_size_threshold":
		m.Threshold, err = dataSize(value)
	case "retention_threshold":
		m.Retention, err = retention(name, value, maxRetention)
	case "erase_after":
		m.EraseAfter, err = retention(name, value, maxEraseAfter)
	case "retain_last":
		m.RetainLast, err = count(name, value)
	case "max_snapshots":
		m.MaxSnapshots, err = count(name, value)
	}
	return err
}

func count(name string, value Token) (int, error) {
	n, err := strconv.Atoi(value.Text)
	if err != nil || value.Kind != Number || n < 1 || n > math.MaxInt32 {
		return 0, Refuse(value.Pos, "%s is a number of snapshots, 1 or more.", name)
	}
	return n, nil
}

var measured = regexp.MustCompile(`^\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([a-zA-Z]+)\s*$`)

// measure parses a number with its unit. Units are case-sensitive, as in Trino. It returns false if
// the value is no such string.
func measure[T int64 | time.Duration](value Token, units map[string]T) (float64, bool) {
	parts := measured.FindStringSubmatch(value.Text)
	if value.Kind != String || parts == nil || units[parts[2]] == 0 {
		return 0, false
	}
	n, err := strconv.ParseFloat(parts[1], 64)
	return n * float64(units[parts[2]]), err == nil
}

var sizeUnits = map[string]int64{"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40, "PB": 1 << 50}

func dataSize(value Token) (int64, error) {
	n, ok := measure(value, sizeUnits)
	if !ok || n < 1 || n > 1<<50 {
		return 0, Refuse(value.Pos, "file_size_threshold is a size such as '128MB', in B, kB, MB, GB or TB.")
	}
	return int64(n), nil
}

var timeUnits = map[string]time.Duration{"ns": 1, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": day}

func retention(name string, value Token, most time.Duration) (time.Duration, error) {
	n, ok := measure(value, timeUnits)
	switch {
	case !ok || n > float64(most):
		return 0, Refuse(value.Pos, "%s is a time such as '7d', in s, m, h or d, of at most %dd.", name, most/day)
	case n < float64(minRetention):
		return 0, Refuse(value.Pos, "The time of %s is shorter than the least, which is 1d: others may still read or write younger files.", Cut(value.Text, 40))
	}
	return time.Duration(n), nil
}
