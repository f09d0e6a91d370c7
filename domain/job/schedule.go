package job

import (
	"context"
	"strings"
	"time"
	_ "time/tzdata" // time zones for machines without a database of them

	"github.com/robfig/cron/v3"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/quota"
)

// Schedule is the cron schedule of a job.
type Schedule struct {
	Cron         string
	TimeZone     string // IANA name
	Paused       bool
	NextAt       *time.Time // nil while paused
	WaitingSince *time.Time // the tick that waits because the quota is reached; at most one
	Missed       int        // number of skipped ticks: the platform was down, or an earlier tick still waited
	LastMissedAt *time.Time
}

// maxPreview bounds the number of ticks in a preview.
const maxPreview = 100

func (n NewSchedule) Schedule(now time.Time) (Schedule, error) {
	s := Schedule{Cron: strings.TrimSpace(n.Cron), TimeZone: n.TimeZone, Paused: n.Paused}
	if s.TimeZone == "" {
		s.TimeZone = "UTC"
	}
	if _, err := s.parse(); err != nil {
		return Schedule{}, err
	}
	s.arm(now)
	if !s.Paused && s.NextAt == nil {
		return Schedule{}, domain.Invalid("schedule.cron", "%q never occurs; check the day and the month.", s.Cron)
	}
	return s, nil
}

// parse parses the cron line in its time zone. At a change of the clocks robfig/cron follows Vixie
// cron: it skips a tick in the missing hour, and runs a tick in the repeated hour once.
func (s Schedule) parse() (cron.Schedule, error) {
	zone, err := time.LoadLocation(s.TimeZone)
	if err != nil || s.TimeZone == "Local" {
		return nil, domain.Invalid("schedule.time_zone", "%q is not a time zone; use an IANA name such as Europe/Rome.", s.TimeZone)
	}
	if strings.HasPrefix(s.Cron, "TZ=") || strings.HasPrefix(s.Cron, "CRON_TZ=") || strings.HasPrefix(s.Cron, "@every") {
		return nil, domain.Invalid("schedule.cron", "Use five fields or @hourly, @daily, @weekly, @monthly, @yearly; the time zone has its own field.")
	}
	parsed, err := cron.ParseStandard(s.Cron)
	if err != nil {
		return nil, domain.Invalid("schedule.cron", "%q is not a cron line: %s.", s.Cron, strings.TrimSuffix(err.Error(), "."))
	}
	if spec, ok := parsed.(*cron.SpecSchedule); ok {
		spec.Location = zone
	}
	return parsed, nil
}

// arm sets NextAt to the first tick after now.
func (s *Schedule) arm(now time.Time) {
	s.NextAt = nil
	if next := s.Next(now, 1); len(next) == 1 && !s.Paused {
		s.NextAt = &next[0]
	}
}

// Next returns the next count ticks after now in UTC, or fewer if the schedule ends.
func (s Schedule) Next(now time.Time, count int) []time.Time {
	parsed, err := s.parse()
	if err != nil {
		return nil
	}
	var ticks []time.Time
	for t := now; len(ticks) < count; {
		if t = parsed.Next(t); t.IsZero() {
			break
		}
		if !repeated(parsed, t) {
			ticks = append(ticks, t.UTC())
		}
	}
	return ticks
}

// starBit is the bit that robfig/cron sets in a field that contains a star.
const starBit = 1 << 63

// repeated reports whether the tick's time of day has already occurred before the clocks were set
// back. It is false for schedules of every hour, which tick in each hour.
func repeated(parsed cron.Schedule, t time.Time) bool {
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok || spec.Hour&starBit != 0 {
		return false
	}
	local := t.In(spec.Location)
	_, offset := local.Zone()
	_, before := local.Add(-setBack).Zone()
	if before <= offset {
		return false
	}
	earlier := local.Add(-time.Duration(before-offset) * time.Second)
	return earlier.Format(wallClock) == local.Format(wallClock)
}

// setBack is longer than any clock change.
const setBack = 3 * time.Hour

const wallClock = "2006-01-02T15:04:05"

// grace is how late a tick may be and still start a run: a restart of the server takes seconds.
const grace = time.Minute

// maxMissed bounds the missed ticks that are counted one by one.
const maxMissed = 10_000

// Tick processes the ticks up to now. At most one is due, to start a run or to keep waiting; the
// others are missed.
func (s *Schedule) Tick(now time.Time) (due bool) {
	if s.Paused {
		s.WaitingSince = nil
		return false
	}
	for n := 0; s.NextAt != nil && !s.NextAt.After(now) && n < maxMissed; n++ {
		tick := *s.NextAt
		switch {
		case s.WaitingSince != nil, now.Sub(tick) > grace:
			s.Missed++
			s.LastMissedAt = &tick
		default:
			s.WaitingSince = &tick
		}
		s.arm(tick)
	}
	if s.NextAt != nil && !s.NextAt.After(now) {
		s.arm(now)
	}
	return s.WaitingSince != nil
}

