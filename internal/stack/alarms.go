package stack

import (
	"context"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/desk"
)

// Ringing are the alarms of the stack and of its events stack that ring, the most urgent first. A list and an error may come together, as of Queues.
func (s *Stack) Ringing(ctx context.Context) ([]desk.Alarm, error) {
	found, err := s.alarms(ctx)
	var ringing []desk.Alarm
	for _, a := range found {
		if a.is != nil && a.is.StateValue == types.StateValueAlarm {
			ringing = append(ringing, desk.Alarm{Name: a.name, Since: since(a.is)})
		}
	}
	return ringing, err
}

// since is when an alarm began to ring.
func since(a *types.MetricAlarm) time.Time {
	if a.StateTransitionedTimestamp != nil {
		return a.StateTransitionedTimestamp.UTC()
	}
	return aws.ToTime(a.StateUpdatedTimestamp).UTC()
}

// foundAlarm is an alarm that the stack should have; nil where it is not there.
type foundAlarm struct {
	alarm
	is *types.MetricAlarm
}

// alarms are those that the stack and its events stack should have. Where those of one cannot be read, they are left out.
func (s *Stack) alarms(ctx context.Context) (all []foundAlarm, err error) {
	want := in(s, alarms(), func(a alarm) where { return a.in })
	sides := []where{always, outside}
	listed, err := sideBySide(ctx, len(sides), func(ctx context.Context, i int) (map[string]*types.MetricAlarm, error) {
		return s.listAlarms(ctx, want, sides[i])
	})
	for _, a := range want {
		side := listed[0]
		if a.in == outside {
			side = listed[1]
		}
		if side != nil {
			all = append(all, foundAlarm{a, side[s.named(a.name, a.in)]})
		}
	}
	return all, err
}

// listAlarms are the alarms of one side by their names; nil where they cannot be read.
func (s *Stack) listAlarms(ctx context.Context, want []alarm, side where) (map[string]*types.MetricAlarm, error) {
	var names []string
	for _, a := range want {
		if (a.in == outside) == (side == outside) {
			names = append(names, s.named(a.name, a.in))
		}
	}
	found := make(map[string]*types.MetricAlarm)
	if len(names) == 0 {
		return found, nil
	}
	pages := cloudwatch.NewDescribeAlarmsPaginator(s.at(side).cloudwatch, &cloudwatch.DescribeAlarmsInput{AlarmNames: names}) // at most 100 names
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, awsapi.Wrap("read the alarms", "", err)
		}
		for i := range page.MetricAlarms {
			found[aws.ToString(page.MetricAlarms[i].AlarmName)] = &page.MetricAlarms[i]
		}
	}
	return found, nil
}

// alarmTroubles are alarms that are not there, tell nobody or are kept from telling.
func (s *Stack) alarmTroubles(ctx context.Context) ([]desk.Finding, error) {
	all, err := s.alarms(ctx)
	var findings []desk.Finding
	for _, side := range s.sides() {
		var lost, silent, mute []string
		for _, a := range all {
			switch {
			case (a.in == outside) != (side == outside):
			case a.is == nil:
				lost = append(lost, a.name)
			case len(a.is.AlarmActions) == 0:
				silent = append(silent, a.name)
			case !aws.ToBool(a.is.ActionsEnabled):
				mute = append(mute, a.name)
			}
		}
		findings = append(findings, s.aboutAlarms(side, lost, silent, mute)...)
	}
	return findings, err
}

// aboutAlarms says what is wrong with alarms of one side, of many in one sentence under the name of the most urgent.
func (s *Stack) aboutAlarms(side where, lost, silent, mute []string) (findings []desk.Finding) {
	about := func(names []string, what, fix string) {
		findings = append(findings, desk.Finding{Alarm: names[0], Kind: desk.KindAlarms, What: several("alarm", names) + " " + what, Fix: fix})
	}
	if len(lost) > 0 {
		about(lost, "missing: nobody is told", s.mend(side))
	}
	if len(silent) > 0 {
		topic := "arn:" + s.partition() + ":sns:" + s.at(side).region + ":" + s.account() + ":awsmp-alerts"
		about(silent, "without an action: nobody is told. Make a topic, and subscribe to it whoever is to hear",
			"aws sns create-topic"+s.regionFlag(side)+" --name awsmp-alerts && "+s.setting(side, "AlertsTopicArn="+topic))
	}
	if len(mute) > 0 {
		names := make([]string, len(mute))
		for i, name := range mute {
			names[i] = s.named(name, side)
		}
		about(mute, "switched off: nobody is told", "aws cloudwatch enable-alarm-actions"+s.regionFlag(side)+" --alarm-names "+strings.Join(names, " "))
	}
	return findings
}
