package tracking

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/millpond/millpond/domain"
)

// DefaultExperiment is the experiment that every workspace has. It cannot be deleted.
const DefaultExperiment domain.ExperimentID = "0"

// Bounds of experiments, from MLflow.
const (
	maxExperimentName  = 500 // characters
	maxExperimentTag   = 20_000
	maxLocation        = 2048
	maxKey             = 250
	MaxExperimentsPage = 50_000
	// MaxExperimentTags is ours: MLflow has no bound.
	MaxExperimentTags = 500
)

// Experiment is a group of runs.
type Experiment struct {
	ID        domain.ExperimentID // a number in the workspace
	Name      string              // unique in the workspace, deleted experiments included
	Location  string              // where a client put the artifacts; empty for the platform's own
	Tags      []Pair              // by key
	CreatedBy domain.Actor
	CreatedAt time.Time
	UpdatedAt time.Time
	DeletedAt *time.Time
}

// ArtifactLocation returns the URI below which the experiment's runs have their artifacts.
func (e Experiment) ArtifactLocation() string {
	if e.Location != "" {
		return e.Location
	}
	return "mlflow-artifacts:/" + string(e.ID)
}

// NewExperiment describes the experiment to create.
type NewExperiment struct {
	Name     string
	Location string
	Tags     []Pair
}

// ExperimentSearch selects a page of experiments.
type ExperimentSearch struct {
	Filter string
	Order  []string
	View   View
	Limit  int    // 1 to MaxExperimentsPage
	Cursor string // of the previous page; empty for the first
}

// experimentTx reads and writes experiments.
type experimentTx interface {
	// InsertExperiment adds the experiment and returns its id. It returns CodeConflict if the name
	// is in use.
	InsertExperiment(ctx context.Context, e Experiment) (domain.ExperimentID, error)
	Experiment(ctx context.Context, id domain.ExperimentID) (Experiment, error)
	ExperimentByName(ctx context.Context, name string) (Experiment, error)
	// ExperimentsByID returns those of the experiments that exist.
	ExperimentsByID(ctx context.Context, ids []domain.ExperimentID) ([]Experiment, error)
	// Experiments returns the experiments that match, in the order, after the given keys. It stops
	// after the bytes, at the earliest after the first, and reports whether it did.
	Experiments(ctx context.Context, q Query, bytes int) (found []Experiment, keys []Keys, cut bool, err error)
	// UpdateExperiment locks the experiment, applies fn and writes it. It returns CodeConflict if
	// the name is in use.
	UpdateExperiment(ctx context.Context, id domain.ExperimentID, fn func(*Experiment) error) (Experiment, error)
	// SetExperimentTags adds tags, at most MaxExperimentTags to an experiment, or replaces their
	// values.
	SetExperimentTags(ctx context.Context, id domain.ExperimentID, tags []Pair) error
	// DeleteExperimentTag reports whether there was such a tag.
	DeleteExperimentTag(ctx context.Context, id domain.ExperimentID, key string) (bool, error)
}

func validExperimentName(name string) error {
	if name == "" {
		return domain.Invalid("name", "Invalid experiment name: ''. Give the experiment a name.")
	}
	if n := utf8.RuneCountInString(name); n > maxExperimentName {
		return domain.Invalid("name", "The name of an experiment has at most %d characters; this one has %d.", maxExperimentName, n)
	}
	return domain.ValidText("name", name, 4*maxExperimentName)
}

func (n NewExperiment) validate() error {
	if err := validExperimentName(n.Name); err != nil {
		return err
	}
	if err := domain.ValidText("artifact_location", n.Location, maxLocation); err != nil {
		return err
	}
	if strings.ContainsAny(n.Location, "#?") {
		return domain.Invalid("artifact_location", "The artifact location must not have a query or a fragment (? or #).")
	}
	return validExperimentTags(n.Tags)
}

func validExperimentTags(tags []Pair) error {
	for _, t := range tags {
		if err := validKey("Tag name", t.Key); err != nil {
			return err
		}
		if n := utf8.RuneCountInString(t.Value); n > maxExperimentTag {
			return domain.Invalid("value", "The value of an experiment's tag has at most %d characters; this one has %d.", maxExperimentTag, n)
		}
		if err := domain.ValidText("value", t.Value, 4*maxExperimentTag); err != nil {
			return err
		}
	}
	return nil
}
