package hub_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/statement"
)

// The refusals of a statement differ: permanent, before it began, or because it may have begun.
func TestAStatementThatIsNotTaken(t *testing.T) {
	everywhere(t, func(t *testing.T, asked, holds *replica) {
		for status, code := range map[int]domain.Code{
			http.StatusBadRequest: domain.CodeInvalid, http.StatusRequestEntityTooLarge: domain.CodeInvalid, http.StatusConflict: domain.CodeConflict,
			http.StatusServiceUnavailable: domain.CodeUnavailable, http.StatusNotFound: domain.CodeInternal,
		} {
			c := holds.connectWith(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `{"error":"So it is."}`, status) })
			c.hello()
			_, err := asked.sessions.Execute(t.Context(), asked.w.agent.ID, statement.EngineStatement{Statement: statement.Statement{ID: "stm_1"}})
			require.Equal(t, code, domain.AsError(err).Code, status)
			require.ErrorContains(t, err, "So it is.")
		}
	})
}

// A statement with a lost answer may have begun, so it is not sent twice.
func TestAStatementWhoseAnswerIsLostMayHaveBegun(t *testing.T) {
	everywhere(t, func(t *testing.T, asked, holds *replica) {
		var lose atomic.Bool
		c := holds.connectWith(func(w http.ResponseWriter, _ *http.Request) {
			if lose.Load() {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(http.StatusNoContent)
		})
		c.hello()
		require.NoError(t, asked.sessions.Cancel(t.Context(), asked.w.agent.ID, "att_1")) // so that there is a connection to reuse
		c.next()
		lose.Store(true)
		_, err := asked.sessions.Execute(t.Context(), asked.w.agent.ID, statement.EngineStatement{Statement: statement.Statement{ID: "stm_1"}})
		require.True(t, domain.IsCode(err, domain.CodeConflict), "%v", err)
		require.Equal(t, agent.StatementsPath, c.next().path)
		require.Empty(t, c.got)
	})
}

// A statement for a disconnected agent has certainly not begun, even if a connection was just in
// use.
func TestAStatementForAnAgentThatIsAwayHasNotBegun(t *testing.T) {
	w := newWorld(t)
	send := func() error {
		_, err := w.first.sessions.Execute(t.Context(), w.agent.ID, statement.EngineStatement{Statement: statement.Statement{ID: "stm_1"}})
		return err
	}
	require.Equal(t, domain.CodeUnavailable, domain.AsError(send()).Code)
	c := w.first.connect()
	c.hello()
	require.NoError(t, w.first.sessions.Cancel(t.Context(), w.agent.ID, "att_1"))
	c.next()
	require.NoError(t, c.link.Close())
	require.Eventually(t, func() bool { return w.first.sessions.Connected() == 0 }, time.Minute, time.Millisecond)
	require.Equal(t, domain.CodeUnavailable, domain.AsError(send()).Code)
}
