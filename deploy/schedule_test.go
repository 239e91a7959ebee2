package deploy_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/functions"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/internal/template"
)

// timetableDay is the one that timetables are written out for.
func timetableDay() time.Time { return time.Date(2026, 3, 31, 0, 0, 0, 0, time.UTC) }

// cronMinutes are the times of one day at which cron(minutes hours * * ? *) is due (Amazon EventBridge user guide, "Cron expressions"). What
// leaves days out is an error: usage is metered on all of them.
func cronMinutes(expression string) ([]time.Time, error) {
	fields := strings.Fields(strings.TrimSuffix(strings.TrimPrefix(expression, "cron("), ")"))
	if !strings.HasPrefix(expression, "cron(") || len(fields) != 6 {
		return nil, fmt.Errorf("%q is no cron expression of six fields: rate() has no phase", expression)
	}
	if days := strings.Join(fields[2:], " "); days != "* * ? *" && days != "? * * *" {
		return nil, fmt.Errorf("%q is not every day", expression)
	}
	minutes, err := cronField(fields[0], 60)
	if err != nil {
		return nil, err
	}
	hours, err := cronField(fields[1], 24)
	if err != nil {
		return nil, err
	}
	var due []time.Time
	for _, h := range hours {
		for _, m := range minutes {
			due = append(due, timetableDay().Add(time.Duration(h)*time.Hour+time.Duration(m)*time.Minute))
		}
	}
	return due, nil
}

// cronField are the values below the limit that *, n, n/step and lists of them stand for.
func cronField(field string, limit int) ([]int, error) {
	values := map[int]bool{}
	for part := range strings.SplitSeq(field, ",") {
		from, step, steps := strings.Cut(part, "/")
		if from == "*" {
			from = "0"
			if !steps {
				step, steps = "1", true
			}
		}
		first, err := strconv.Atoi(from)
		if err != nil || first < 0 || first >= limit {
			return nil, fmt.Errorf("%q is no field of a cron expression that is read here", field)
		}
		values[first] = true
		if !steps {
			continue
		}
		by, err := strconv.Atoi(step)
		if err != nil || by < 1 {
			return nil, fmt.Errorf("%q is no field of a cron expression that is read here", field)
		}
		for v := first; v < limit; v += by {
			values[v] = true
		}
	}
	return slices.Sorted(maps.Keys(values)), nil
}

// dueRun is a function's being due by a rule or a schedule.
type dueRun struct {
	source, arn string // logical ID of what calls, ARN of what is called
	stage       string // name of the metering.Schedule
	due         []time.Time
}

// runsOf are all runs of a stack.
func runsOf(s *template.Stack) (runs []dueRun, wrong []string) {
	add := func(of template.Resource, arn string, input any) {
		stage, err := stageOf(s, arn, input)
		due, bad := cronMinutes(of.Text("ScheduleExpression"))
		if err != nil || bad != nil || of.Text("State") != "ENABLED" {
			wrong = append(wrong, fmt.Sprintf("%s is %q and due by %q: %v, %v", of.ID, of.Text("State"), of.Text("ScheduleExpression"), err, bad))
		}
		runs = append(runs, dueRun{of.ID, arn, stage, due})
	}
	for _, rule := range s.OfType(ruleType) {
		for _, target := range objects(rule.Get("Targets")) {
			if arn, _ := target["Arn"].(string); strings.HasPrefix(arn, lambdaPrefix) {
				add(rule, arn, target["Input"])
			}
		}
	}
	for _, schedule := range s.OfType(scheduleType) {
		add(schedule, schedule.Text("Target", "Arn"), schedule.Get("Target", "Input"))
		zone, window := schedule.Text("ScheduleExpressionTimezone"), schedule.Text("FlexibleTimeWindow", "Mode")
		if zone != "UTC" || window != "OFF" {
			wrong = append(wrong, fmt.Sprintf("%s is due in the zone %q with the window %q, want UTC and OFF", schedule.ID, zone, window))
		}
	}
	return runs, wrong
}

// stageOf is the timetable that a target is on, by the code's names.
func stageOf(s *template.Stack, arn string, input any) (string, error) {
	f := lambdasByARN(s)[arn]
	switch f.Text("Handler") {
	case functions.Submitter:
		return metering.SubmitSchedule.Name, nil
	case functions.SubmissionExpiry:
		return metering.ExpireSchedule.Name, nil
	case functions.DeprovisionCleanup:
		return metering.FinalizeSchedule.Name, nil
	case functions.Discoverer:
		slice, err := sliceOf(input)
		return map[string]string{
			pipeline.ModeMeter: metering.MeterSchedule.Name, pipeline.ModeAgeout: metering.AgeoutSchedule.Name, pipeline.ModeFlush: metering.FlushSchedule.Name,
		}[slice.Mode], err
	}
	return "", fmt.Errorf("%q is on no timetable", arn)
}

