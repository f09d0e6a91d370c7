package tracking

import (
	"context"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/millpond/millpond/domain"
)

// State is the state of a run.
type State string

// The states.
const (
	Scheduled State = "scheduled"
	Running   State = "running"
	Finished  State = "finished"
	Failed    State = "failed"
	Killed    State = "killed"
)

// States lists the states.
var States = []State{Scheduled, Running, Finished, Failed, Killed}

// Final reports whether the run is over. A client may set it running again, to resume it.
func (s State) Final() bool { return s == Finished || s == Failed || s == Killed }

// Run is one execution that logs to an experiment.
type Run struct {
	ID         domain.TrackingRunID // 32 hex digits
	Number     int64                // the store's name of the run
	Experiment domain.ExperimentID
	Location   string // the artifact location of its experiment
	Name       string
	State      State
	User       string // as the client says; for people
	CreatedBy  domain.Actor
	JobRun     domain.RunID // of the job's task that made it; empty without one
	TaskKey    string
	Attempt    domain.AttemptID
	CreatedAt  time.Time
	StartedAt  time.Time  // in milliseconds, as the client says
	FinishedAt *time.Time // nil while it is not final
	DeletedAt  *time.Time // its own, or its experiment's
	Changed    domain.Change

	Metrics    []Metric // by key; the latest points
	Parameters []Pair   // by key
	Tags       []Pair   // by key
	Inputs     []Input
}

// LastChange implements domain.Changing.
func (r Run) LastChange() (domain.Change, string) { return r.Changed, string(r.ID) }

// ArtifactURI returns the URI of the run's artifacts.
func (r Run) ArtifactURI() string {
	return strings.TrimSuffix(r.Location, "/") + "/" + string(r.ID) + "/artifacts"
}

// Input is a dataset that a run used.
type Input struct {
	Dataset
	Tags []Pair // such as mlflow.data.context
}

// Dataset describes data, as its client says.
type Dataset struct {
	Name       string
	Digest     string
	SourceType string
	Source     string
	Schema     string
	Profile    string
}

// Tags with a meaning.
const (
	runNameTag = "mlflow.runName"
	// ReservedTags begins the tags that only the platform sets.
	ReservedTags = "millpond."
)

// Bounds of what a run has, from MLflow. They count characters.
const (
	maxValue      = 6_000 // of a parameter; longer ones are cut
	maxTag        = 8_000 // longer ones are cut
	maxRunName    = 8_000
	maxUser       = 256
	MaxPoints     = 1_000 // points in one batch
	maxBatchPairs = 100   // parameters, and tags, in one batch
	MaxRunsPage   = 50_000
	maxInputs     = 1_000
	MaxMetrics    = 10_000 // metrics of one run
	MaxPairs      = 2_000  // parameters, and tags, of one run
	maxDatasetTag = 255
	maxInputValue = 500
)

// The bounds of a dataset, in characters.
const (
	maxDatasetName    = 500
	maxDatasetDigest  = 36
	maxDatasetSource  = 65_535
	maxDatasetSchema  = 1_048_575
	maxDatasetProfile = 16_777_215
)

// maxTime is the last millisecond of the year 9999.
const maxTime = 253_402_300_799_999

// validTime refuses times before 1970 and after 9999.
func validTime(field string, t time.Time) error {
	if ms := t.UnixMilli(); ms < 0 || ms > maxTime {
		return domain.Invalid(field, "%s must be a time from 1970 to 9999, in milliseconds since 1970: from 0 to %d.", field, int64(maxTime))
	}
	return nil
}

// validKey refuses keys that MLflow's clients refuse. what names the key in the message.
func validKey(what, key string) error {
	switch {
	case key == "":
		return domain.Invalid("key", "%s cannot be empty.", what)
	case utf8.RuneCountInString(key) > maxKey:
		return domain.Invalid("key", "'key' exceeds the maximum length of %d characters: %s", maxKey, key)
	case !utf8.ValidString(key) || strings.ContainsFunc(key, notInKey):
		return domain.Invalid("key", "Invalid value %q for parameter 'key' supplied: Names may only contain alphanumerics, underscores (_), dashes (-), periods (.), spaces ( ), colon(:) and slashes (/).", key)
	case !normalPath(key):
		return domain.Invalid("key", "Invalid value %q for parameter 'key' supplied: Names may be treated as files in certain cases, and must not resolve to other names when treated as such.", key)
	}
	return nil
}

