package stack

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/desk"
)

func (s *Stack) functions() []function {
	return in(s, functions(), func(f function) where { return f.in })
}

// functionTroubles are functions that cannot run.
func (s *Stack) functionTroubles(ctx context.Context) ([]desk.Finding, error) {
	all := s.functions()
	return listed(sideBySide(ctx, len(all), func(ctx context.Context, i int) ([]desk.Finding, error) { return s.lookAtFunction(ctx, all[i]) }))
}

func (s *Stack) lookAtFunction(ctx context.Context, f function) ([]desk.Finding, error) {
	name, client := s.named(f.name, f.in), s.at(f.in).lambda
	trouble := func(what, fix string) []desk.Finding {
		return []desk.Finding{{Alarm: f.alarm, What: "function " + name + " " + what, Fix: fix}}
	}
	is, err := client.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &name})
	switch {
	case gone(err):
		return trouble("is missing", s.mend(f.in)), nil
	case err != nil:
		return nil, awsapi.Wrap("look at the function", name, err)
	case is.State == types.StateFailed:
		return trouble("cannot run: "+reason(is.StateReason), s.mend(f.in)), nil
	case is.LastUpdateStatus == types.LastUpdateStatusFailed:
		return trouble("could not be changed and runs as before: "+reason(is.LastUpdateStatusReason), s.mend(f.in)), nil
	}
	room, err := client.GetFunctionConcurrency(ctx, &lambda.GetFunctionConcurrencyInput{FunctionName: &name})
	if err != nil {
		return nil, awsapi.Wrap("look at the function's concurrency", name, err)
	}
	if room.ReservedConcurrentExecutions == nil || *room.ReservedConcurrentExecutions > 0 {
		return nil, nil
	}
	at := s.regionFlag(f.in) + " --function-name " + name
	fix := "aws lambda delete-function-concurrency" + at
	if n := s.reserved(f); n > 0 {
		fix = "aws lambda put-function-concurrency" + at + " --reserved-concurrent-executions " + strconv.Itoa(n)
	}
	return trouble("may not run: its reserved concurrency is 0", fix), nil
}

func reason(text *string) string {
	if text == nil || *text == "" {
		return "AWS Lambda does not say why"
	}
	return strings.TrimRight(*text, ".")
}

// reserved is the concurrency that the stack reserves for a function, 0 where it reserves none.
func (s *Stack) reserved(f function) int {
	n, _ := strconv.Atoi(s.parameter(f.reserves, "none"))
	return n
}

// mappingTroubles are queues that nobody takes from.
func (s *Stack) mappingTroubles(ctx context.Context) ([]desk.Finding, error) {
	all := slices.DeleteFunc(s.functions(), func(f function) bool { return len(f.from) == 0 })
	return listed(sideBySide(ctx, len(all), func(ctx context.Context, i int) ([]desk.Finding, error) { return s.lookAtMappings(ctx, all[i]) }))
}

func (s *Stack) lookAtMappings(ctx context.Context, f function) (findings []desk.Finding, err error) {
	name := s.named(f.name, f.in)
	out, err := s.at(f.in).lambda.ListEventSourceMappings(ctx, &lambda.ListEventSourceMappingsInput{FunctionName: &name}) // a page holds 100
	if gone(err) {
		return nil, nil // the function is, and that is said
	} else if err != nil {
		return nil, awsapi.Wrap("look at the mappings of the function", name, err)
	}
	for _, from := range f.from {
		queue := s.named(from.queue, f.in)
		trouble := func(what, fix string) {
			findings = append(findings, desk.Finding{Alarm: alarmOf(from.queue), What: what + ": what comes waits and is given up", Fix: fix})
		}
		i := slices.IndexFunc(out.EventSourceMappings, func(m types.EventSourceMappingConfiguration) bool {
			return strings.HasSuffix(aws.ToString(m.EventSourceArn), ":"+queue)
		})
		if i < 0 {
			trouble("nobody takes from the queue "+queue+", since its mapping to "+name+" is missing", s.makeMapping(f, from))
			continue
		}
		m := out.EventSourceMappings[i]
		switch aws.ToString(m.State) { // Enabling and Updating end by themselves
		case "Disabled", "Disabling", "Deleting":
			trouble("nobody takes from the queue "+queue+", since its mapping to "+name+" is "+strings.ToLower(aws.ToString(m.State)),
				"aws lambda update-event-source-mapping"+s.regionFlag(f.in)+" --uuid "+aws.ToString(m.UUID)+" --enabled")
		}
	}
	return findings, nil
}

