package stack

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/ledger"
)

const (
	// lastHour is how far back runs are counted.
	lastHour = time.Hour
	// logPages is how many pages of a slice of a function's log are read at most. Each is up to 1 MB or 10,000 lines (Amazon CloudWatch Logs API reference, FilterLogEvents).
	logPages = 20
	// leastSlice is the shortest slice that is tried where a longer one has more pages.
	leastSlice = time.Minute
	// aRound is how long before the last run others count as of the same round: slices that start together, batches that are handled side by side.
	aRound = time.Minute
)

// backwards is how far back the last run is looked for, one after the other. A log is read forwards in time, so that of a long slice the end, which says
// what ran last, would be what is left out.
func backwards() []time.Duration {
	return []time.Duration{10 * time.Minute, lastHour, 4 * time.Hour, 24 * time.Hour}
}

// ends are the lines by which a run's end is found: those of the functions, and those of AWS Lambda where it ended a run.
const ends = `?"run ended" ?"run failed" ?"Task timed out" ?"Runtime exited"`

// Stages are the functions that move usage, with what their logs say. A function without a log has its next run alone. A list and an error may come together, as of Queues.
func (s *Stack) Stages(ctx context.Context) ([]desk.Stage, error) {
	all := slices.DeleteFunc(s.functions(), func(f function) bool { return len(f.says) == 0 })
	stopped, _ := s.Stopped(ctx) // Troubles asks too, and says what it may not see
	return sideBySide(ctx, len(all), func(ctx context.Context, i int) (desk.Stage, error) { return s.stageOf(ctx, all[i], stopped) })
}

func (s *Stack) stageOf(ctx context.Context, f function, stopped map[string]desk.Stop) (stage desk.Stage, err error) {
	now := s.now()
	stage.Name = f.name
	for _, schedule := range f.due {
		if off(stopped, schedule.Name) {
			stage.Off = true
			continue
		}
		if next := schedule.Next(now); stage.Next.IsZero() || next.Before(stage.Next) {
			stage.Next = next
		}
	}
	stage.Off = stage.Off && stage.Next.IsZero()
	runs, err := s.lastRuns(ctx, f, now)
	for _, r := range runs {
		if now.Sub(r.at) > lastHour {
			continue
		}
		stage.Runs++
		if r.failed {
			stage.Failures++
			stage.Error = r.err
		}
	}
	if len(runs) > 0 {
		stage.LastAt, stage.Last = runs[len(runs)-1].at, words(f, runs)
	}
	return stage, err
}

// lastRuns are the runs of the last hour in order, and where there are none those of the newest slice that has some. Where a log is longer than what
// is read, what ran last is known all the same, or nothing is; the error says from when on the runs are known.
func (s *Stack) lastRuns(ctx context.Context, f function, now time.Time) (runs []run, err error) {
	to := now.Add(time.Millisecond) // what ended in this one is among them
	for _, back := range backwards() {
		if back > lastHour && len(runs) > 0 {
			return runs, nil
		}
		from := now.Add(-back)
		for {
			found, whole, err := s.runs(ctx, f, from, to)
			if err != nil {
				return runs, err
			}
			if whole {
				runs = append(found, runs...)
				break
			}
			if from = from.Add(to.Sub(from) / 2); to.Sub(from) < leastSlice {
				from = to
				break
			}
		}
		if to = now.Add(-back); from.After(to) {
			return runs, fmt.Errorf("log %s: more stands in it than is read, so runs before %s are not known", s.logsOf(f), from.UTC().Format("15:04:05"))
		}
	}
	return runs, nil
}

// run is the end of a run as a log has it.
type run struct {
	at     time.Time
	failed bool
	err    string            // why, where it failed
	fields map[string]string // of the line
}

