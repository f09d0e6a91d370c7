package job

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

func when(t testing.TB, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	require.NoError(t, err)
	return at.UTC()
}

func schedule(t testing.TB, cron, zone, now string) Schedule {
	t.Helper()
	s, err := NewSchedule{Cron: cron, TimeZone: zone}.Schedule(when(t, now))
	require.NoError(t, err)
	return s
}

func TestTicksInTheirTimeZone(t *testing.T) {
	for name, c := range map[string]struct {
		cron, zone, now string
		want            []string
	}{
		"UTC by default":         {"0 9 * * *", "", "2026-03-02T09:00:00Z", []string{"2026-03-03T09:00:00Z", "2026-03-04T09:00:00Z"}},
		"Rome in winter":         {"0 9 * * *", "Europe/Rome", "2026-03-02T00:00:00Z", []string{"2026-03-02T08:00:00Z"}},
		"half an hour":           {"0 9 * * *", "Asia/Kolkata", "2026-03-02T00:00:00Z", []string{"2026-03-02T03:30:00Z"}},
		"another day there":      {"30 0 * * 1", "Pacific/Auckland", "2026-03-01T00:00:00Z", []string{"2026-03-01T11:30:00Z"}},
		"weekday or day":         {"0 0 13 * 5", "", "2026-03-01T00:00:00Z", []string{"2026-03-06T00:00:00Z", "2026-03-13T00:00:00Z"}},
		"names":                  {"0 0 * FEB MON-FRI", "", "2026-01-01T00:00:00Z", []string{"2026-02-02T00:00:00Z"}},
		"a leap day":             {"0 0 29 2 *", "", "2026-01-01T00:00:00Z", []string{"2028-02-29T00:00:00Z"}},
		"@daily":                 {"@daily", "America/New_York", "2026-01-01T12:00:00Z", []string{"2026-01-02T05:00:00Z"}},
		"clocks forward, Rome":   {"30 2 * * *", "Europe/Rome", "2026-03-28T12:00:00Z", []string{"2026-03-30T00:30:00Z"}},
		"clocks forward, hourly": {"0 * * * *", "Europe/Rome", "2026-03-29T00:30:00Z", []string{"2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"}},
		"clocks forward, after":  {"30 3 * * *", "Europe/Rome", "2026-03-28T12:00:00Z", []string{"2026-03-29T01:30:00Z", "2026-03-30T01:30:00Z"}},
		"clocks back, Rome":      {"30 2 * * *", "Europe/Rome", "2026-10-24T12:00:00Z", []string{"2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}},
		"clocks back, New York":  {"0,30 1 * * *", "America/New_York", "2026-11-01T04:00:00Z", []string{"2026-11-01T05:00:00Z", "2026-11-01T05:30:00Z", "2026-11-02T06:00:00Z"}},
		"clocks back, half hour": {"45 1 * * *", "Australia/Lord_Howe", "2026-04-04T13:00:00Z", []string{"2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"}},
		"clocks back, hourly":    {"0 * * * *", "Europe/Rome", "2026-10-24T23:30:00Z", []string{"2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"}},
		"clocks back, after":     {"30 3 * * *", "Europe/Rome", "2026-10-24T12:00:00Z", []string{"2026-10-25T02:30:00Z"}},
		"midnight that is not":   {"0 0 * * *", "America/Santiago", "2026-09-05T12:00:00Z", []string{"2026-09-07T03:00:00Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, tick := range schedule(t, c.cron, c.zone, c.now).Next(when(t, c.now), len(c.want)) {
				got = append(got, tick.Format(time.RFC3339))
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestSchedulesThatAreRefused(t *testing.T) {
	for cron, field := range map[string]string{
		"":                         "schedule.cron",
		"* * * *":                  "schedule.cron",
		"* * * * * *":              "schedule.cron",
		"60 * * * *":               "schedule.cron",
		"nonsense":                 "schedule.cron",
		"@reboot":                  "schedule.cron",
		"@every 1s":                "schedule.cron",
		"TZ=Europe/Rome 0 0 * * *": "schedule.cron",
		"CRON_TZ=UTC 0 0 * * *":    "schedule.cron",
		"0 0 30 2 *":               "schedule.cron", // never occurs
		"*/0 * * * *":              "schedule.cron",
		"0 0 * * *\x00":            "schedule.cron",
	} {
		_, err := NewSchedule{Cron: cron}.Schedule(epoch)
		require.True(t, domain.IsCode(err, domain.CodeInvalid), "%q: %v", cron, err)
		require.Equal(t, field, domain.AsError(err).Field, "%q", cron)
	}
	for _, zone := range []string{"Local", "Mars/Olympus", "../etc/passwd", "/etc/localtime", "Europe/Rome\x00", "utc+1"} {
		_, err := NewSchedule{Cron: "@daily", TimeZone: zone}.Schedule(epoch)
		require.True(t, domain.IsCode(err, domain.CodeInvalid), "%q: %v", zone, err)
		require.Equal(t, "schedule.time_zone", domain.AsError(err).Field, "%q", zone)
	}
	_, err := PreviewSchedule(NewSchedule{Cron: "@daily"}, epoch, 101)
	require.True(t, domain.IsCode(err, domain.CodeInvalid))
	ticks, err := PreviewSchedule(NewSchedule{Cron: "@daily", Paused: true}, epoch, 3)
	require.NoError(t, err)
	require.Len(t, ticks, 3, "a preview is also shown of a schedule that is paused")
}

func TestATickComesOnce(t *testing.T) {
	s := schedule(t, "0 * * * *", "", "2026-03-02T10:30:00Z")
	require.False(t, s.Tick(when(t, "2026-03-02T10:59:59Z")))
	require.True(t, s.Tick(when(t, "2026-03-02T11:00:00Z")))
	require.Equal(t, when(t, "2026-03-02T11:00:00Z"), *s.WaitingSince)
	require.Equal(t, when(t, "2026-03-02T12:00:00Z"), *s.NextAt)
	s.WaitingSince = nil // its run has started
	require.False(t, s.Tick(when(t, "2026-03-02T11:00:01Z")))
	require.Zero(t, s.Missed)
}

func TestTicksOfATimeAwayAreMissed(t *testing.T) {
	s := schedule(t, "0 * * * *", "", "2026-03-02T10:30:00Z")
	require.False(t, s.Tick(when(t, "2026-03-02T14:30:00Z")))
	require.Equal(t, 4, s.Missed)
	require.Equal(t, when(t, "2026-03-02T14:00:00Z"), *s.LastMissedAt)
	require.Equal(t, when(t, "2026-03-02T15:00:00Z"), *s.NextAt)

	require.True(t, s.Tick(when(t, "2026-03-02T16:00:30Z")), "the newest is not too late")
	require.Equal(t, 5, s.Missed)
	require.Equal(t, when(t, "2026-03-02T16:00:00Z"), *s.WaitingSince)
}

func TestALateTickCountsForAMinute(t *testing.T) {
	s := schedule(t, "0 * * * *", "", "2026-03-02T10:30:00Z")
	require.True(t, s.Tick(when(t, "2026-03-02T11:01:00Z")))
	s = schedule(t, "0 * * * *", "", "2026-03-02T10:30:00Z")
	require.False(t, s.Tick(when(t, "2026-03-02T11:01:01Z")))
	require.Equal(t, 1, s.Missed)
}

func TestOneTickWaits(t *testing.T) {
	s := schedule(t, "0 * * * *", "", "2026-03-02T10:30:00Z")
	require.True(t, s.Tick(when(t, "2026-03-02T11:00:00Z")))
	require.True(t, s.Tick(when(t, "2026-03-02T11:20:00Z")), "it waits on")
	require.Zero(t, s.Missed)
	require.True(t, s.Tick(when(t, "2026-03-02T12:00:00Z")))
	require.Equal(t, when(t, "2026-03-02T11:00:00Z"), *s.WaitingSince, "the first waits")
	require.Equal(t, 1, s.Missed, "the second is missed")
	require.Equal(t, when(t, "2026-03-02T12:00:00Z"), *s.LastMissedAt)
	s.miss()
	require.Nil(t, s.WaitingSince)
	require.Equal(t, 2, s.Missed)
}

func TestAPausedScheduleDoesNothing(t *testing.T) {
	s, err := NewSchedule{Cron: "0 * * * *", Paused: true}.Schedule(epoch)
	require.NoError(t, err)
	require.Nil(t, s.NextAt)
	require.False(t, s.Tick(epoch.Add(48*time.Hour)))
	require.Zero(t, s.Missed, "what a pause leaves out is not missed")

	s = schedule(t, "0 * * * *", "", "2026-03-02T10:30:00Z")
	require.True(t, s.Tick(when(t, "2026-03-02T11:00:00Z")))
	s.Paused = true
	require.False(t, s.Tick(when(t, "2026-03-02T11:10:00Z")))
	require.Nil(t, s.WaitingSince, "nor does a tick wait through it")
}

func TestAMonthAwayIsCountedUpToABound(t *testing.T) {
	s := schedule(t, "* * * * *", "", "2026-03-02T10:30:00Z")
	now := when(t, "2026-04-02T10:30:30Z")
	s.Tick(now)
	require.GreaterOrEqual(t, s.Missed, maxMissed)
	require.True(t, s.NextAt.After(now))
}

// whole returns a change of every field.
func whole(n NewSchedule) *ScheduleChange {
	if n.TimeZone == "" {
		n.TimeZone = "UTC"
	}
	return &ScheduleChange{Cron: &n.Cron, TimeZone: &n.TimeZone, Paused: &n.Paused}
}

// TestAScheduleKeepsWhatAChangeLeavesOut checks that fields missing from a change stay, so pausing
// needs no cron line.
func TestAScheduleKeepsWhatAChangeLeavesOut(t *testing.T) {
	yes, zone := true, "Europe/Rome"
	job := Job{Name: "j", Spec: Spec{Command: "true"}}
	err := job.change(Change{Schedule: new(&ScheduleChange{Paused: &yes})}, epoch)
	require.ErrorContains(t, err, "schedule.cron")
	require.Nil(t, job.Schedule)

	require.NoError(t, job.reschedule(whole(NewSchedule{Cron: "0 3 * * *", TimeZone: zone}), epoch))
	require.NoError(t, job.reschedule(&ScheduleChange{Paused: &yes}, epoch))
	require.Equal(t, Schedule{Cron: "0 3 * * *", TimeZone: zone, Paused: true}, *job.Schedule)
	cron := "30 3 * * *"
	require.NoError(t, job.reschedule(&ScheduleChange{Cron: &cron}, epoch))
	require.Equal(t, Schedule{Cron: cron, TimeZone: zone, Paused: true}, *job.Schedule)
}

// TestAJobWithNothingToRunHasNoSchedule checks the refusal: the ticks would start nothing, without
// an error.
func TestAJobWithNothingToRunHasNoSchedule(t *testing.T) {
	scope := domain.SystemScope("ws_1", "test")
	daily := &NewSchedule{Cron: "@daily"}
	_, err := NewJob{Name: "j", Schedule: daily}.job(scope, epoch)
	require.ErrorContains(t, err, "nothing to run")
	_, err = NewJob{Name: "j", Spec: Spec{Tasks: []TaskSpec{}}}.job(scope, epoch)
	require.NoError(t, err, "it can be saved without one")
	job, err := NewJob{Name: "j", Spec: Spec{Command: "true"}, Schedule: daily}.job(scope, epoch)
	require.NoError(t, err)
	none := ""
	require.ErrorContains(t, job.change(Change{Command: &none}, epoch), "remove the schedule")
}

// TestChangingACommandIntoTasksSaysWhatElseToSend checks the messages in both directions.
func TestChangingACommandIntoTasksSaysWhatElseToSend(t *testing.T) {
	command, none := "true", ""
	tasks, noTasks := []TaskSpec{{Key: "a", Command: "true"}}, []TaskSpec{}
	single, dag := Job{Name: "j", Spec: Spec{Command: command}}, Job{Name: "j", Spec: Spec{Tasks: tasks}}
	try := func(j Job, c Change) error { return j.change(c, epoch) }
	require.ErrorContains(t, try(single, Change{Tasks: &tasks}), `send "command": "" too`)
	require.NoError(t, try(single, Change{Tasks: &tasks, Command: &none}))
	require.ErrorContains(t, try(dag, Change{Command: &command}), `send "tasks": [] too`)
	require.NoError(t, try(dag, Change{Command: &command, Tasks: &noTasks}))
	require.ErrorContains(t, try(single, Change{Command: &command, Tasks: &tasks}), "leave one of them out")
}

func TestANewScheduleKeepsWhatWasMissed(t *testing.T) {
	job := Job{Name: "j"}
	require.NoError(t, job.reschedule(whole(NewSchedule{Cron: "0 * * * *"}), epoch))
	missed := at(3)
	job.Schedule.Missed, job.Schedule.LastMissedAt = 4, &missed
	require.NoError(t, job.reschedule(whole(NewSchedule{Cron: "5 * * * *"}), epoch))
	require.Equal(t, 4, job.Schedule.Missed)
	require.Equal(t, missed, *job.Schedule.LastMissedAt)
	require.NoError(t, job.reschedule(nil, epoch))
	require.Nil(t, job.Schedule)
	require.Error(t, job.reschedule(whole(NewSchedule{Cron: "x"}), epoch))
}

// TestSavingAJobLosesNoTick checks that a tick between two passes of the scheduler starts its run,
// waits, or is counted.
func TestSavingAJobLosesNoTick(t *testing.T) {
	before, tick, now := when(t, "2026-03-02T10:30:00Z"), when(t, "2026-03-02T11:00:00Z"), when(t, "2026-03-02T11:00:01Z")
	saved := func(n NewSchedule, at time.Time) Schedule {
		job := Job{Name: "j"}
		require.NoError(t, job.reschedule(whole(NewSchedule{Cron: "0 * * * *"}), before))
		require.NoError(t, job.reschedule(whole(n), at))
		return *job.Schedule
	}
	same := saved(NewSchedule{Cron: " 0 * * * *", TimeZone: "UTC"}, now)
	require.Equal(t, tick, *same.NextAt, "a schedule that is saved as it was is left alone")
	require.True(t, same.Tick(now))

	other := saved(NewSchedule{Cron: "30 * * * *"}, now)
	require.Equal(t, tick, *other.WaitingSince)
	require.Equal(t, when(t, "2026-03-02T11:30:00Z"), *other.NextAt)
	require.Zero(t, other.Missed)

	paused := saved(NewSchedule{Cron: "0 * * * *", Paused: true}, now)
	require.Nil(t, paused.WaitingSince)
	require.Nil(t, paused.NextAt)
	require.Equal(t, 1, paused.Missed)
	require.Equal(t, tick, *paused.LastMissedAt)

	late := saved(NewSchedule{Cron: "30 * * * *"}, when(t, "2026-03-02T12:10:00Z"))
	require.Nil(t, late.WaitingSince)
	require.Equal(t, 2, late.Missed, "after a time away both are missed")
}