// codeTimetable is what the code has, and the one-machine pipeline with it, by the names of the stages.
func codeTimetable() map[string][]time.Time {
	due := map[string][]time.Time{}
	for _, schedule := range []metering.Schedule{
		metering.MeterSchedule, metering.AgeoutSchedule, metering.FlushSchedule, metering.SubmitSchedule, metering.ExpireSchedule, metering.FinalizeSchedule,
	} {
		for t := schedule.Next(timetableDay().Add(-1)); t.Before(timetableDay().AddDate(0, 0, 1)); t = schedule.Next(t) {
			due[schedule.Name] = append(due[schedule.Name], t)
		}
	}
	return due
}

// checkSchedules: each target is due when its stage is in the code's timetable, every day at every hour.
func checkSchedules(s *template.Stack) []string {
	runs, wrong := runsOf(s)
	for _, r := range runs {
		if diff := cmp.Diff(codeTimetable()[r.stage], r.due); diff != "" {
			wrong = append(wrong, fmt.Sprintf("%s is not due as stage %q is: %s", r.source, r.stage, diff))
		}
	}
	return wrong
}

func TestSchedulesAreTheTimetable(t *testing.T) {
	t.Parallel()
	upholds(t, checkSchedules,
		fault{"full live", "MeterRule4", "cron(5/15 ", "cron(0/15 ", `as stage "meter"`},
		fault{"full live", "MeterRule6", "cron(5/15 * ", "cron(5/15 0-12 ", "is read here"},
		fault{"full live", "MeterRule6", "cron(5/15 * ", "cron(5/15 1/2 ", `as stage "ageout"`},
		fault{"full live", "FlushRule", "cron(1/5 ", "cron(2/5 ", `as stage "flush-deprovisioning"`},
		fault{"direct-submit live", "SubmitRule", "cron(3/5 * * * ? *)", "rate(5 minutes)", "rate() has no phase"},
		fault{"direct-submit live", "SubmitRule", "cron(3/5 * * *", "cron(3/5 * 2/1 *", "is not every day"},
		fault{"direct-submit live", "SubmitRule", "cron(3/5 ", "cron(3,8,13,18,23,28,33,38,43,48,53 ", `as stage "expire"`},
		fault{"full live", "SubmitRule", "State: ENABLED", "State: DISABLED", `"DISABLED"`},
		fault{"events live", "DeprovisionCleanupSchedule", "cron(7/15 ", "cron(8/15 ", `as stage "finalize"`},
		fault{"events live", "DeprovisionCleanupSchedule", "Timezone: UTC", "Timezone: Europe/Berlin", "in the zone"},
		fault{"events live", "DeprovisionCleanupSchedule", "Mode: 'OFF'", "Mode: FLEXIBLE, MaximumWindowInMinutes: 5", "with the window"},
	)
}

// TestTheTimetable: the minutes of the code are these, which people read in the comments, in docs/functions.md and in the runbook.
func TestTheTimetable(t *testing.T) {
	t.Parallel()
	minutes := map[string]string{}
	for stage, due := range codeTimetable() {
		for _, at := range due[:len(due)/24] {
			minutes[stage] += at.Format(":04 ")
		}
	}
	const every5 = ":%02d :%02d :%02d :%02d :%02d :%02d :%02d :%02d :%02d :%02d :%02d :%02d "
	want := map[string]string{
		"meter": ":05 :20 :35 :50 ", "ageout": ":05 :20 :35 :50 ", "finalize": ":07 :22 :37 :52 ",
		"flush-deprovisioning": fmt.Sprintf(every5, 1, 6, 11, 16, 21, 26, 31, 36, 41, 46, 51, 56),
		"submit":               fmt.Sprintf(every5, 3, 8, 13, 18, 23, 28, 33, 38, 43, 48, 53, 58),
		"expire":               fmt.Sprintf(every5, 3, 8, 13, 18, 23, 28, 33, 38, 43, 48, 53, 58),
	}
	if diff := cmp.Diff(want, minutes); diff != "" {
		t.Error(diff)
	}
}

