package deploy_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/functions"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/template"
)

// What AWS asks of a queue that calls a function, and what it takes.
const (
	visibilityTimeouts = 6         // AWS Lambda developer guide, "Using Lambda with Amazon SQS": of the function's timeouts, so that a throttled batch can wait
	leastReceives      = 5         // the same page, of maxReceiveCount
	longestRetention   = 1_209_600 // Amazon SQS API reference, SetQueueAttributes, MessageRetentionPeriod: 14 days, in seconds
	leastConcurrency   = 2         // AWS Lambda API reference, ScalingConfig
	mostConcurrency    = 1000      //
	plainBatch         = 10        // AWS Lambda API reference, CreateEventSourceMapping, BatchSize: more wants a window
	partitionWrites    = 1000      // Amazon DynamoDB developer guide, partition key design: write units a second
)

// deadLetters are the queues, by ARN, that others give messages up to, with those that do.
func deadLetters(s *template.Stack) map[string][]string {
	from := map[string][]string{}
	for _, q := range s.OfType(queueType) {
		if dead := q.Text("RedrivePolicy", "deadLetterTargetArn"); dead != "" {
			from[dead] = append(from[dead], q.ID)
		}
	}
	for _, rule := range s.OfType(ruleType) {
		for _, target := range objects(rule.Get("Targets")) {
			if dead := (template.Resource{Properties: target}).Text("DeadLetterConfig", "Arn"); dead != "" {
				from[dead] = append(from[dead], rule.ID)
			}
		}
	}
	return from
}

// checkQueues: nothing that a queue holds goes without a name; what a function cannot handle lies where it is seen, and for long enough.
func checkQueues(s *template.Stack) (wrong []string) {
	queues, dead := queuesByARN(s), deadLetters(s)
	for arn, q := range queues {
		retention, _ := q.Int("MessageRetentionPeriod")
		if q.Get("SqsManagedSseEnabled") != true {
			wrong = append(wrong, q.ID+" is not encrypted")
		}
		if q.Get("FifoQueue") != nil {
			wrong = append(wrong, q.ID+" is no standard queue")
		}
		if sources := dead[arn]; len(sources) > 0 {
			if q.Get("RedrivePolicy") != nil || retention != longestRetention {
				wrong = append(wrong, fmt.Sprintf("%s has dead letters of %q: it keeps them for %d s, or gives them up once more", q.ID, sources, retention))
			}
			continue
		}
		target, receives := q.Text("RedrivePolicy", "deadLetterTargetArn"), 0
		receives, _ = q.Int("RedrivePolicy", "maxReceiveCount")
		visibility, _ := q.Int("VisibilityTimeout")
		if _, known := queues[target]; !known || len(dead[target]) != 1 || receives < leastReceives {
			wrong = append(wrong, fmt.Sprintf("%s gives up after %d deliveries to %q, want %d or more and a queue of its own", q.ID, receives, target, leastReceives))
		}
		// A message that is given up keeps the time of its first sending: what it waited before is gone from its 14 days.
		if patience := visibility * receives; retention <= patience || retention >= longestRetention {
			wrong = append(wrong, fmt.Sprintf("%s keeps messages for %d s, want more than its %d s of deliveries and less than its dead letters", q.ID, retention, patience))
		}
	}
	return wrong
}

