package job

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

var epoch = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// at returns the time n seconds after epoch.
func at(n int) time.Time { return epoch.Add(time.Duration(n) * time.Second) }

func command(retries int) Job {
	return Job{ID: "job_1", Name: "nightly", Spec: Spec{Command: "true", MaxRetries: retries}}
}

// dag returns a job of tasks. Each is written as its key and its dependencies: "c < a b".
func dag(retries int, tasks ...string) Job {
	job := Job{ID: "job_1", Name: "pipeline"}
	for _, text := range tasks {
		key, on, _ := strings.Cut(text, " < ")
		job.Tasks = append(job.Tasks, TaskSpec{Key: key, Command: "true", DependsOn: strings.Fields(on), MaxRetries: retries})
	}
	return job
}

// begun returns an admitted run of the job.
func begun(job Job) *Run {
	r := newRun(job, domain.Actor{Kind: domain.ActorUser, ID: "usr_1"}, nil, TriggerManual, epoch)
	r.Admit(epoch)
	return r
}

// attempt assigns the task and starts its attempt.
func attempt(r *Run, key string) domain.AttemptID {
	a := r.Assign(r.Task(key), "agt_1", epoch)
	r.AttemptStarted(a.ID, key, at(1))
	return a.ID
}

func finish(r *Run, key string, status AttemptStatus) {
	r.AttemptEnded(attempt(r, key), key, AttemptEnd{Status: status, Message: "It broke."}, at(2))
}

func statuses(r *Run) string {
	var all []string
	for _, t := range r.Tasks {
		all = append(all, t.Key+"="+string(t.Status))
	}
	return string(r.Status) + ": " + strings.Join(all, " ")
}

// runStates are the states of a run of a single command with one retry, with the steps that lead
// there.
var runStates = []struct {
	name string
	make func() (*Run, domain.AttemptID)
}{
	{"held", func() (*Run, domain.AttemptID) {
		return newRun(command(1), domain.Actor{Kind: domain.ActorUser}, nil, TriggerManual, epoch), "att_none"
	}},
	{"queued", func() (*Run, domain.AttemptID) { return begun(command(1)), "att_none" }},
	{"assigned", func() (*Run, domain.AttemptID) {
		r := begun(command(1))
		return r, r.Assign(r.Task(""), "agt_1", epoch).ID
	}},
	{"running", func() (*Run, domain.AttemptID) {
		r := begun(command(1))
		return r, attempt(r, "")
	}},
	{"backing off", func() (*Run, domain.AttemptID) {
		r := begun(command(1))
		a := attempt(r, "")
		r.AttemptEnded(a, "", AttemptEnd{Status: AttemptFailed}, at(2))
		return r, a
	}},
	{"last try", func() (*Run, domain.AttemptID) {
		r := begun(command(1))
		finish(r, "", AttemptFailed)
		return r, attempt(r, "")
	}},
	{"cancelling", func() (*Run, domain.AttemptID) {
		r := begun(command(1))
		a := attempt(r, "")
		_, _ = r.Cancel(at(2))
		return r, a
	}},
	{"success", func() (*Run, domain.AttemptID) {
		r := begun(command(1))
		a := attempt(r, "")
		r.AttemptEnded(a, "", AttemptEnd{Status: AttemptSuccess}, at(2))
		return r, a
	}},
	{"failed", func() (*Run, domain.AttemptID) {
		r := begun(command(0))
		a := attempt(r, "")
		r.AttemptEnded(a, "", AttemptEnd{Status: AttemptFailed}, at(2))
		return r, a
	}},
	{"cancelled", func() (*Run, domain.AttemptID) {
		r := begun(command(1))
		a := attempt(r, "")
		_, _ = r.Cancel(at(2))
		r.AttemptEnded(a, "", AttemptEnd{Status: AttemptCancelled}, at(3))
		return r, a
	}},
}