// TestOneMachineAndAWSKeepTheSameTime: all that is due in the two stacks together is when a node runs its stages, to the minute.
func TestOneMachineAndAWSKeepTheSameTime(t *testing.T) {
	t.Parallel()
	n, err := node.New(node.Config{Rules: metering.Rules{LockHours: 1}, Clock: node.NewVirtualClock(timetableDay())})
	if err != nil {
		t.Fatal(err)
	}
	var onOneMachine []time.Time
	for at := n.Next(timetableDay().Add(-1)); at.Before(timetableDay().AddDate(0, 0, 1)); at = n.Next(at) {
		onOneMachine = append(onOneMachine, at)
	}
	onAWS := map[int64]time.Time{}
	for _, name := range []string{"full live", "events live"} {
		runs, wrong := runsOf(deploymentNamed(t, name).whole(t))
		for _, r := range runs {
			for _, at := range r.due {
				onAWS[at.Unix()] = at
			}
		}
		if len(runs) == 0 || len(wrong) > 0 {
			t.Errorf("%s: %d runs, %q", name, len(runs), wrong)
		}
	}
	if diff := cmp.Diff(onOneMachine, slices.SortedFunc(maps.Values(onAWS), time.Time.Compare)); diff != "" {
		t.Error(diff)
	}
}

// comesLate is by how much an asynchronous start may lag behind its schedule (Amazon EventBridge user guide, schedules: a rule runs within the minute).
const comesLate = time.Minute

// arithmetic is what an alarm on a function's Invocations can tell: how many are due in a period at least, and how many are left without each of the
// rules.
type arithmetic struct {
	alarm     template.Resource
	threshold int
	due       int
	without   map[string]int
}

func arithmeticOf(s *template.Stack, alarm template.Resource) (a arithmetic, wrong []string) {
	period, _ := alarm.Int("Period")
	a = arithmetic{alarm: alarm, without: map[string]int{}}
	a.threshold, _ = alarm.Int("Threshold")
	runs, wrong := runsOf(s)
	perPeriod, bySource := map[time.Time]int{}, map[string]map[time.Time]int{}
	for _, r := range runs {
		if r.arn != lambdaPrefix+alarm.Text("Dimensions", "0", "Value") {
			continue
		}
		if bySource[r.source] == nil {
			bySource[r.source] = map[time.Time]int{}
		}
		for _, at := range r.due {
			in := at.Truncate(time.Duration(period) * time.Second)
			perPeriod[in]++
			bySource[r.source][in]++
			if late := at.Add(comesLate); !late.Truncate(time.Duration(period) * time.Second).Equal(in) {
				wrong = append(wrong, fmt.Sprintf("%s: %s is counted in the next period when it comes %v late", alarm.ID, r.source, comesLate))
			}
		}
	}
	starts := int(24 * time.Hour / (time.Duration(max(period, 1)) * time.Second))
	if len(perPeriod) != starts {
		return a, append(wrong, fmt.Sprintf("%s: something is due in %d of %d periods of a day", alarm.ID, len(perPeriod), starts))
	}
	a.due = slices.Min(slices.Collect(maps.Values(perPeriod)))
	for source, in := range bySource {
		for period, all := range perPeriod {
			a.without[source] = max(a.without[source], all-in[period])
		}
	}
	return a, wrong
}

// checkHeartbeats: each function on a timetable has an alarm that tells from the number of its invocations that one of its rules is gone, and that is
// quiet while all are there.
func checkHeartbeats(s *template.Stack) (wrong []string) {
	watched := map[string]bool{}
	for _, alarm := range s.OfType(alarmType) {
		if alarm.Text("MetricName") != "Invocations" {
			continue
		}
		watched[alarm.Text("Dimensions", "0", "Value")] = true
		a, bad := arithmeticOf(s, alarm)
		wrong = append(wrong, bad...)
		if how := alarm.Text("ComparisonOperator"); how != "LessThanThreshold" || alarm.Text("TreatMissingData") != "breaching" {
			wrong = append(wrong, fmt.Sprintf("%s rings by %s and takes missing data as %s", alarm.ID, how, alarm.Text("TreatMissingData")))
		}
		if a.due < a.threshold {
			wrong = append(wrong, fmt.Sprintf("%s rings while all is well: %d are due, the threshold is %d", alarm.ID, a.due, a.threshold))
		}
		for source, left := range a.without {
			if left >= a.threshold {
				wrong = append(wrong, fmt.Sprintf("%s does not ring without %s: %d are left, the threshold is %d", alarm.ID, source, left, a.threshold))
			}
		}
	}
	for _, r := range s.OfType(lambdaType) {
		if f, err := functions.Named(r.Text("Handler")); err == nil && f.Event == functions.Schedule && !watched[r.Text("FunctionName")] {
			wrong = append(wrong, "nothing tells that "+r.ID+" does not run")
		}
	}
	return wrong
}

