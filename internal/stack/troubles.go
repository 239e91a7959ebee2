package stack

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	dynamosdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	eventtypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	schedulertypes "github.com/aws/aws-sdk-go-v2/service/scheduler/types"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/desk"
)

// Troubles are what stands still or is set so that it will, the most urgent first. A list and an error may come together, as of Queues.
//
// Where there is no events stack that is one finding. Where the subscribers table has a name that no events stack gives it, there is nothing to look at but the table.
func (s *Stack) Troubles(ctx context.Context) ([]desk.Finding, error) {
	whole, absent, err := s.withEvents(ctx)
	if err != nil {
		return nil, err
	}
	checks := []func(context.Context) ([]desk.Finding, error){
		whole.settingTroubles, whole.tableTroubles, whole.queueTroubles, whole.ruleTroubles, whole.scheduleTroubles, whole.mappingTroubles, whole.functionTroubles, whole.roomTroubles, whole.logTroubles,
		whole.alarmTroubles,
	}
	lists, err := sideBySide(ctx, len(checks), func(ctx context.Context, i int) ([]desk.Finding, error) { return checks[i](ctx) })
	findings := append(absent, slices.Concat(lists...)...)
	urgency := make(map[string]int)
	for i, a := range alarms() {
		urgency[a.name] = i
	}
	slices.SortStableFunc(findings, func(a, b desk.Finding) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(urgency[a.Alarm], urgency[b.Alarm])) // alarms that tell nobody stand last
	})
	return findings, err
}

// withEvents is the stack as it is to be looked at: without an events stack where there is none, which is a finding.
func (s *Stack) withEvents(ctx context.Context) (*Stack, []desk.Finding, error) {
	if _, known := s.stage(); !known {
		return s, nil, nil
	}
	for _, q := range queues() {
		if q.name != "events" {
			continue
		}
		if _, err := s.address(ctx, q); !gone(err) {
			return s, nil, ctx.Err() // another error is met again by who looks at all queues
		}
	}
	without := *s
	without.alone = true
	return &without, []desk.Finding{{
		Alarm: "events-waiting", What: fmt.Sprintf("there is no events stack in %s: nobody hears that a buyer leaves, and last hours are missed (deploy/README.md says how to deploy %s)", s.events.region, s.eventsStack()),
		Fix: "aws cloudformation deploy" + s.regionFlag(outside) + " --stack-name " + s.eventsStack() + " --template-file dist/events-stack.yaml --capabilities CAPABILITY_IAM" + s.stageParameters(),
	}}, nil
}

// stageParameters are those that make an events stack the test stage that the metering stack reads.
func (s *Stack) stageParameters() string {
	stage, _ := s.stage()
	if stage == "" {
		return ""
	}
	return " --parameter-overrides MeteringMode=dry-run StageName=" + strings.TrimPrefix(stage, "-test-")
}

// sides are the stacks to look at.
func (s *Stack) sides() []where {
	if s.holds(outside) {
		return []where{always, outside}
	}
	return []where{always}
}

// settingTroubles are settings that bill nothing.
func (s *Stack) settingTroubles(context.Context) (findings []desk.Finding, err error) {
	if s.Paused {
		findings = append(findings, desk.Finding{
			Alarm: "submission-paused", What: "Submission is paused: nothing is sent, and what waits is lost when its hour is 24 hours old", Fix: s.setting(always, "Submission=enabled"),
		})
	}
	if s.DryRun {
		changes := []string{"MeteringMode=live"}
		if stage, _ := s.stage(); stage != "" {
			changes = append(changes, "SubscribersTableName=awsmp-subscribers")
		}
		findings = append(findings, desk.Finding{
			Alarm: "dry-run-submitted", What: "MeteringMode is dry-run: nothing is billed, which is right for a test and for nothing else", Fix: s.setting(always, changes...),
		})
	}
	return findings, nil
}

// tableTroubles is a subscribers table that is not where the stack looks for it.
func (s *Stack) tableTroubles(ctx context.Context) ([]desk.Finding, error) {
	name := s.subscribersTable()
	_, err := s.events.dynamodb.DescribeTable(ctx, &dynamosdk.DescribeTableInput{TableName: &name})
	switch {
	case gone(err):
		fix := "aws dynamodb list-tables" + s.regionFlag(outside)
		if s.events.region != "us-east-1" {
			fix = s.setting(always, "SubscribersTableRegion=us-east-1")
		}
		return []desk.Finding{{Alarm: "deprovisioning-lookup-failed", What: fmt.Sprintf("subscribers table %s is not in %s: licenses in their last hour are not found", name, s.events.region), Fix: fix}}, nil
	case err != nil:
		return nil, awsapi.Wrap("look at the subscribers table", name, err)
	}
	return nil, nil
}