// runs are the runs of a function that ended from one instant on and before another one, in order. Of a log that is longer than what is read they are
// the first ones: whole is false.
func (s *Stack) runs(ctx context.Context, f function, from, to time.Time) (runs []run, whole bool, err error) {
	pages := cloudwatchlogs.NewFilterLogEventsPaginator(s.at(f.in).logs, &cloudwatchlogs.FilterLogEventsInput{
		LogGroupName: aws.String(s.logsOf(f)), FilterPattern: aws.String(ends), StartTime: aws.Int64(from.UnixMilli()), EndTime: aws.Int64(to.UnixMilli() - 1),
	})
	for n := 0; n < logPages && pages.HasMorePages(); n++ {
		page, err := pages.NextPage(ctx)
		if gone(err) {
			return nil, true, nil // Troubles says so
		} else if err != nil {
			return nil, false, awsapi.Wrap("read the log", s.logsOf(f), err)
		}
		for _, e := range page.Events {
			if r, is := readRun(aws.ToString(e.Message), time.UnixMilli(aws.ToInt64(e.Timestamp)).UTC()); is {
				runs = append(runs, r)
			}
		}
	}
	slices.SortStableFunc(runs, func(a, b run) int { return a.at.Compare(b.at) })
	return runs, !pages.HasMorePages(), nil
}

// readRun reads a line about the end of a run; a line that only repeats the words of one is none.
func readRun(line string, at time.Time) (run, bool) {
	line = strings.TrimSpace(line)
	r := run{at: at, fields: fields(line)}
	switch {
	case r.fields["msg"] == "run ended":
	case r.fields["msg"] == "run failed":
		r.failed, r.err = true, r.fields["error"]
	case r.fields["msg"] == "" && (strings.Contains(line, "Task timed out") || strings.Contains(line, "Runtime exited")):
		r.failed, r.err = true, line
	default:
		return run{}, false
	}
	return r, true
}

// fields are the attributes of a line as log/slog's TextHandler writes it; of a line that is none, those up to where that shows.
func fields(line string) map[string]string {
	found := make(map[string]string)
	for line != "" {
		key, rest, is := strings.Cut(line, "=")
		if !is || strings.ContainsAny(key, " \"") {
			break
		}
		value, after, _ := strings.Cut(rest, " ")
		if quoted, err := strconv.QuotedPrefix(rest); err == nil {
			value, _ = strconv.Unquote(quoted)
			after = strings.TrimPrefix(rest[len(quoted):], " ")
		}
		found[key], line = value, after
	}
	return found
}

// phrase is a number of a run's report in words: so many of the noun, and what became of them.
type phrase struct{ field, noun, what string }

// words is what the last round of runs did.
func words(f function, runs []run) string {
	last := runs[len(runs)-1]
	if last.failed {
		return "failed"
	}
	if last.fields["paused"] == "true" {
		return "paused: nothing sent"
	}
	round := 0
	sums := make(map[string]int64)
	for _, r := range slices.Backward(runs) {
		if last.at.Sub(r.at) > aRound {
			break
		}
		if r.failed {
			continue
		}
		round++
		for _, p := range f.says {
			n, _ := strconv.ParseInt(r.fields[p.field], 10, 64)
			sums[p.field] += n
		}
	}
	var parts []string
	for _, p := range f.says {
		if n := sums[p.field]; n != 0 {
			parts = append(parts, ledger.Counted(n, p.noun)+" "+p.what)
		}
	}
	did := strings.Join(parts, ", ")
	if did == "" {
		did = "nothing to do"
	}
	if about := input(last.fields["input"]); round == 1 && about != "" {
		return about + ": " + did
	} else if round > 1 {
		return ledger.Counted(int64(round), "run") + ": " + did
	}
	return did
}

// input is the slice of a discoverer's run in words; empty for others.
func input(text string) string {
	var slice struct {
		Mode       string `json:"mode"`
		HourOffset int    `json:"hourOffset"`
		Shard      int    `json:"shard"`
	}
	if json.Unmarshal([]byte(text), &slice) != nil {
		return ""
	}
	switch slice.Mode {
	case "meter":
		return "usage " + ledger.Counted(int64(slice.HourOffset), "hour") + " back"
	case "ageout":
		return "what has run out, shard " + strconv.Itoa(slice.Shard)
	case "flush-deprovisioning":
		return "last hours"
	}
	return ""
}
