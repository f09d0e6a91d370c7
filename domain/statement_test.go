package domain

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStatementLifeCycle is every state × event.
func TestStatementLifeCycle(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	events := map[string]func(*Statement) error{
		"begin":     func(s *Statement) error { s.begin(now); return nil },
		"placed":    func(s *Statement) error { s.advance(StatementProgress{Done: -1}, now); return nil },
		"queued":    func(s *Statement) error { s.advance(StatementProgress{Queued: true}, now); return nil },
		"succeed":   func(s *Statement) error { s.end(nil, now); return nil },
		"fail":      func(s *Statement) error { s.end(&StatementFailure{Fault: FaultQuery, Message: "No."}, now); return nil },
		"cancelled": func(s *Statement) error { s.end(&StatementFailure{Fault: FaultCancelled}, now); return nil },
		"cancel":    func(s *Statement) error { return s.cancel(now) },
	}
	next := map[StatementState]map[string]StatementState{
		StatementQueued: {
			"begin": StatementRunning, "placed": StatementRunning, "queued": StatementQueued, "succeed": StatementSucceeded, "fail": StatementFailed,
			"cancelled": StatementCancelled, "cancel": StatementQueued,
		},
		StatementRunning: {
			"begin": StatementRunning, "placed": StatementRunning, "queued": StatementRunning, "succeed": StatementSucceeded, "fail": StatementFailed,
			"cancelled": StatementCancelled, "cancel": StatementRunning,
		},
	}
	for _, state := range StatementStates {
		for name, event := range events {
			st := Statement{ID: "stm_1", State: state}
			if state.Final() {
				st.FinishedAt = new(now.Add(-time.Hour))
			}
			was := st
			err := event(&st)
			if state.Final() {
				require.Equal(t, was, st, "%s after %s changes nothing", name, state)
				require.Equal(t, name == "cancel", IsCode(err, CodeConflict), "%s after %s", name, state)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, next[state][name], st.State, "%s after %s", name, state)
			require.Equal(t, st.State.Final(), st.FinishedAt != nil)
			require.Equal(t, name == "cancel", st.CancelRequestedAt != nil)
		}
	}
	st := Statement{State: StatementRunning}
	require.NoError(t, st.cancel(now))
	require.True(t, IsCode(st.cancel(now), CodeConflict), "a second time")
}

// TestStatementErrors: each fault has its code, and says where.
func TestStatementErrors(t *testing.T) {
	for fault, code := range map[Fault]Code{
		FaultQuery: CodeInvalid, FaultForbidden: CodeForbidden, FaultConflict: CodeConflict, FaultTimeout: CodeInvalid, FaultResources: CodeInvalid,
		FaultEngine: CodeUnavailable, "unheard of": CodeUnavailable,
	} {
		st := Statement{State: StatementFailed, Failure: &StatementFailure{Fault: fault, Message: "It is so.", Line: 3, Column: 7}}
		e := AsError(st.Err())
		require.Equal(t, code, e.Code, fault)
		require.Equal(t, "Line 3, column 7: It is so.", e.Message)
		require.Equal(t, []int{3, 7}, []int{e.Line, e.Column})
	}
	require.NoError(t, (&Statement{State: StatementSucceeded}).Err())
	require.Equal(t, CodeConflict, AsError((&Statement{ID: "stm_1", State: StatementCancelled}).Err()).Code)
}

func TestWhatHadCommittedHasSucceeded(t *testing.T) {
	made, rows := Lineage{Written: []LineageEntry{{}}}, Lineage{Written: []LineageEntry{{}, {SnapshotID: 7}}}
	for _, c := range []struct {
		kind      string
		fault     Fault
		written   Lineage
		committed bool
	}{
		{"INSERT", FaultEngine, rows, true},
		{"INSERT", FaultCancelled, rows, true},
		{"MERGE", FaultTimeout, rows, true},
		{"UPDATE", FaultResources, rows, true},
		{"DELETE", FaultEngine, made, false},
		{"INSERT", FaultEngine, Lineage{Read: rows.Written}, false},
		{"CREATE TABLE", FaultEngine, made, true},
		{"CREATE TABLE", FaultCancelled, Lineage{}, false},
		{"INSERT", FaultConflict, rows, false},
		{"INSERT", FaultQuery, rows, false},
	} {
		st := Statement{Kind: c.kind}
		require.Equal(t, c.committed, st.committed(c.fault, c.written), "%+v", c)
	}
}

func TestWhatBecameOfAStatementThatWasEndedIsTold(t *testing.T) {
	for _, c := range []struct {
		st     Statement
		unsure bool
		told   string
	}{
		{Statement{Kind: "INSERT", Write: true}, true, "It ended. Nothing of it was committed: run it again."},
		{Statement{Kind: "CREATE TABLE", Write: true}, true, "It ended. Nothing of it was committed: run it again."},
		{Statement{Kind: "ALTER TABLE", Write: true}, true, "It ended. Whether what it changes was committed is not known: look before you run it again."},
		{Statement{Kind: "SELECT"}, true, "It ended. Run the statement again."},
		{Statement{}, true, "It ended. Whether what it changes was committed is not known: look before you run it again."},
		{Statement{Kind: "INSERT", Write: true}, false, "It ended."},
	} {
		f := &StatementFailure{Fault: FaultEngine, Message: "It ended.", Unsure: c.unsure}
		require.Equal(t, c.told, c.st.settled(f).Message)
		require.Equal(t, "It ended.", f.Message)
	}
	require.Nil(t, (&Statement{}).settled(nil))
	late := &StatementFailure{Fault: FaultTimeout, Message: "It took too long.", Unsure: true}
	require.Equal(t, "It took too long.", (&Statement{Kind: "SELECT"}).settled(late).Message)
	require.Equal(t, "It took too long. Nothing of it was committed: run it again.", (&Statement{Kind: "INSERT", Write: true}).settled(late).Message)
}

func TestAReadIsAbandonedByTheLastOfItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRelay(nil, Statement{}, "ws_1")
		r.wait()
		r.wait()
		r.leave(false)
		require.False(t, isClosed(r.abandoned), "another waits")
		r.leave(true)
		synctest.Wait()
		require.False(t, isClosed(r.abandoned), "who has a key may ask again")
		r.wait()
		select {
		case <-r.abandoned:
			t.Fatal("who has a key has asked again")
		case <-time.After(2 * comeBack):
		}
		r.leave(true)
		<-r.abandoned
	})
}
