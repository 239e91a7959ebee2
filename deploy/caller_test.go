package deploy_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/functions"
	"github.com/awsmp/metering/internal/template"
)

// stackCalls are who calls the functions of a stack, by the function's name: in which ways, and by what permission.
type stackCalls struct {
	ways        map[string]map[functions.Event]bool
	permissions map[string]bool // function, principal and source, where AWS asks the function's own policy
	wrong       []string
}

func (c *stackCalls) note(s *template.Stack, arn string, way functions.Event, caller string) {
	f, known := lambdasByARN(s)[arn]
	if !known {
		c.wrong = append(c.wrong, fmt.Sprintf("%s calls %q, which is no function of the stack", caller, arn))
		return
	}
	name := f.Text("FunctionName")
	if c.ways[name] == nil {
		c.ways[name] = map[functions.Event]bool{}
	}
	c.ways[name][way] = true
}

func permissionKey(arn, principal, source string) string {
	return fmt.Sprintf("%s for %s from %s", strings.TrimPrefix(arn, lambdaPrefix), principal, source)
}

// callsOf reads rules, schedules, mappings and API methods.
func callsOf(s *template.Stack) *stackCalls {
	c := &stackCalls{ways: map[string]map[functions.Event]bool{}, permissions: map[string]bool{}}
	for _, rule := range s.OfType(ruleType) {
		for _, target := range objects(rule.Get("Targets")) {
			if arn, _ := target["Arn"].(string); !strings.HasPrefix(arn, queuePrefix) {
				c.note(s, arn, functions.Schedule, rule.ID)
				c.permissions[permissionKey(arn, "events.amazonaws.com", rulePrefix+rule.Text("Name"))] = true
				if rule.Text("ScheduleExpression") == "" || rule.Get("EventPattern") != nil {
					c.wrong = append(c.wrong, fmt.Sprintf("%s calls a function and is no schedule", rule.ID))
				}
			}
		}
	}
	for _, schedule := range s.OfType(scheduleType) { // by a role of its own, so that the function's policy need not know of it
		c.note(s, schedule.Text("Target", "Arn"), functions.Schedule, schedule.ID)
		if !slices.ContainsFunc(schedule.Uses, func(id string) bool { return s.Resources[id].Type == "AWS::IAM::Role" }) {
			c.wrong = append(c.wrong, schedule.ID+" has no role of the stack")
		}
	}
	for _, mapping := range s.OfType(mappingType) { // under the function's own role
		c.note(s, lambdaPrefix+mapping.Text("FunctionName"), functions.Queue, mapping.ID)
		if _, known := queuesByARN(s)[mapping.Text("EventSourceArn")]; !known {
			c.wrong = append(c.wrong, fmt.Sprintf("%s reads %q, which is no queue of the stack", mapping.ID, mapping.Text("EventSourceArn")))
		}
	}
	for _, method := range s.OfType("AWS::ApiGateway::Method") {
		const head, tail = "arn:aws:apigateway:us-east-1:lambda:path/2015-03-31/functions/", "/invocations"
		arn := strings.TrimSuffix(strings.TrimPrefix(method.Text("Integration", "Uri"), head), tail)
		c.note(s, arn, functions.Request, method.ID)
		for _, id := range method.Uses {
			if r := s.Resources[id]; r.Type == "AWS::ApiGateway::Resource" {
				c.permissions[permissionKey(arn, "apigateway.amazonaws.com", apiPrefix+method.Text("RestApiId")+"/*/*/"+r.Text("PathPart"))] = true
			}
		}
	}
	return c
}