// runEvents are all events of a run; a is its live attempt, or else its last one.
var runEvents = []struct {
	name string
	do   func(r *Run, a domain.AttemptID) error
}{
	{"admit", func(r *Run, _ domain.AttemptID) error { r.Admit(at(5)); return nil }},
	{"assign", func(r *Run, _ domain.AttemptID) error {
		for _, t := range r.Ready(at(60)) {
			r.Assign(t, "agt_1", at(5))
		}
		return nil
	}},
	{"started", func(r *Run, a domain.AttemptID) error { r.AttemptStarted(a, "", at(5)); return nil }},
	{"started, a stranger", func(r *Run, _ domain.AttemptID) error { r.AttemptStarted("att_other", "", at(5)); return nil }},
	{"ended success", ended(AttemptSuccess)},
	{"ended failed", ended(AttemptFailed)},
	{"ended cancelled", ended(AttemptCancelled)},
	{"ended lost", ended(AttemptLost)},
	{"ended, a stranger", func(r *Run, _ domain.AttemptID) error {
		r.AttemptEnded("att_other", "", AttemptEnd{Status: AttemptSuccess}, at(5))
		return nil
	}},
	{"cancel", func(r *Run, _ domain.AttemptID) error { _, err := r.Cancel(at(5)); return err }},
	{"repair", func(r *Run, _ domain.AttemptID) error { return r.Repair() }},
}

func ended(s AttemptStatus) func(*Run, domain.AttemptID) error {
	return func(r *Run, a domain.AttemptID) error {
		r.AttemptEnded(a, "", AttemptEnd{Status: s, Message: "It broke."}, at(5))
		return nil
	}
}

// runTable gives the result of each event in each state. A cell is run/task and the number of
// retries, with * if an attempt is alive; "=" if nothing changes; "!" if it is refused.
const runTable = `
                     held              queued             assigned           running            backing off        last try           cancelling           success            failed             cancelled
admit                pending/queued 0  =                  =                  =                  =                  =                  =                    =                  =                  =
assign               =                 pending/queued 0*  =                  =                  running/queued 1*  =                  =                    =                  =                  =
started              =                 =                  running/running 0* =                  =                  =                  =                    =                  =                  =
started, a stranger  =                 =                  =                  =                  =                  =                  =                    =                  =                  =
ended success        =                 =                  success/success 0  success/success 0  =                  success/success 1  cancelled/success 0  =                  =                  =
ended failed         =                 =                  pending/queued 1   running/queued 1   =                  failed/failed 1    cancelled/cancelled 0 =                 =                  =
ended cancelled      =                 =                  pending/queued 1   running/queued 1   =                  failed/failed 1    cancelled/cancelled 0 =                 =                  =
ended lost           =                 =                  pending/queued 1   running/queued 1   =                  failed/failed 1    cancelled/cancelled 0 =                 =                  =
ended, a stranger    =                 =                  =                  =                  =                  =                  =                    =                  =                  =
cancel               cancelled/cancelled 0  cancelled/cancelled 0  pending/queued 0*  running/running 0*  cancelled/cancelled 1  running/running 1*  !  !  !  !
repair               !                 !                  !                  !                  !                  !                  !                    !                  pending/pending 1  pending/pending 1
`

// TestRunStateByEvent checks the whole table, which must include every state and event.
func TestRunStateByEvent(t *testing.T) {
	lines := strings.Split(strings.Trim(runTable, "\n"), "\n")
	require.Len(t, lines, len(runEvents)+1)
	for i, event := range runEvents {
		cells, ok := strings.CutPrefix(lines[i+1], event.name+" ")
		require.True(t, ok, "row %d is of %q", i+1, event.name)
		want := columns(cells)
		require.Len(t, want, len(runStates), event.name)
		for j, state := range runStates {
			r, a := state.make()
			before := *r
			before.Tasks = append([]Task(nil), r.Tasks...)
			err := event.do(r, a)
			got := outcome(&before, r, err)
			require.Equal(t, want[j], got, "%s at a run that is %s", event.name, state.name)
		}
	}
}

// columns splits a row into cells: "=", "!", or a pair and a number.
func columns(row string) (cells []string) {
	fields := strings.Fields(row)
	for i := 0; i < len(fields); i++ {
		cell := fields[i]
		if strings.Contains(cell, "/") {
			i++
			cell += " " + fields[i]
		}
		cells = append(cells, cell)
	}
	return cells
}

