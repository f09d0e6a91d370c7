package lake

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millpond/millpond/domain"
)

// stageTime is how long a stage is stored.
const stageTime = 24 * time.Hour

// maxStages bounds the staged directories of a workspace.
const maxStages = 10_000

// chosen maps directories that a client chooses for a table to the field that names them.
type chosen map[string]string

// choices returns the location, which may be empty, and the directories of the properties outside
// it.
func (f fence) choices(location string, properties map[string]string) (chosen, error) {
	dirs, err := f.paths(properties)
	if err != nil {
		return nil, err
	}
	if dirs == nil {
		dirs = chosen{}
	}
	if location != "" {
		maps.DeleteFunc(dirs, func(dir, _ string) bool { return inside(dir, location) })
		dirs[location] = "location"
	}
	return dirs, nil
}

func (d chosen) names() []string { return slices.Sorted(maps.Keys(d)) }

// foreign returns the directories outside those of the tables ids. It refuses directories in
// another table's.
func (c *Catalog) foreign(ctx context.Context, s domain.Scope, dirs chosen, ids ...domain.TableID) (chosen, error) {
	f := c.fence(s)
	if len(dirs) == 0 {
		return nil, nil
	}
	var all []string
	for dir := range dirs {
		all = append(append(all, dir), f.around(dir)...)
	}
	var owners map[string]domain.TableID
	err := c.Store.In(ctx, s, func(tx Tx) (err error) {
		owners, err = tx.LocationOwners(ctx, all)
		return err
	})
	if err != nil {
		return nil, err
	}
	others := chosen{}
	for dir, field := range dirs {
		own := false
		for _, at := range append(f.around(dir), dir) {
			if owner, owned := owners[at]; owned && !slices.Contains(ids, owner) {
				return nil, overlapping(field, dir)
			} else if owned {
				own = true
			}
		}
		if !own {
			others[dir] = field
		}
	}
	return others, nil
}

func overlapping(field, dir string) error {
	if field == "location" {
		return overlaid(dir)
	}
	return overlappingPath(field, dir)
}

// vacant refuses directories that belong to another table or hold a file: removing the table's
// files would remove those too. Directories that the table already has are exempt.
func (c *Catalog) vacant(ctx context.Context, s domain.Scope, id domain.TableID, dirs chosen) error {
	dirs, err := c.foreign(ctx, s, dirs, id)
	if err != nil {
		return err
	}
	for _, dir := range dirs.names() {
		if err := c.holdsNone(ctx, dirs[dir], dir); err != nil {
			return err
		}
	}
	return nil
}

var errFound = errors.New("there is a file")

func (c *Catalog) holdsNone(ctx context.Context, field, dir string) error {
	var first string
	err := c.Files.List(ctx, dir+"/", func(file FileInfo) error {
		if strings.HasSuffix(file.URI, "/") { // a bucket's marker of a directory
			return nil
		}
		first = file.URI
		return errFound
	})
	if !errors.Is(err, errFound) {
		return err
	}
	return &domain.Error{
		Code: domain.CodeConflict, Field: field,
		Message: "The " + field + " " + dir + " holds files already, such as " + first + "; choose an empty directory, or register the table that lies there by its metadata file.",
	}
}

// stageLocations stores for a day that the directories are empty.
func (c *Catalog) stageLocations(ctx context.Context, s domain.Scope, dirs chosen) error {
	return c.Store.In(ctx, s, func(tx Tx) error {
		done, err := tx.StageLocations(ctx, dirs.names(), c.Clock.Now(), maxStages)
		if err == nil && !done {
			err = domain.Errorf(domain.CodeQuota, "The workspace has %d staged tables that were never made; try again tomorrow, or make tables without staging them.", maxStages)
		}
		return err
	})
}

// staged reports whether all directories are staged, or lie in staged ones.
func (c *Catalog) staged(ctx context.Context, s domain.Scope, dirs chosen) (all bool, err error) {
	var found []string
	err = c.Store.In(ctx, s, func(tx Tx) (err error) {
		found, err = tx.StagedLocations(ctx, dirs.names(), c.Clock.Now().Add(-stageTime))
		return err
	})
	return len(found) == len(dirs), err
}
