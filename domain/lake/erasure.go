package lake

import (
	"context"
	"time"

	"github.com/millpond/millpond/domain"
)

// Bounds of the delay before files are erased that a commit no longer references. Readers that
// opened the table before it can finish meanwhile.
const (
	MinEraseAfter = 24 * time.Hour
	MaxEraseAfter = 30 * 24 * time.Hour
)

// DueErasure is a list of files that a commit of a table no longer references, to be erased at
// DueAt.
type DueErasure struct {
	ID        string // UUID
	TableID   domain.TableID
	List      string // URI of the list: one file name a line, relative to the workspace's storage
	CreatedAt time.Time
	DueAt     time.Time
}

// erasureTx stores pending erasures.
type erasureTx interface {
	InsertLakeErasure(ctx context.Context, e DueErasure) error
	LakeErasure(ctx context.Context, id string) (DueErasure, error)
	// PostponeLakeErasure records that an erasure has failed. It is due again an hour after from;
	// the delay doubles each time, up to a day.
	PostponeLakeErasure(ctx context.Context, id string, from time.Time) error
	// DeleteLakeErasure removes the row. A missing row is no error.
	DeleteLakeErasure(ctx context.Context, id string) error
}

// ErasureRef names an erasure across workspaces.
type ErasureRef struct {
	Workspace domain.WorkspaceID
	ID        string
}