func TestQueuesGiveUpWhereItIsSeen(t *testing.T) {
	t.Parallel()
	upholds(t, checkQueues,
		fault{"full live", "WorkQueue", "SqsManagedSseEnabled: true", "SqsManagedSseEnabled: false", "WorkQueue is not encrypted"},
		fault{"full live", "CleanupDeadLetters", "SqsManagedSseEnabled: true", "FifoQueue: true", "CleanupDeadLetters is no standard queue"},
		fault{"full live", "WorkQueue", "      RedrivePolicy: {deadLetterTargetArn: !GetAtt WorkDeadLetters.Arn, maxReceiveCount: 5}", "", `WorkQueue gives up after 0 deliveries to ""`},
		fault{"full live", "WorkQueue", "maxReceiveCount: 5", "maxReceiveCount: 3", "WorkQueue gives up after 3"},
		fault{"full live", "WorkQueue", "WorkDeadLetters", "CleanupDeadLetters", "a queue of its own"},
		fault{"full live", "WorkDeadLetters", "1209600", "345600", "it keeps them for 345600 s"},
		fault{"events live", "UndeliveredEvents", "1209600", "345600", "it keeps them for 345600 s"},
		fault{"events live", "EventsDeadLetters", "SqsManaged", "RedrivePolicy: {deadLetterTargetArn: !GetAtt UndeliveredEvents.Arn, maxReceiveCount: 5}\n      SqsManaged", "gives them up once more"},
		fault{"events live", "EventsQueue", "345600", "3600", "EventsQueue keeps messages for 3600 s"},
		fault{"events live", "EventsQueue", "345600", "1209600", "EventsQueue keeps messages for 1209600 s"},
	)
}

// checkMappings: a batch is delivered again only when it cannot be under way any more, alone as far as it failed, and as many at once as the function may
// run (case 47: where fewer may, throttled deliveries use up the messages' own until untouched ones lie among the dead letters).
func checkMappings(s *template.Stack) (wrong []string) {
	read, total := map[string]int{}, map[string]int{}
	for _, m := range s.OfType(mappingType) {
		q := queuesByARN(s)[m.Text("EventSourceArn")]
		f := lambdasByARN(s)[lambdaPrefix+m.Text("FunctionName")]
		read[m.Text("EventSourceArn")]++
		visibility, _ := q.Int("VisibilityTimeout")
		timeout, known := f.Int("Timeout")
		window, _ := m.Int("MaximumBatchingWindowInSeconds")
		batch, _ := m.Int("BatchSize")
		most, _ := m.Int("ScalingConfig", "MaximumConcurrency")
		total[f.ID] += most
		if !known || visibility < visibilityTimeouts*timeout+window {
			wrong = append(wrong, fmt.Sprintf("%s: a message is hidden for %d s, want %d times the %d s of %s", m.ID, visibility, visibilityTimeouts, timeout, f.ID))
		}
		if batch < 1 || batch > plainBatch && window == 0 {
			wrong = append(wrong, fmt.Sprintf("%s: %d messages in a batch, want 1 to %d without a window", m.ID, batch, plainBatch))
		}
		if most < leastConcurrency || most > mostConcurrency {
			wrong = append(wrong, fmt.Sprintf("%s: %d batches at once, want %d to %d", m.ID, most, leastConcurrency, mostConcurrency))
		}
		if got := fmt.Sprint(m.Get("FunctionResponseTypes")); got != "[ReportBatchItemFailures]" {
			wrong = append(wrong, fmt.Sprintf("%s: a batch fails as a whole: %s", m.ID, got))
		}
		if m.Get("Enabled") != nil && m.Get("Enabled") != true {
			wrong = append(wrong, m.ID+" is switched off")
		}
	}
	for id, most := range total {
		if reserved, any := s.Resources[id].Int("ReservedConcurrentExecutions"); any && reserved < most {
			wrong = append(wrong, fmt.Sprintf("%s may run %d at once and its queues call up to %d (case 47)", id, reserved, most))
		}
	}
	dead := deadLetters(s)
	for arn, q := range queuesByARN(s) {
		if want := 1; len(dead[arn]) == 0 && read[arn] != want || len(dead[arn]) > 0 && read[arn] != 0 {
			wrong = append(wrong, fmt.Sprintf("%s calls %d functions", q.ID, read[arn]))
		}
	}
	return wrong
}