func outcome(before, after *Run, err error) string {
	if err != nil {
		if !domain.IsCode(err, domain.CodeConflict) {
			return err.Error()
		}
		return "!"
	}
	if fmt.Sprintf("%+v", *before) == fmt.Sprintf("%+v", *after) {
		return "="
	}
	t := after.Tasks[0]
	alive := ""
	if t.Current != "" {
		alive = "*"
	}
	return fmt.Sprintf("%s/%s %d%s", after.Status, t.Status, t.RetryCount, alive)
}

func TestAnEventThatIsRefusedChangesNothing(t *testing.T) {
	for _, state := range runStates {
		for _, event := range runEvents {
			r, a := state.make()
			before := fmt.Sprintf("%+v", *r)
			if event.do(r, a) != nil {
				require.Equal(t, before, fmt.Sprintf("%+v", *r), "%s at a run that is %s", event.name, state.name)
			}
		}
	}
}

func TestTasksStartWhenTheirDependenciesHaveSucceeded(t *testing.T) {
	r := begun(dag(0, "d < b c", "a", "b < a", "c < a"))
	require.Equal(t, "pending: d=pending a=queued b=pending c=pending", statuses(r))
	finish(r, "a", AttemptSuccess)
	require.Equal(t, "running: d=pending a=success b=queued c=queued", statuses(r))
	finish(r, "b", AttemptSuccess)
	require.Equal(t, "running: d=pending a=success b=success c=queued", statuses(r))
	finish(r, "c", AttemptSuccess)
	finish(r, "d", AttemptSuccess)
	require.Equal(t, "success: d=success a=success b=success c=success", statuses(r))
	require.Equal(t, at(1), *r.StartedAt)
	require.Equal(t, at(2), *r.FinishedAt)
}

func TestAFailureSkipsWhatDependsOnItAndNothingElse(t *testing.T) {
	r := begun(dag(0, "e < d", "d < b", "a", "b < a", "c"))
	finish(r, "a", AttemptFailed)
	require.Equal(t, "running: e=skipped d=skipped a=failed b=skipped c=queued", statuses(r))
	require.Equal(t, "Skipped because d did not succeed.", r.Task("e").Message)
	finish(r, "c", AttemptSuccess)
	require.Equal(t, "failed: e=skipped d=skipped a=failed b=skipped c=success", statuses(r))
	require.Equal(t, "a: It broke.", r.Message)
}

func TestRetriesBackOffAndDouble(t *testing.T) {
	r := begun(command(9))
	var pauses []time.Duration
	for range 9 {
		a := attempt(r, "")
		r.AttemptEnded(a, "", AttemptEnd{Status: AttemptFailed}, epoch)
		notBefore := r.Task("").NotBefore
		pauses = append(pauses, notBefore.Sub(epoch))
		require.Empty(t, r.Ready(notBefore.Add(-1)), "before the back-off has ended")
		require.Len(t, r.Ready(*notBefore), 1)
	}
	require.Equal(t, []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9, 32e9, 60e9, 60e9, 60e9}, pauses)
	finish(r, "", AttemptFailed)
	require.Equal(t, RunFailed, r.Status)
	require.Equal(t, 9, r.Task("").RetryCount)
	require.Equal(t, 10, r.Task("").Attempts)
	require.Equal(t, "It broke.", r.Message, "a single command's task has no name to show")
}

func TestCancelWaitsForWhatIsAlive(t *testing.T) {
	r := begun(dag(3, "a", "b", "c", "d < a"))
	a, b := attempt(r, "a"), r.Assign(r.Task("b"), "agt_1", epoch).ID
	live, err := r.Cancel(at(5))
	require.NoError(t, err)
	require.ElementsMatch(t, []domain.AttemptID{a, b}, live)
	require.Equal(t, "running: a=running b=queued c=cancelled d=cancelled", statuses(r))
	require.Equal(t, at(5), *r.CancelRequestedAt)
	require.Nil(t, r.FinishedAt)
	require.Empty(t, r.Ready(at(9)), "nothing starts any more")

	_, err = r.Cancel(at(6))
	require.True(t, domain.IsCode(err, domain.CodeConflict), "a second cancel: %v", err)
	r.AttemptEnded(b, "b", AttemptEnd{Status: AttemptLost}, at(7))
	require.Equal(t, RunRunning, r.Status)
	r.AttemptEnded(a, "a", AttemptEnd{Status: AttemptFailed}, at(8))
	require.Equal(t, "cancelled: a=cancelled b=cancelled c=cancelled d=cancelled", statuses(r), "no retry follows")
	require.Equal(t, at(8), *r.FinishedAt)
}

