package statement

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/machine"
)

// TestStatementLifeCycle covers every state × event.
func TestStatementLifeCycle(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	events := map[string]func(*Statement) error{
		"begin":     func(s *Statement) error { s.begin(now); return nil },
		"placed":    func(s *Statement) error { s.advance(Progress{Done: -1}, now); return nil },
		"queued":    func(s *Statement) error { s.advance(Progress{Queued: true}, now); return nil },
		"succeed":   func(s *Statement) error { s.end(nil, now); return nil },
		"fail":      func(s *Statement) error { s.end(&Failure{Fault: FaultQuery, Message: "No."}, now); return nil },
		"cancelled": func(s *Statement) error { s.end(&Failure{Fault: FaultCancelled}, now); return nil },
		"cancel":    func(s *Statement) error { return s.cancel(now) },
	}
	next := map[State]map[string]State{
		Queued: {
			"begin": Running, "placed": Running, "queued": Queued, "succeed": Succeeded, "fail": Failed,
			"cancelled": Cancelled, "cancel": Queued,
		},
		Running: {
			"begin": Running, "placed": Running, "queued": Running, "succeed": Succeeded, "fail": Failed,
			"cancelled": Cancelled, "cancel": Running,
		},
	}
	for _, state := range States {
		for name, event := range events {
			st := Statement{ID: "stm_1", State: state}
			if state.Final() {
				st.FinishedAt = new(now.Add(-time.Hour))
			}
			was := st
			err := event(&st)
			if state.Final() {
				require.Equal(t, was, st, "%s after %s changes nothing", name, state)
				require.Equal(t, name == "cancel", domain.IsCode(err, domain.CodeConflict), "%s after %s", name, state)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, next[state][name], st.State, "%s after %s", name, state)
			require.Equal(t, st.State.Final(), st.FinishedAt != nil)
			require.Equal(t, name == "cancel", st.CancelRequestedAt != nil)
		}
	}
	st := Statement{State: Running}
	require.NoError(t, st.cancel(now))
	require.True(t, domain.IsCode(st.cancel(now), domain.CodeConflict), "a second time")
}

// TestStatementErrors checks each fault's code and position.
func TestStatementErrors(t *testing.T) {
	for fault, code := range map[Fault]domain.Code{
		FaultQuery: domain.CodeInvalid, FaultForbidden: domain.CodeForbidden, FaultConflict: domain.CodeConflict, FaultTimeout: domain.CodeInvalid, FaultResources: domain.CodeInvalid,
		FaultEngine: domain.CodeUnavailable, "unheard of": domain.CodeUnavailable,
	} {
		st := Statement{State: Failed, Failure: &Failure{Fault: fault, Message: "It is so.", Line: 3, Column: 7}}
		e := domain.AsError(st.Err())
		require.Equal(t, code, e.Code, fault)
		require.Equal(t, "Line 3, column 7: It is so.", e.Message)
		require.Equal(t, []int{3, 7}, []int{e.Line, e.Column})
	}
	require.NoError(t, (&Statement{State: Succeeded}).Err())
	require.Equal(t, domain.CodeConflict, domain.AsError((&Statement{ID: "stm_1", State: Cancelled}).Err()).Code)
}

func TestWhatHadCommittedHasSucceeded(t *testing.T) {
	made, rows := lake.Lineage{Written: []lake.LineageEntry{{}}}, lake.Lineage{Written: []lake.LineageEntry{{}, {SnapshotID: 7}}}
	for _, c := range []struct {
		kind      string
		fault     Fault
		written   lake.Lineage
		committed bool
	}{
		{"INSERT", FaultEngine, rows, true},
		{"INSERT", FaultCancelled, rows, true},
		{"MERGE", FaultTimeout, rows, true},
		{"UPDATE", FaultResources, rows, true},
		{"DELETE", FaultEngine, made, false},
		{"INSERT", FaultEngine, lake.Lineage{Read: rows.Written}, false},
		{"CREATE TABLE", FaultEngine, made, true},
		{"CREATE TABLE", FaultCancelled, lake.Lineage{}, false},
		{"ALTER TABLE", FaultEngine, made, true},
		{"EXPIRE SNAPSHOTS", FaultEngine, made, false},
		{"INSERT", FaultConflict, rows, false},
		{"INSERT", FaultQuery, rows, false},
	} {
		st := Statement{Kind: c.kind}
		require.Equal(t, c.committed, st.committed(c.fault, c.written), "%+v", c)
	}
}

