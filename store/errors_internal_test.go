package store

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

// TestADatabaseWithoutRoomIsUnavailable returns the reason without the database's message, which
// contains paths of its host.
func TestADatabaseWithoutRoomIsUnavailable(t *testing.T) {
	for code, says := range map[pqerror.Code]string{
		pqerror.DiskFull: "its disk is full", pqerror.OutOfMemory: "memory", pqerror.ConfigurationLimitExceeded: "limits", pqerror.IOError: "disk fails",
		pqerror.TooManyConnections: "does not answer",
	} {
		err := mapError(&pq.Error{Code: code, Message: `could not extend file "/var/lib/pg/base/1": No space left on device`})
		require.True(t, domain.IsCode(err, domain.CodeUnavailable), code)
		require.Contains(t, domain.AsError(err).Message, says)
		require.NotContains(t, domain.AsError(err).Message, "/var")
	}
}

// TestAFailedWriteIsALostConnection, also when lib/pq hides the error of the system.
func TestAFailedWriteIsALostConnection(t *testing.T) {
	for _, cause := range []error{syscall.EPIPE, syscall.ECONNRESET} {
		hidden := errors.New((&net.OpError{Op: "write", Net: "unix", Err: os.NewSyscallError("write", cause)}).Error())
		require.True(t, domain.IsCode(mapError(hidden), domain.CodeUnavailable), hidden)
	}
}
