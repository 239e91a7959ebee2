package stack

import (
	"context"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cloudwatchtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/desk"
)

// Queues are the queues of the stack and of the events stack that it reads the subscribers of. A queue that is not there is left out: Troubles names
// it. A list and an error may come together: what could be read is in the list and is right, and the error says what is missing from it.
func (s *Stack) Queues(ctx context.Context) ([]desk.Queue, error) {
	all := in(s, queues(), func(q queue) where { return q.in })
	var ages map[string]time.Duration
	list, err := sideBySide(ctx, len(all)+1, func(ctx context.Context, i int) (found *desk.Queue, err error) {
		if i == len(all) {
			ages, err = s.ages(ctx, all)
			return nil, err
		}
		return s.look(ctx, all[i])
	})
	var found []desk.Queue
	for i, q := range list {
		if q == nil {
			continue
		}
		if age, known := ages[s.named(all[i].name, all[i].in)]; known && q.Visible+q.InFlight > 0 {
			q.Oldest = age.String()
		}
		found = append(found, *q)
	}
	return found, err
}

// look is one queue; nil where it is not there.
func (s *Stack) look(ctx context.Context, q queue) (*desk.Queue, error) {
	url, err := s.address(ctx, q)
	if gone(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	client, name := s.at(q.in).sqs, s.named(q.name, q.in)
	out, err := client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{
		types.QueueAttributeNameApproximateNumberOfMessages, types.QueueAttributeNameApproximateNumberOfMessagesDelayed, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
	}})
	if gone(err) {
		return nil, nil
	} else if err != nil {
		return nil, awsapi.Wrap("look at the queue", name, err)
	}
	number := func(name types.QueueAttributeName) int {
		n, _ := strconv.Atoi(out.Attributes[string(name)])
		return n
	}
	found := &desk.Queue{
		Name: q.name, Dead: q.dead(), InFlight: number(types.QueueAttributeNameApproximateNumberOfMessagesNotVisible),
		Visible: number(types.QueueAttributeNameApproximateNumberOfMessages) + number(types.QueueAttributeNameApproximateNumberOfMessagesDelayed),
	}
	if q.dead() && found.Visible > 0 {
		err = s.oldestLetter(ctx, q, url, found)
	}
	return found, err
}

// oldestLetter finds the age of dead letters by looking at up to ten of them, which stay to be seen: for CloudWatch their age begins when they are moved there, and not
// when they are sent (Amazon SQS developer guide, dead-letter queues).
func (s *Stack) oldestLetter(ctx context.Context, q queue, url string, found *desk.Queue) error {
	messages, err := s.receive(ctx, q, url, maxReceived, glance)
	if err != nil {
		return err
	}
	var oldest time.Duration
	for _, m := range messages {
		if sent := sentAt(m); !sent.IsZero() {
			oldest = max(oldest, s.now().Sub(sent))
		}
	}
	if oldest > 0 {
		found.Oldest = oldest.Truncate(time.Second).String()
	}
	return s.letGo(ctx, q, url, messages)
}

// maxReceived is how many messages one call receives at most (Amazon SQS API reference, ReceiveMessage).
const maxReceived = 10

// sentAt is when a message was first sent; zero where it does not say.
func sentAt(m types.Message) time.Time {
	ms, err := strconv.ParseInt(m.Attributes[string(types.MessageSystemAttributeNameSentTimestamp)], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// address is the URL of a queue.
func (s *Stack) address(ctx context.Context, q queue) (string, error) {
	name := s.named(q.name, q.in)
	out, err := s.at(q.in).sqs.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name})
	if err != nil {
		return "", awsapi.Wrap("find the queue", name, err)
	}
	return aws.ToString(out.QueueUrl), nil
}

// ages are the ages of the oldest messages of queues that are no dead letters, as CloudWatch had them last, by the queue's name. A queue that has been empty is
// not among them.
func (s *Stack) ages(ctx context.Context, all []queue) (map[string]time.Duration, error) {
	found := make(map[string]time.Duration)
	var failed []error
	for _, of := range [][]where{{always, full}, {outside}} {
		var names []string
		for _, q := range all {
			if !q.dead() && (q.in == of[0] || len(of) > 1 && q.in == of[1]) {
				names = append(names, s.named(q.name, q.in))
			}
		}
		if len(names) == 0 {
			continue
		}
		failed = append(failed, s.addAges(ctx, s.at(of[0]).cloudwatch, names, found))
	}
	return found, distinct(ctx, failed...)
}

// lookback is how far back the age of a message is looked for: CloudWatch has the last minutes late.
const lookback = 10 * time.Minute

func (s *Stack) addAges(ctx context.Context, client *cloudwatch.Client, names []string, found map[string]time.Duration) error {
	var ask []cloudwatchtypes.MetricDataQuery
	for i, name := range names {
		ask = append(ask, cloudwatchtypes.MetricDataQuery{Id: aws.String("q" + strconv.Itoa(i)), MetricStat: &cloudwatchtypes.MetricStat{
			Period: aws.Int32(60), Stat: aws.String("Maximum"),
			Metric: &cloudwatchtypes.Metric{
				Namespace: aws.String("AWS/SQS"), MetricName: aws.String("ApproximateAgeOfOldestMessage"),
				Dimensions: []cloudwatchtypes.Dimension{{Name: aws.String("QueueName"), Value: aws.String(name)}},
			},
		}})
	}
	now := s.now()
	out, err := client.GetMetricData(ctx, &cloudwatch.GetMetricDataInput{
		MetricDataQueries: ask, StartTime: aws.Time(now.Add(-lookback)), EndTime: aws.Time(now), ScanBy: cloudwatchtypes.ScanByTimestampDescending,
	})
	if err != nil {
		return awsapi.Wrap("read the age of messages", "", err)
	}
	for _, r := range out.MetricDataResults {
		i, err := strconv.Atoi(aws.ToString(r.Id)[min(1, len(aws.ToString(r.Id))):])
		if err == nil && i < len(names) && len(r.Values) > 0 {
			found[names[i]] = time.Duration(r.Values[0]) * time.Second
		}
	}
	return nil
}