func notInKey(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !strings.ContainsRune("_-. :/", r)
}

// normalPath reports whether the key is a relative path in its shortest form. Like MLflow it refuses
// all that begin with two dots.
func normalPath(key string) bool {
	if strings.HasPrefix(key, "..") {
		return false
	}
	for part := range strings.SplitSeq(key, "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return true
}

// validPairs checks parameters or tags, and cuts long values.
func validPairs(what string, pairs []Pair, most int) ([]Pair, error) {
	valid := make([]Pair, len(pairs))
	for i, p := range pairs {
		if err := validKey(what+" name", p.Key); err != nil {
			return nil, err
		}
		if strings.HasPrefix(p.Key, ReservedTags) && what == "Tag" {
			return nil, domain.Invalid("key", "Tags that begin with %q are set by the platform alone; use another name than %q.", ReservedTags, p.Key)
		}
		if !utf8.ValidString(p.Value) || strings.ContainsRune(p.Value, 0) {
			return nil, domain.Invalid("value", "The value of %q holds a NUL character, or is not valid UTF-8.", p.Key)
		}
		valid[i] = Pair{p.Key, cut(p.Value, most)}
	}
	return valid, nil
}

// cut returns the first characters of the text.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	n := 0
	for i := range s {
		if n == most {
			return s[:i]
		}
		n++
	}
	return s
}

// runTx reads and writes runs.
type runTx interface {
	// InsertTrackingRun adds the run without its tags, and returns its number.
	InsertTrackingRun(ctx context.Context, r Run) (int64, error)
	// TrackingRun returns the run without what it logged.
	TrackingRun(ctx context.Context, id domain.TrackingRunID) (Run, error)
	// UpdateTrackingRun locks the run, applies fn and writes name, state, times and deletion. A
	// change of the name changes the tag mlflow.runName.
	UpdateTrackingRun(ctx context.Context, id domain.TrackingRunID, fn func(*Run) error) (Run, error)
	// TrackingRuns returns the runs that match without what they logged, in the order, after the
	// given keys.
	TrackingRuns(ctx context.Context, q Query) ([]Run, []Keys, error)
	// TrackingRunsOfJob returns the first runs that each of the job's runs made, oldest first, without
	// what they logged.
	TrackingRunsOfJob(ctx context.Context, runs []domain.RunID, limit int) ([]Run, error)
	// ChangedTrackingRuns returns a page of the experiment's changed runs, and whether there may be
	// more.
	ChangedTrackingRuns(ctx context.Context, x domain.ExperimentID, p domain.Position) ([]Run, bool, error)
	// FillTrackingRuns reads what the runs logged: latest points, parameters, tags and inputs. It
	// stops after the bytes, and returns how many of the runs are whole: at least the first.
	FillTrackingRuns(ctx context.Context, runs []Run, bytes int) (whole int, err error)
	// InsertParameters adds parameters, at most MaxPairs to a run. It returns the stored value of
	// those that have another one.
	InsertParameters(ctx context.Context, run int64, parameters []Pair) (different []Pair, err error)
	// SetTags adds tags, at most MaxPairs to a run, or replaces their values.
	SetTags(ctx context.Context, run int64, tags []Pair) error
	// DeleteTag reports whether there was such a tag.
	DeleteTag(ctx context.Context, run int64, key string) (bool, error)
	// InsertInputs adds datasets to the run; the same dataset again adds its tags.
	InsertInputs(ctx context.Context, r Run, inputs []Input) error
	// UsedDatasets returns the datasets that the experiments' runs used, each once per context.
	UsedDatasets(ctx context.Context, ids []domain.ExperimentID, limit int) ([]Used, error)
}
