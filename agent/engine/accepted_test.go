package engine

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
)

// A statement is accepted once, whether it runs, waits or has ended.
func TestAStatementIsTakenOnce(t *testing.T) {
	s := serve(t, func(o *Options) { o.Slots, o.Queue = 1, 1 })
	again := func(st agent.Statement, want int) {
		res := s.open(t.Context(), st)
		require.NoError(t, res.Body.Close())
		require.Equal(t, want, res.StatusCode)
	}
	over := s.statement("SELECT 1")
	require.Nil(t, s.do(over).end.Error)
	again(over, http.StatusConflict)
	failed := s.statement("SELECT nope")
	require.NotNil(t, s.do(failed).end.Error)
	again(failed, http.StatusConflict)
	runs := s.statement(forever)
	res, from := s.begin(t.Context(), runs, agent.FrameHead)
	defer res.Body.Close()
	again(runs, http.StatusConflict)
	waits := s.statement("SELECT 2")
	waiting, rest := s.begin(t.Context(), waits, agent.FrameProgress)
	defer waiting.Body.Close()
	again(waits, http.StatusConflict)
	late := s.statement("SELECT 3")
	again(late, http.StatusServiceUnavailable)
	s.cancel(runs.ID)
	require.Equal(t, agent.FaultCancelled, s.read(from, nil).end.Error.Fault)
	require.Nil(t, s.read(rest, nil).end.Error)
	require.Nil(t, s.do(late).end.Error, "a statement that found the queue full is accepted later")
	again(runs, http.StatusConflict)
}

// A statement that was cancelled before it started is accepted again.
func TestAStatementThatHadNoPlaceIsTakenAgain(t *testing.T) {
	s := serve(t, func(o *Options) { o.Slots, o.Queue = 1, 1 })
	runs := s.statement(forever)
	res, from := s.begin(t.Context(), runs, agent.FrameHead)
	defer res.Body.Close()
	waits := s.statement("SELECT 2")
	waiting, rest := s.begin(t.Context(), waits, agent.FrameProgress)
	defer waiting.Body.Close()
	s.cancel(waits.ID)
	end := s.read(rest, nil).end
	require.True(t, end.Unstarted)
	require.Equal(t, agent.FaultCancelled, end.Error.Fault)
	s.cancel(runs.ID)
	require.False(t, s.read(from, nil).end.Unstarted)
	require.Nil(t, s.do(waits).end.Error)
}

func TestWhatWasTakenIsForgottenInTime(t *testing.T) {
	var known accepted
	now := time.Now()
	known.add("stm_0", now)
	require.True(t, known.has("stm_0", now.Add(acceptedFor-time.Second)))
	require.False(t, known.has("stm_0", now.Add(acceptedFor)))
	for i := range acceptedMax + 10 {
		known.add(fmt.Sprint("stm_", i+1), now)
	}
	require.False(t, known.has("stm_10", now))
	require.True(t, known.has("stm_11", now))
	require.Len(t, known.at, acceptedMax)
	known.add("stm_new", now.Add(acceptedFor))
	require.Len(t, known.at, 1)
}