// miss counts the waiting tick as missed.
func (s *Schedule) miss() {
	s.Missed++
	s.LastMissedAt, s.WaitingSince = s.WaitingSince, nil
}

// of applies the change to the present schedule, which may be nil.
func (c ScheduleChange) of(present *Schedule) (n NewSchedule, err error) {
	if present != nil {
		n = NewSchedule{Cron: present.Cron, TimeZone: present.TimeZone, Paused: present.Paused}
	} else if c.Cron == nil {
		return n, domain.Invalid("schedule.cron", "The job has no schedule yet; give schedule.cron.")
	}
	domain.SetIfGiven(&n.Cron, c.Cron)
	domain.SetIfGiven(&n.TimeZone, c.TimeZone)
	domain.SetIfGiven(&n.Paused, c.Paused)
	return n, nil
}

// reschedule changes the schedule, or removes it if c is nil. It keeps the record of missed ticks.
// A due tick of the old schedule waits under the new one, or counts as missed if that is paused.
func (j *Job) reschedule(c *ScheduleChange, now time.Time) error {
	if c == nil {
		j.Schedule = nil
		return nil
	}
	n, err := c.of(j.Schedule)
	if err != nil {
		return err
	}
	next, err := n.Schedule(now)
	if err != nil {
		return err
	}
	if old := j.Schedule; old != nil {
		if old.Cron == next.Cron && old.TimeZone == next.TimeZone && old.Paused == next.Paused {
			return nil
		}
		if old.Tick(now) && next.Paused {
			old.miss()
		}
		next.WaitingSince, next.Missed, next.LastMissedAt = old.WaitingSince, old.Missed, old.LastMissedAt
	}
	j.Schedule = &next
	return nil
}

// PreviewSchedule returns the next ticks of an unsaved schedule.
func PreviewSchedule(n NewSchedule, now time.Time, count int) ([]time.Time, error) {
	if count < 1 || count > maxPreview {
		return nil, domain.Invalid("count", "count is %d; it must be from 1 to %d.", count, maxPreview)
	}
	n.Paused = false
	s, err := n.Schedule(now)
	if err != nil {
		return nil, err
	}
	return s.Next(now, count), nil
}

// Scheduler starts scheduled runs. It runs on every replica; the first to lock a job starts its
// run.
type Scheduler struct {
	Store  domain.Store[Tx]
	System System
	Runs   *Runs
	Clock  domain.Clock
}

// Due returns the ticks of the schedules, and the first beyond the limit.
func (c *Scheduler) Due(ctx context.Context, now time.Time, limit int) ([]domain.Due, error) {
	found, err := c.System.Schedules(ctx, now, limit+1)
	all := make([]domain.Due, len(found))
	for i, d := range found {
		all[i] = domain.Due{At: d.At, Do: func(ctx context.Context) error { return c.tick(ctx, d.Ref) }}
	}
	return all, err
}

// tick processes the job's ticks and starts its run in one transaction, so that a tick starts
// exactly one run, even after a crash. If the quota is reached, the tick waits.
func (c *Scheduler) tick(ctx context.Context, ref Ref) error {
	s := domain.SystemScope(ref.Workspace, "schedule")
	now := c.Clock.Now()
	var started *Run
	err := c.Store.In(ctx, s, func(tx Tx) error {
		started = nil // left by an earlier try of the transaction
		var waiting *time.Time
		job, err := tx.UpdateJob(ctx, ref.Job, func(j *Job) error {
			switch {
			case j.Schedule == nil || !j.Schedule.Tick(now):
			case j.empty():
				j.Schedule.miss()
			default:
				waiting = j.Schedule.WaitingSince
			}
			return nil
		})
		if err != nil || waiting == nil {
			return err
		}
		quota, err := tx.LockQuota(ctx, quota.MaxRunningRuns)
		if err != nil || quota.Require() != nil {
			return err
		}
		if started, err = c.Runs.insert(ctx, tx, s, job, nil, TriggerSchedule); err != nil {
			return err
		}
		_, err = tx.UpdateJob(ctx, ref.Job, func(j *Job) error {
			j.Schedule.WaitingSince = nil
			return nil
		})
		return err
	})
	if err == nil && started != nil {
		c.Runs.deliver(s, started)
	}
	return err
}