func TestDidNotRunAlarmsTellEveryRule(t *testing.T) {
	t.Parallel()
	upholds(t, checkHeartbeats,
		fault{"full live", "DiscovererDidNotRunAlarm", "Threshold: 31", "Threshold: 30", "does not ring without FlushRule: 30 are left"},
		fault{"full live", "DiscovererDidNotRunAlarm", "Threshold: 31", "Threshold: 1", "does not ring without MeterRule1: 28 are left"},
		fault{"full live", "DiscovererDidNotRunAlarm", "Threshold: 31", "Threshold: 34", "rings while all is well: 33 are due"},
		fault{"full live", "DiscovererDidNotRunAlarm", "Period: 900", "Period: 300", "rings while all is well"},
		fault{"full live", "DiscovererDidNotRunAlarm", "Period: 900", "Period: 60", "periods of a day"},
		fault{"full live", "DiscovererDidNotRunAlarm", "breaching", "notBreaching", "missing data as notBreaching"},
		fault{"direct-submit live", "SubmitRule", "cron(3/5 ", "cron(4/5 ", "counted in the next period"},
		fault{"direct-submit live", "SubmitterDidNotRunAlarm", "LessThanThreshold", "GreaterThanThreshold", "rings by"},
		fault{in: "events live", at: "DeprovisionCleanupDidNotRunAlarm", says: "nothing tells"},
		fault{"full live", "SubmitterDidNotRunAlarm", "!Ref SubmitterFunction", "!Ref SubmissionExpiryFunction", "nothing tells that SubmitterFunction"},
	)
	s := deploymentNamed(t, "full live").whole(t)
	a, wrong := arithmeticOf(s, s.Resources["DiscovererDidNotRunAlarm"])
	without := map[string]int{"FlushRule": 30}
	for i := range 6 {
		without[fmt.Sprintf("MeterRule%d", i+1)] = 28
	}
	if diff := cmp.Diff(without, a.without); diff != "" || a.due != 30+3 || a.threshold != 31 || len(wrong) > 0 {
		t.Errorf("%d are due, the threshold is %d, without a rule %s; %q", a.due, a.threshold, diff, wrong)
	}
}

// checkRetries: a run that failed, or had to wait, is not tried again when the next one is due: it would only take its place.
func checkRetries(s *template.Stack) (wrong []string) {
	runs, _ := runsOf(s)
	configured := map[string]template.Resource{}
	for _, r := range s.OfType("AWS::Lambda::EventInvokeConfig") {
		configured[lambdaPrefix+r.Text("FunctionName")] = r
	}
	atOnce := map[string]map[time.Time]int{}
	for _, r := range runs {
		config := configured[r.arn]
		age, ok := config.Int("MaximumEventAgeInSeconds")
		next := 24 * time.Hour
		for i := 1; i < len(r.due); i++ {
			next = min(next, r.due[i].Sub(r.due[i-1]))
		}
		if _, limited := config.Int("MaximumRetryAttempts"); !ok || !limited || config.Text("Qualifier") != "$LATEST" || time.Duration(age)*time.Second > next {
			wrong = append(wrong, fmt.Sprintf("what %s starts may wait for %d s, and the next run is due after %v", r.source, age, next))
		}
		if atOnce[r.arn] == nil {
			atOnce[r.arn] = map[time.Time]int{}
		}
		for _, at := range r.due {
			atOnce[r.arn][at]++
		}
	}
	for arn, due := range atOnce {
		f := lambdasByARN(s)[arn]
		reserved, any := f.Int("ReservedConcurrentExecutions")
		if most := slices.Max(append(slices.Collect(maps.Values(due)), 0)); any && reserved < most {
			wrong = append(wrong, fmt.Sprintf("%s has %d reserved, and %d runs start at once", f.ID, reserved, most))
		}
		// One at a time keeps the pace of calls; a retry would come beside the next run.
		retries, _ := configured[arn].Int("MaximumRetryAttempts")
		if handler := f.Text("Handler"); (handler == functions.Submitter || handler == functions.SubmissionExpiry) && (retries != 0 || reserved != 1) {
			wrong = append(wrong, fmt.Sprintf("%s is tried %d times more, and %d may run at once", f.ID, retries, reserved))
		}
	}
	return wrong
}

func TestRetriesEndBeforeTheNextRun(t *testing.T) {
	t.Parallel()
	upholds(t, checkRetries,
		fault{"full live", "DiscovererInvocations", "Seconds: 300", "Seconds: 900", "FlushRule starts may wait for 900 s"},
		fault{in: "events live", at: "DeprovisionCleanupInvocations", says: "DeprovisionCleanupSchedule starts may wait"},
		fault{"direct-submit live", "SubmitterInvocations", "Attempts: 0", "Attempts: 2", "SubmitterFunction is tried 2 times more"},
		fault{"direct-submit live", "SubmitterInvocations", "$LATEST", "live", "SubmitRule starts may wait"},
		fault{"full live", "DiscovererReservedConcurrency", "Default: '30'", "Default: '29'", "29 reserved, and 30 runs start at once"},
	)
}