func TestQueuesCallFunctionsThatKeepUp(t *testing.T) {
	t.Parallel()
	const reserve = "Timeout: 60\n      ReservedConcurrentExecutions: "
	upholds(t, checkMappings,
		fault{"full live", "DeprovisionWorkQueue", "VisibilityTimeout: 360", "VisibilityTimeout: 300", "DeprovisionWorkMapping: a message is hidden for 300 s"},
		fault{"full live", "AggregatorFunction", "Timeout: 60", "Timeout: 120", "WorkMapping: a message is hidden"},
		fault{"full live", "CleanupMapping", "BatchSize: 5", "BatchSize: 5\n      MaximumBatchingWindowInSeconds: 20", "CleanupMapping: a message is hidden"},
		fault{"events live", "SubscriptionFunction", "Timeout: 30", "Timeout: 60", "SubscriptionMapping: a message is hidden"},
		fault{"full live", "WorkMapping", "BatchSize: 10", "BatchSize: 11", "WorkMapping: 11 messages"},
		fault{"full live", "CleanupMapping", "Concurrency: 5", "Concurrency: 1", "CleanupMapping: 1 batches at once"},
		fault{"full live", "CleanupMapping", "Concurrency: 5", "Concurrency: 1001", "CleanupMapping: 1001 batches"},
		fault{"full live", "CleanupMapping", "      ScalingConfig: {MaximumConcurrency: 5}", "", "CleanupMapping: 0 batches"},
		fault{"events live", "SubscriptionMapping", "      FunctionResponseTypes: [ReportBatchItemFailures]\n", "", "fails as a whole"},
		fault{"events live", "SubscriptionMapping", "BatchSize: 10", "BatchSize: 10\n      Enabled: false", "switched off"},
		fault{"full live", "AggregatorFunction", "Timeout: 60", reserve + "10", "AggregatorFunction may run 10 at once and its queues call up to 25"},
		fault{"full live", "AggregatorFunction", "Timeout: 60", reserve + "24", "up to 25"},
		fault{"full live", "DeprovisionWorkMapping", "DeprovisionWorkQueue", "WorkQueue", "DeprovisionWorkQueue calls 0"},
		fault{"full live", "WorkMapping", "WorkQueue", "WorkDeadLetters", "WorkDeadLetters calls 1"},
	)
	enough := fault{"full live", "AggregatorFunction", "Timeout: 60", reserve + "25", ""}
	if problems := checkMappings(enough.stack(t, nil)); len(problems) > 0 {
		t.Errorf("25 reserved are enough: %q", problems)
	}
	for _, most := range []string{"2", "1000"} {
		s := deploymentNamed(t, "full live").with(t, map[string]string{"AggregatorMaximumConcurrency": most})
		if problems := checkMappings(s); len(problems) > 0 {
			t.Errorf("%s aggregators at once: %q", most, problems)
		}
	}
}

// checkPatience: an event that waits for another one is delivered for an hour, and one of an agreement that nobody knows is done with before that.
func checkPatience(t *testing.T) func(*template.Stack) []string {
	age, receives := codeDuration(t, "internal/lifecycle", "unknownAfter"), codeNumber(t, "internal/lifecycle", "unknownReceives")
	settled := codeDuration(t, "internal/lifecycle", "settledAfter")
	return func(s *template.Stack) (wrong []string) {
		q, ok := s.Resources["EventsQueue"]
		if !ok {
			return nil
		}
		seconds, _ := q.Int("VisibilityTimeout")
		most, _ := q.Int("RedrivePolicy", "maxReceiveCount")
		every := time.Duration(seconds) * time.Second
		if patience := time.Duration(most) * every; patience != time.Hour {
			wrong = append(wrong, fmt.Sprintf("events are delivered for %v, want an hour", patience))
		}
		if last := time.Duration(most-1) * every; last < age || most < receives {
			wrong = append(wrong, fmt.Sprintf("the last of %d deliveries comes after %v: an unknown agreement is given up at %v and the %dth delivery", most, last, age, receives))
		}
		if every < settled {
			wrong = append(wrong, fmt.Sprintf("the second delivery comes after %v, while the index may take %v to settle", every, settled))
		}
		return wrong
	}
}