// queueTroubles are queues that are not there.
func (s *Stack) queueTroubles(ctx context.Context) ([]desk.Finding, error) {
	all := in(s, queues(), func(q queue) where { return q.in })
	return listed(sideBySide(ctx, len(all), func(ctx context.Context, i int) ([]desk.Finding, error) {
		_, err := s.address(ctx, all[i])
		if gone(err) {
			return []desk.Finding{{Alarm: all[i].alarm, What: "queue " + s.named(all[i].name, all[i].in) + " is missing", Fix: s.mend(all[i].in)}}, nil
		}
		return nil, err
	}))
}

func listed(lists [][]desk.Finding, err error) ([]desk.Finding, error) {
	return slices.Concat(lists...), err
}

// ruleTroubles are rules that are missing, off or without a target.
func (s *Stack) ruleTroubles(ctx context.Context) ([]desk.Finding, error) {
	all := in(s, rules(), func(r rule) where { return r.in })
	return listed(sideBySide(ctx, len(all), func(ctx context.Context, i int) ([]desk.Finding, error) { return s.lookAtRule(ctx, all[i]) }))
}

func (s *Stack) lookAtRule(ctx context.Context, r rule) ([]desk.Finding, error) {
	b, err := s.broken(ctx, r)
	if err != nil || len(b.lost) == 0 {
		return nil, err
	}
	return []desk.Finding{{Alarm: r.alarm, What: b.what + ": " + r.loses, Fix: b.fix}}, nil
}

// broken is what does not start because of a rule.
type broken struct {
	what, fix string
	lost      []target // that it does not call
}

func (s *Stack) broken(ctx context.Context, r rule) (broken, error) {
	name, client := s.named(r.name, r.in), s.at(r.in).events
	found, err := client.DescribeRule(ctx, &eventbridge.DescribeRuleInput{Name: &name})
	switch {
	case gone(err):
		return broken{"rule " + name + " is missing", s.makeRule(r), r.targets}, nil
	case err != nil:
		return broken{}, awsapi.Wrap("look at the rule", name, err)
	case found.State == eventtypes.RuleStateDisabled:
		return broken{"rule " + name + " is off", "aws events enable-rule" + s.regionFlag(r.in) + " --name " + name, r.targets}, nil
	}
	out, err := client.ListTargetsByRule(ctx, &eventbridge.ListTargetsByRuleInput{Rule: &name}) // a rule has at most five
	if err != nil {
		return broken{}, awsapi.Wrap("look at the rule's targets", name, err)
	}
	lost := slices.DeleteFunc(slices.Clone(r.targets), func(t target) bool {
		return slices.ContainsFunc(out.Targets, func(is eventtypes.Target) bool {
			return aws.ToString(is.Arn) == s.targetARN(r, t) && (t.input == "" || aws.ToString(is.Input) == t.input)
		})
	})
	if len(lost) == 0 {
		return broken{}, nil
	}
	return broken{fmt.Sprintf("rule %s lacks %d of its %d targets", name, len(lost), len(r.targets)), s.putTargets(r, lost), lost}, nil
}

// scheduleTroubles is the events stack's schedule, which is of EventBridge Scheduler.
func (s *Stack) scheduleTroubles(ctx context.Context) ([]desk.Finding, error) {
	if !s.holds(outside) {
		return nil, nil
	}
	const alarm, loses = "deprovision-cleanup-did-not-run", "licenses whose last hour is over are not told so"
	name := s.named("deprovision-cleanup", outside)
	found, err := s.events.scheduler.GetSchedule(ctx, &scheduler.GetScheduleInput{Name: &name})
	switch {
	case gone(err):
		return []desk.Finding{{Alarm: alarm, What: "schedule " + name + " is missing: " + loses, Fix: s.mend(outside)}}, nil
	case err != nil:
		return nil, awsapi.Wrap("look at the schedule", name, err)
	case found.State == schedulertypes.ScheduleStateDisabled:
		return []desk.Finding{{Alarm: alarm, What: "schedule " + name + " is off: " + loses, Fix: s.enableSchedule(name, found)}}, nil
	}
	return nil, nil
}

// enableSchedule is an update of all of a schedule, which knows no change of its state alone (Amazon EventBridge Scheduler API reference, UpdateSchedule).
func (s *Stack) enableSchedule(name string, is *scheduler.GetScheduleOutput) string {
	target := fmt.Sprintf(`{"Arn":%q,"RoleArn":%q,"Input":%q,"RetryPolicy":{"MaximumRetryAttempts":2,"MaximumEventAgeInSeconds":900}}`,
		aws.ToString(is.Target.Arn), aws.ToString(is.Target.RoleArn), aws.ToString(is.Target.Input))
	return "aws scheduler update-schedule" + s.regionFlag(outside) + " --name " + name + " --schedule-expression '" + aws.ToString(is.ScheduleExpression) +
		"' --schedule-expression-timezone UTC --flexible-time-window Mode=OFF --state ENABLED --target '" + target + "'"
}