// checkCallers: each function is called in the way that its code expects, and what calls it may, and nothing else may.
func checkCallers(s *template.Stack) []string {
	c := callsOf(s)
	wrong := c.wrong
	for _, r := range s.OfType(lambdaType) {
		f, err := functions.Named(r.Text("Handler"))
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %v", r.ID, err))
			continue
		}
		ways := slices.Sorted(maps.Keys(c.ways[r.Text("FunctionName")]))
		if !slices.Equal(ways, []functions.Event{f.Event}) {
			wrong = append(wrong, fmt.Sprintf("%s is called by %q, want %q", r.ID, ways, f.Event))
		}
	}
	given := map[string]bool{}
	for _, p := range s.OfType("AWS::Lambda::Permission") {
		key := permissionKey(p.Text("FunctionName"), p.Text("Principal"), p.Text("SourceArn"))
		if p.Text("Action") != "lambda:InvokeFunction" || given[key] {
			wrong = append(wrong, fmt.Sprintf("%s is there twice or allows %q", p.ID, p.Text("Action")))
		}
		given[key] = true
		if !c.permissions[key] {
			wrong = append(wrong, fmt.Sprintf("%s is a permission that nothing uses: %s", p.ID, key))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.permissions)) {
		if !given[key] {
			wrong = append(wrong, "there is no permission to call "+key)
		}
	}
	return wrong
}

func TestFunctionsAreCalledAsTheyExpect(t *testing.T) {
	t.Parallel()
	upholds(t, checkCallers,
		fault{in: "full live", at: "MeterRule3Permission", says: "no permission to call awsmp-exampleproduct-discoverer for events.amazonaws.com from " + rulePrefix + "awsmp-exampleproduct-meter-3"},
		fault{in: "direct-submit live", at: "SubmissionExpiryPermission", says: "no permission to call awsmp-exampleproduct-submission-expiry"},
		fault{in: "direct-submit live", at: "RegistrationPermission", says: "no permission to call awsmp-exampleproduct-registration for apigateway"},
		fault{"full live", "MeterRule3Permission", "MeterRule3.Arn", "MeterRule2.Arn", "is there twice"},
		fault{"full live", "SubmitterPermission", "SubmitterFunction", "RegistrationFunction", "nothing uses"},
		fault{"full live", "SubmitterPermission", "!GetAtt SubmitRule.Arn", rulePrefix + "gone", "nothing uses"},
		fault{"full live", "SubmitterPermission", "lambda:InvokeFunction", "lambda:*", "allows"},
		fault{"full live", "RegistrationPermission", "${RegistrationApi}/*/*/register", "*/*/*/register", "nothing uses"},
		fault{in: "full live", at: "CleanupMapping", says: "CleanupFunction is called by []"},
		fault{"full live", "CleanupMapping", "!Ref CleanupFunction", "!Ref SubmitterFunction", "SubmitterFunction is called by"},
		fault{"full live", "CleanupMapping", "!GetAtt CleanupQueue.Arn", queuePrefix + "other", "no queue of the stack"},
		fault{in: "events live", at: "DeprovisionCleanupSchedule", says: "DeprovisionCleanupFunction is called by []"},
		fault{"events live", "DeprovisionCleanupSchedule", "!GetAtt ScheduleRole.Arn", "arn:aws:iam::111122223333:role/other", "no role of the stack"},
		fault{"events live", "SubscriptionMapping", "!Ref SubscriptionFunction", "!Ref DeprovisionCleanupFunction", `"schedule"`},
		fault{"full live", "RegistrationMethod", "${RegistrationFunction.Arn}", "${SubmitterFunction.Arn}", `SubmitterFunction is called by ["request" "schedule"]`},
		fault{"full live", "FlushRule", "ScheduleExpression: cron(1/5 * * * ? *)", "EventPattern: {source: [any]}", "is no schedule"},
	)
}