func TestWhatBecameOfAStatementThatWasEndedIsTold(t *testing.T) {
	const nothing, unknown = "It ended. Nothing of it was committed: run it again.", "It ended. Whether its changes were committed is not known: check before you run it again."
	for _, c := range []struct {
		st     Statement
		unsure bool
		says   string
	}{
		{Statement{Kind: "INSERT", Write: true}, true, nothing},
		{Statement{Kind: "ALTER TABLE", Write: true}, true, nothing},
		{Statement{Kind: "OPTIMIZE", Write: true}, true, nothing},
		{Statement{Kind: "OPTIMIZE", Write: true, Committed: true}, true, unknown},
		{Statement{Kind: "ALTER TABLE", Write: true, Committed: true}, true, unknown},
		{Statement{}, true, nothing},
		{Statement{Committed: true}, true, unknown},
		{Statement{Purpose: Maintenance, Kind: "OPTIMIZE", Write: true}, true, "It ended. Nothing of it was committed."},
		{Statement{Purpose: Maintenance, Committed: true}, true, "It ended. Whether its changes were committed is not known. Maintenance can repeat it without harm."},
		{Statement{Kind: "SELECT"}, true, "It ended. Run the statement again."},
		{Statement{Kind: "INSERT", Write: true}, false, "It ended."},
	} {
		f := &Failure{Fault: FaultEngine, Message: "It ended.", Unsure: c.unsure}
		require.Equal(t, c.says, c.st.finalFailure(f).Message, "%+v", c.st)
		require.Equal(t, "It ended.", f.Message)
	}
	require.Nil(t, (&Statement{}).finalFailure(nil))
	late := &Failure{Fault: FaultTimeout, Message: "It took too long.", Unsure: true}
	require.Equal(t, "It took too long.", (&Statement{Kind: "SELECT"}).finalFailure(late).Message)
	require.Equal(t, "It took too long. Nothing of it was committed: run it again.", (&Statement{Kind: "INSERT", Write: true}).finalFailure(late).Message)
}

// TestAnAbandonedStatementEndsOnceItIsKnownToRead abandons a statement before its engine has
// reported its kind.
func TestAnAbandonedStatementEndsOnceItIsKnownToRead(t *testing.T) {
	for _, c := range []struct {
		write, ends bool
	}{{false, true}, {true, false}} {
		x := newExecution(&Statements{Options: Options{Clock: domain.SystemClock{}}}, Statement{State: Queued}, "ws_1")
		x.wait()
		x.leave(false)
		require.False(t, isClosed(x.abandoned))
		require.NoError(t, x.receive(Event{Progress: &Progress{Queued: true, Kind: "IT", Write: c.write}}))
		require.Equal(t, c.ends, isClosed(x.abandoned))
	}
}

func TestAReadIsAbandonedByTheLastOfItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newExecution(nil, Statement{Kind: "SELECT"}, "ws_1")
		r.wait()
		r.wait()
		r.leave(false)
		require.False(t, isClosed(r.abandoned), "another waits")
		r.leave(true)
		synctest.Wait()
		require.False(t, isClosed(r.abandoned), "a caller with a key may return")
		r.wait()
		select {
		case <-r.abandoned:
			t.Fatal("a caller with a key has returned")
		case <-time.After(2 * reconnectGrace):
		}
		r.leave(true)
		<-r.abandoned
	})
}

// TestADatabaseThatIsAwayIsAskedAgain checks broken connections and refusals by the database.
func TestADatabaseThatIsAwayIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := []error{domain.Errorf(domain.CodeUnavailable, "The database does not answer."), errors.New("broken")}
		require.NoError(t, untilWritten(t.Context(), func() (err error) {
			if len(away) > 0 {
				err, away = away[0], away[1:]
			}
			return err
		}))
		require.Empty(t, away)
		refused := domain.Errorf(domain.CodeConflict, "Another server has the statement.")
		require.Equal(t, error(refused), untilWritten(t.Context(), func() error { return refused }))
	})
}

// TestWhatKeepsAWarehouseFromAStatementIsNoAbsenceOfTheDatabase checks that such an error ends the
// statement.
func TestWhatKeepsAWarehouseFromAStatementIsNoAbsenceOfTheDatabase(t *testing.T) {
	now := time.Now()
	x := newExecution(nil, Statement{CreatedAt: now}, "ws_1")
	for _, m := range []machine.Machine{{Name: "held", HeldAt: &now}, {Name: "broken", State: machine.Failed, StateSince: now}} {
		_, err := x.wakeWarehouse(t.Context(), nil, &m, now)
		require.Error(t, err)
		require.False(t, IsPassing(err), m.Name)
	}
}
