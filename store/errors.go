package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/millpond/millpond/domain"
)

// constraints maps names of constraints to errors for people.
var constraints = map[string]*domain.Error{
	"workspaces_name_key":               domain.Errorf(domain.CodeConflict, "A workspace of this name exists already; choose another name."),
	"databases_workspace_id_key_key":    domain.Errorf(domain.CodeConflict, "A database of this name exists already; choose another name."),
	"lake_tables_live":                  domain.Errorf(domain.CodeConflict, "A table or view of this name exists already; choose another name."),
	"lake_locations_pkey":               domain.Errorf(domain.CodeConflict, "The location is another table's; choose another one."),
	"experiments_workspace_id_name_key": {Code: domain.CodeConflict, Field: "name", Message: "An experiment of this name already exists, perhaps in deleted state; choose another name, or restore it."},
	"members_pkey":                      domain.Errorf(domain.CodeConflict, "This user is a member already."),
}

func openDB(c *pq.Connector) *sql.DB { return sql.OpenDB(preparing{c}) }

// lostConnection reports whether the connection failed. lib/pq reports driver.ErrBadConn for most
// such errors. Its error for a failed first write does not unwrap, so its text is read.
func lostConnection(err error) bool {
	_, isNet := errors.AsType[net.Error](err)
	return isNet || strings.HasSuffix(err.Error(), syscall.EPIPE.Error()) || strings.HasSuffix(err.Error(), syscall.ECONNRESET.Error()) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// mapError translates errors of the database into domain errors. Internal errors stay as they are.
func mapError(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if _, ours := errors.AsType[*domain.Error](err); ours {
		return err
	}
	unavailable := domain.Errorf(domain.CodeUnavailable, "The database does not answer; try again in a moment.")
	e, isPQ := errors.AsType[*pq.Error](err)
	if !isPQ {
		if lostConnection(err) {
			return unavailable.Because(err)
		}
		return err
	}
	if known := constraints[e.Constraint]; known != nil {
		shown := *known
		return shown.Because(err)
	}
	switch {
	case e.Code == pqerror.CharacterNotInRepertoire || e.Code == pqerror.UntranslatableCharacter:
		return domain.Errorf(domain.CodeInvalid, "The text holds a NUL byte or is not valid UTF-8; leave that out.").Because(err)
	case e.Code.Class() == pqerror.ClassInsufficientResources && e.Code != pqerror.TooManyConnections, e.Code == pqerror.IOError:
		return domain.Errorf(domain.CodeUnavailable, "The database refuses to write: %s.", shortage(e)).Because(err)
	case e.Code.Class() == pqerror.ClassConnectionException || e.Code.Class() == pqerror.ClassOperatorIntervention || e.Code == pqerror.TooManyConnections:
		return unavailable.Because(err)
	}
	return err
}

// shortage names what the database lacks. Its own message contains paths of its host.
func shortage(e *pq.Error) string {
	switch e.Code {
	case pqerror.DiskFull:
		return "its disk is full; free room there, then try again"
	case pqerror.OutOfMemory:
		return "it has not enough memory; try again in a moment"
	case pqerror.IOError:
		return "its disk fails; look in the database's log"
	}
	return "one of its limits is reached; try again in a moment"
}
