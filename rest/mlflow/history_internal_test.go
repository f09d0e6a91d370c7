package mlflow

import (
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAHistoryThatFailsIsCutOff: a client must not take part of an answer for the whole.
func TestAHistoryThatFailsIsCutOff(t *testing.T) {
	failed := errors.New("the database is gone")
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { _ = (&history{began: true}).end("", failed) })
	require.Equal(t, failed, (&history{}).end("", failed), "nothing was sent, so that it is answered")
}