// alarmOf is the alarm of a queue.
func alarmOf(name string) string {
	all := queues()
	return all[slices.IndexFunc(all, func(q queue) bool { return q.name == name })].alarm
}

// makeMapping makes a mapping as the template has it.
func (s *Stack) makeMapping(f function, from source) string {
	return fmt.Sprintf("aws lambda create-event-source-mapping%s --function-name %s --event-source-arn %s --batch-size %d --function-response-types ReportBatchItemFailures --scaling-config MaximumConcurrency=%d",
		s.regionFlag(f.in), s.named(f.name, f.in), s.arn("sqs", f.in, s.named(from.queue, f.in)), from.batch, s.concurrency(from))
}

// concurrency is how many functions a queue may start at once.
func (s *Stack) concurrency(from source) int {
	n, err := strconv.Atoi(from.concurrency)
	if err != nil {
		n, _ = strconv.Atoi(s.parameter(from.concurrency, "20"))
	}
	return n
}

// roomTroubles is an account that may run fewer functions at once than the stack may start beyond what it reserves.
func (s *Stack) roomTroubles(ctx context.Context) ([]desk.Finding, error) {
	out, err := s.here.lambda.GetAccountSettings(ctx, &lambda.GetAccountSettingsInput{})
	if err != nil {
		return nil, awsapi.Wrap("look at the account's concurrency", "", err)
	}
	if out.AccountLimit == nil {
		return nil, nil
	}
	wanted := 0
	for _, f := range s.functions() {
		if f.in == outside || s.reserved(f) > 0 {
			continue
		}
		starts := 1
		if f.name == "discoverer" {
			starts = 30 // slices at once
		}
		for i, from := range f.from {
			if i == 0 {
				starts = 0
			}
			starts += s.concurrency(from)
		}
		wanted += starts
	}
	room := int(aws.ToInt32(out.AccountLimit.UnreservedConcurrentExecutions))
	if room >= wanted {
		return nil, nil
	}
	alarm := "aggregator-throttles"
	if s.Direct {
		alarm = "submitter-throttles"
	}
	return []desk.Finding{{
		Alarm: alarm,
		What:  fmt.Sprintf("this account may run %d functions at once in %s beyond what is reserved, and the stack may start %d: some are throttled", room, s.Region, wanted),
		Fix:   "aws service-quotas request-service-quota-increase" + s.regionFlag(always) + " --service-code lambda --quota-code L-B99A9384 --desired-value 1000", // concurrent executions
	}}, nil
}

// logTroubles are functions whose lines, and the metrics in them, go nowhere.
func (s *Stack) logTroubles(ctx context.Context) ([]desk.Finding, error) {
	sides := s.sides()
	return listed(sideBySide(ctx, len(sides), func(ctx context.Context, i int) ([]desk.Finding, error) { return s.lookAtLogs(ctx, sides[i]) }))
}

// logsOf is the name of a function's log group.
func (s *Stack) logsOf(f function) string { return "/aws/lambda/" + s.named(f.name, f.in) }

func (s *Stack) lookAtLogs(ctx context.Context, side where) (findings []desk.Finding, err error) {
	prefix := "/aws/lambda/awsmp-"
	if side != outside {
		prefix += s.ProductCode + "-"
	}
	there := make(map[string]bool)
	pages := cloudwatchlogs.NewDescribeLogGroupsPaginator(s.at(side).logs, &cloudwatchlogs.DescribeLogGroupsInput{LogGroupNamePrefix: &prefix})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, awsapi.Wrap("look at the log groups", "", err)
		}
		for _, g := range page.LogGroups {
			there[aws.ToString(g.LogGroupName)] = true
		}
	}
	for _, f := range s.functions() {
		group := s.logsOf(f)
		if (f.in == outside) != (side == outside) || there[group] {
			continue
		}
		at := s.regionFlag(side) + " --log-group-name " + group
		findings = append(findings, desk.Finding{
			Alarm: "logs-missing", What: "log group " + group + " is missing: no lines and no metrics of " + f.name + " arrive",
			Fix: "aws logs create-log-group" + at + " && aws logs put-retention-policy" + at + " --retention-in-days " + s.parameter("LogRetentionInDays", "90"),
		})
	}
	return findings, nil
}