// checkDeliveries: what EventBridge hands to queues, and what it could not hand over, those queues take from these rules and from no other, before there is such a rule:
// what a queue did not let in is not tried again (Amazon EventBridge user guide, "Using dead-letter queues to process undelivered events").
func checkDeliveries(s *template.Stack) (wrong []string) {
	needed, given := map[string]bool{}, map[string]bool{}
	policies := s.OfType("AWS::SQS::QueuePolicy")
	for _, rule := range s.OfType(ruleType) {
		for _, target := range objects(rule.Get("Targets")) {
			arn, _ := target["Arn"].(string)
			if !strings.HasPrefix(arn, queuePrefix) {
				continue
			}
			dead, _ := target["DeadLetterConfig"].(map[string]any)
			for _, queue := range []any{arn, dead["Arn"]} {
				needed[fmt.Sprintf("%s from %s", queue, rulePrefix+rule.Text("Name"))] = true
				for _, p := range policies {
					if lets := objects(p.Get("PolicyDocument", "Statement")); len(lets) > 0 && lets[0]["Resource"] == queue && !slices.Contains(rule.Uses, p.ID) {
						wrong = append(wrong, rule.ID+" does not wait for "+p.ID)
					}
				}
			}
			if arn == dead["Arn"] {
				wrong = append(wrong, rule.ID+" gives up into the queue that it could not reach")
			}
		}
	}
	for _, policy := range policies {
		of := oneOrMore(policy.Get("Queues"))
		for _, st := range objects(policy.Get("PolicyDocument", "Statement")) {
			queue, _ := st["Resource"].(string)
			address := "https://sqs.us-east-1.amazonaws.com/111122223333/" + strings.TrimPrefix(queue, queuePrefix)
			r := template.Resource{Properties: st}
			if r.Text("Principal", "Service") != "events.amazonaws.com" || r.Text("Action") != "sqs:SendMessage" || !slices.Equal(of, []string{address}) {
				wrong = append(wrong, fmt.Sprintf("%s lets %q %s to %s, want EventBridge to send to its own queue alone", policy.ID, r.Text("Principal", "Service"), r.Text("Action"), queue))
			}
			for _, source := range oneOrMore(r.Get("Condition", "ArnEquals", "aws:SourceArn")) {
				given[fmt.Sprintf("%s from %s", queue, source)] = true
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(needed)) {
		if !given[key] {
			wrong = append(wrong, "nothing lets events into "+key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if !needed[key] {
			wrong = append(wrong, "nothing sends events into "+key)
		}
	}
	return wrong
}

func TestQueuesTakeEvents(t *testing.T) {
	t.Parallel()
	upholds(t, checkDeliveries,
		fault{"events live", "EventsQueuePolicy", "Resource: !GetAtt EventsQueue.Arn", "Resource: !GetAtt UndeliveredEvents.Arn", "nothing lets events into " + queuePrefix + "awsmp-events from"},
		fault{"events live", "UndeliveredEventsPolicy", "rule/awsmp-marketplace-events\n", "rule/other\n", "nothing lets events into " + queuePrefix + "awsmp-events-undelivered"},
		fault{"events test stage", "EventsQueuePolicy", "rule/awsmp-test-events-test-", "rule/other-", "awsmp-test-events-test-qa"},
		fault{"events live", "MarketplaceEvents", "DependsOn: [EventsQueuePolicy, UndeliveredEventsPolicy]", "DependsOn: [EventsQueuePolicy]", "does not wait for UndeliveredEventsPolicy"},
		fault{"events test stage", "TestEvents", "DependsOn: [EventsQueuePolicy, UndeliveredEventsPolicy]", "DependsOn: [UndeliveredEventsPolicy]", "does not wait for EventsQueuePolicy"},
		fault{"events live", "EventsQueuePolicy", "Service: events.amazonaws.com", "Service: '*'", "want EventBridge"},
		fault{"events live", "EventsQueuePolicy", "[!Ref EventsQueue]", "[!Ref EventsDeadLetters]", "want EventBridge"},
		fault{"events live", "MarketplaceEvents", "DeadLetterConfig: {Arn: !GetAtt UndeliveredEvents.Arn}", "DeadLetterConfig: {Arn: !GetAtt EventsQueue.Arn}", "could not reach"},
		fault{"events live", "MarketplaceEvents", "          DeadLetterConfig: {Arn: !GetAtt UndeliveredEvents.Arn}\n", "", "nothing lets events into %!s(<nil>)"},
	)
}
