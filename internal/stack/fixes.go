package stack

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/awsmp/metering/internal/ledger"
)

// The commands that put things right. Each names its Region and can be pasted into a shell as it is; they need the AWS CLI.

func (s *Stack) regionFlag(side where) string { return " --region " + s.at(side).region }

// stackOf is the name of the stack of a side.
func (s *Stack) stackOf(side where) string {
	if side == outside {
		return s.eventsStack()
	}
	return s.Name
}

// setting changes parameters of a stack, each given as Name=value, and leaves the others as they are: one that is not named would fall back to its default.
func (s *Stack) setting(side where, changes ...string) string {
	var given, others []string
	for _, change := range changes {
		name, value, _ := strings.Cut(change, "=")
		given, others = append(given, "ParameterKey="+name+",ParameterValue="+value), append(others, "ParameterKey!='"+name+"'")
	}
	at := s.regionFlag(side) + " --stack-name " + s.stackOf(side)
	return "aws cloudformation update-stack" + at + " --use-previous-template --capabilities CAPABILITY_IAM --parameters " + strings.Join(given, " ") +
		" " + s.kept(side, "[?"+strings.Join(others, " && ")+"]")
}

// kept are the parameters of a stack that a change leaves as they are.
func (s *Stack) kept(side where, which string) string {
	return "$(aws cloudformation describe-stacks" + s.regionFlag(side) + " --stack-name " + s.stackOf(side) + ` --query "Stacks[0].Parameters` + which +
		`.ParameterKey" --output text | tr '\t' '\n' | sed 's/.*/ParameterKey=&,UsePreviousValue=true/')`
}

// mend makes a stack again what its template says, where something of it was removed or changed by hand: a change set that looks at what is there (AWS
// CloudFormation user guide, drift-aware change sets). An ordinary update sees no change there, since the template has none. Its name is new each time: one that failed stays.
func (s *Stack) mend(side where) string {
	at := s.regionFlag(side) + " --stack-name " + s.stackOf(side) + " --change-set-name $CHANGES"
	return "CHANGES=mend-$(date +%s); aws cloudformation create-change-set" + at + " --deployment-mode REVERT_DRIFT --use-previous-template --capabilities CAPABILITY_IAM --parameters " + s.kept(side, "[]") +
		" && aws cloudformation wait change-set-create-complete" + at + " && aws cloudformation execute-change-set" + at
}

// makeRule makes a rule with its targets, as the template has it; a rule that is there gets back what it lacks.
func (s *Stack) makeRule(r rule) string {
	what := "--schedule-expression '" + r.cron + "'"
	if r.cron == "" {
		what = `--event-pattern '{"source":["aws.agreement-marketplace"]}'`
	}
	name := s.named(r.name, r.in)
	return "aws events put-rule" + s.regionFlag(r.in) + " --name " + name + " " + what + " --state ENABLED && " + s.putTargets(r, r.targets)
}

func (s *Stack) putTargets(r rule, targets []target) string {
	type letters struct{ Arn string }
	type entry struct {
		ID               string `json:"Id"`
		Arn              string
		Input            string   `json:",omitempty"`
		DeadLetterConfig *letters `json:",omitempty"`
	}
	var list []entry
	for _, t := range targets {
		e := entry{ID: t.id, Arn: s.targetARN(r, t), Input: t.input}
		if t.function == "" {
			e.DeadLetterConfig = &letters{s.arn("sqs", r.in, s.named("events-undelivered", outside))}
		}
		list = append(list, e)
	}
	text, _ := json.Marshal(list)
	return "aws events put-targets" + s.regionFlag(r.in) + " --rule " + s.named(r.name, r.in) + " --targets '" + string(text) + "'"
}

// targetARN is what a target calls.
func (s *Stack) targetARN(r rule, t target) string {
	if t.function == "" {
		return s.arn("sqs", r.in, s.named("events", outside))
	}
	return s.arn("lambda", r.in, "function:"+s.named(t.function, r.in))
}

// arn is the ARN of something of a side.
func (s *Stack) arn(service string, side where, resource string) string {
	return strings.Join([]string{"arn", s.partition(), service, s.at(side).region, s.account(), resource}, ":")
}

// several is a thing, or several, with the verb: "alarm usage-late is", "33 alarms (work-age, usage-late, cleanup-age and 30 more) are".
func several(noun string, names []string) string {
	const shown = 3
	switch n := len(names); {
	case n == 1:
		return noun + " " + names[0] + " is"
	case n <= shown:
		return fmt.Sprintf("%ss %s and %s are", noun, strings.Join(names[:n-1], ", "), names[n-1])
	default:
		return fmt.Sprintf("%s (%s and %d more) are", ledger.Counted(int64(n), noun), strings.Join(names[:shown], ", "), n-shown)
	}
}