func TestEventsAreGivenAnHour(t *testing.T) {
	t.Parallel()
	if codeDuration(t, "internal/lifecycle", "unknownAfter") != 45*time.Minute {
		t.Error("docs/subscriptions.md says 45 minutes")
	}
	upholds(t, checkPatience(t),
		fault{"events live", "EventsQueue", "maxReceiveCount: 12", "maxReceiveCount: 8", "an unknown agreement is given up"},
		fault{"events live", "EventsQueue", "maxReceiveCount: 12", "maxReceiveCount: 2", "delivered for 10m0s"},
		fault{"events test stage", "EventsQueue", "VisibilityTimeout: 300", "VisibilityTimeout: 180", "the second delivery comes after 3m0s"},
	)
}

// checkPace: all cleanups together stay below what one partition takes, and a full batch is done well within the time that a cleanup has.
func checkPace(t *testing.T) func(*template.Stack) []string {
	pace := codeNumber(t, "internal/functions", "cleanupWrites")
	return func(s *template.Stack) (wrong []string) {
		f := handled(s, functions.Cleanup)
		for _, m := range s.OfType(mappingType) {
			if f.ID == "" || m.Text("FunctionName") != f.Text("FunctionName") {
				continue
			}
			most, _ := m.Int("ScalingConfig", "MaximumConcurrency")
			batch, _ := m.Int("BatchSize")
			timeout, _ := f.Int("Timeout")
			if writes := most * pace; writes >= partitionWrites {
				wrong = append(wrong, fmt.Sprintf("%d cleanups write %d rows a second, want less than %d", most, writes, partitionWrites))
			}
			// A row that was changed since is written twice, and half of the time is room for throttling.
			if takes := 2 * batch * metering.MaxCleanupRows / pace; takes > timeout/2 {
				wrong = append(wrong, fmt.Sprintf("%d messages may take %d s, and the function has %d s", batch, takes, timeout))
			}
		}
		return wrong
	}
}

func TestCleanupsKeepThePace(t *testing.T) {
	t.Parallel()
	upholds(t, checkPace(t),
		fault{"full live", "CleanupMapping", "Concurrency: 5", "Concurrency: 7", "7 cleanups write 1050 rows"},
		fault{"full live", "CleanupMapping", "BatchSize: 5", "BatchSize: 25", "25 messages may take 33 s"},
		fault{"full live", "CleanupFunction", "Timeout: 60", "Timeout: 10", "5 messages may take 6 s"},
	)
}

var calledBy = regexp.MustCompile(`([a-z-]+) queue: ([0-9]+) messages, at most ([0-9]+) at once`)

// TestTheDocsTellBatches: docs/functions.md says of each queue how many messages come at once, and how many batches.
func TestTheDocsTellBatches(t *testing.T) {
	t.Parallel()
	docs := fileText(t, "../docs/functions.md")
	mappings := 0
	for _, name := range []string{"full live", "events live"} {
		s := deploymentNamed(t, name).whole(t)
		for _, m := range s.OfType(mappingType) {
			mappings++
			q := queuesByARN(s)[m.Text("EventSourceArn")]
			told := false
			for _, words := range calledBy.FindAllStringSubmatch(docs, -1) {
				if !strings.HasSuffix(q.Text("QueueName"), product+"-"+words[1]) && q.Text("QueueName") != "awsmp-"+words[1] {
					continue
				}
				batch, _ := strconv.Atoi(words[2])
				most, _ := strconv.Atoi(words[3])
				has, _ := m.Int("BatchSize")
				runs, _ := m.Int("ScalingConfig", "MaximumConcurrency")
				if told = true; has != batch || runs != most {
					t.Errorf("%s takes %d messages, %d at once; docs/functions.md says %q", m.ID, has, runs, words[0])
				}
			}
			if !told {
				t.Errorf("docs/functions.md does not tell of %s", q.ID)
			}
		}
	}
	if told := len(calledBy.FindAllString(docs, -1)); told != mappings {
		t.Errorf("docs/functions.md tells of %d queues that call functions, and there are %d", told, mappings)
	}
}