// TestWhatNobodyCancelledIsNoSuccess checks that an attempt fails if its agent cancels it without a
// request.
func TestWhatNobodyCancelledIsNoSuccess(t *testing.T) {
	r := begun(dag(0, "a", "b < a"))
	finish(r, "a", AttemptCancelled)
	require.Equal(t, "failed: a=failed b=skipped", statuses(r))
	require.Equal(t, "a: Its agent cancelled it without a request.", r.Message)
}

func TestRepairRunsWhatDidNotSucceed(t *testing.T) {
	r := begun(dag(1, "a", "b < a", "c < b"))
	finish(r, "a", AttemptSuccess)
	finish(r, "b", AttemptFailed)
	finish(r, "b", AttemptFailed)
	require.Equal(t, "failed: a=success b=failed c=skipped", statuses(r))
	require.Equal(t, 1, r.Task("b").RetryCount)

	require.NoError(t, r.Repair())
	require.Equal(t, "pending: a=success b=pending c=pending", statuses(r))
	require.Nil(t, r.FinishedAt)
	require.Equal(t, 2, r.Task("b").RetryCount, "the repair is a retry of what was tried")
	require.Equal(t, 0, r.Task("c").RetryCount, "and of nothing else")
	r.Admit(at(10))
	finish(r, "b", AttemptFailed)
	require.Equal(t, TaskQueued, r.Task("b").Status, "the retries are counted from the repair")
	finish(r, "b", AttemptSuccess)
	finish(r, "c", AttemptSuccess)
	require.Equal(t, "success: a=success b=success c=success", statuses(r))
	require.Equal(t, 3, r.Task("b").RetryCount)
	require.Equal(t, 4, r.Task("b").Attempts)
}

// TestRetryCountIsWhatWasTried checks that repairs without an attempt in between do not count as
// retries.
func TestRetryCountIsWhatWasTried(t *testing.T) {
	r := begun(command(0))
	finish(r, "", AttemptFailed)
	for range 3 {
		require.NoError(t, r.Repair())
		r.Admit(at(5))
		_, err := r.Cancel(at(6))
		require.NoError(t, err)
	}
	require.Equal(t, 1, r.Task("").RetryCount)
	require.NoError(t, r.Repair())
	r.Admit(at(7))
	finish(r, "", AttemptSuccess)
	require.Equal(t, 1, r.Task("").RetryCount)
	require.Equal(t, 2, r.Task("").Attempts)
}

func TestARunIsAFrozenCopyOfItsJob(t *testing.T) {
	job := dag(0, "a", "b < a")
	r := begun(job)
	require.Equal(t, job.Spec, r.Spec)
	require.False(t, r.Single())
	require.True(t, begun(command(0)).Single())
	require.Nil(t, r.Task("nobody"))
	require.Len(t, begun(command(0)).Tasks, 1)
}

func TestFinalStates(t *testing.T) {
	for s, want := range map[RunStatus]bool{RunPending: false, RunRunning: false, RunSuccess: true, RunFailed: true, RunCancelled: true} {
		require.Equal(t, want, s.Final(), s)
	}
	require.Len(t, RunStatuses, 5)
	for s, want := range map[TaskStatus]bool{TaskPending: false, TaskQueued: false, TaskRunning: false, TaskSuccess: true, TaskFailed: true, TaskCancelled: true, TaskSkipped: true} {
		require.Equal(t, want, s.Final(), s)
	}
	for s, want := range map[AttemptStatus]bool{AttemptStarting: false, AttemptRunning: false, AttemptSuccess: true, AttemptFailed: true, AttemptCancelled: true, AttemptLost: true} {
		require.Equal(t, want, s.Final(), s)
	}
}
