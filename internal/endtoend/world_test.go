package endtoend_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	dynamosdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	sqssdk "github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/functions"
	"github.com/awsmp/metering/internal/lambdahost"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/queue/sqs"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/store/dynamodb"
	"github.com/awsmp/metering/simulator"
)

// Kinds of resources, as the list of calls names them.
const (
	usageTable       = "table usage"
	usageIndex       = "index usage/metering_pending"
	aggregatedTable  = "table aggregated-usage"
	aggregatedIndex  = "index aggregated-usage/metering_pending"
	subscribersTable = "table subscribers"
	closingIndex     = "index subscribers/deprovisioning-pending-index"
	agreementIndex   = "index subscribers/agreementId-index"
	profileTable     = "table customer-profile"
	workQueue        = "queue work"
	deprovisionQueue = "queue deprovision-work"
	cleanupQueue     = "queue cleanup"
	eventsQueue      = "queue events"
	meteringService  = "service"
)

const (
	// visibility is short, so that what a killed process held comes again soon. Handling that takes longer is merely done twice.
	visibility = 2 * time.Second
	maxReceive = 3
	// maxEvents is how often an event is received at most: it may have to wait for another.
	maxEvents = 5
)

// worlds makes the names of tables and queues unique in a moto that all worlds share.
var worlds atomic.Int64

// world is one deployment: tables, queues and functions of its own, and a Marketplace.
type world struct {
	t     *testing.T
	suite suite
	hour  metering.Hour // the last complete hour when the world began; one or two hours back from then on

	dynamo            *dynamosdk.Client // past all proxies, as sqs
	sqs               *sqssdk.Client
	usage, aggregated string
	subscribers       string
	profiles          string
	kinds             map[string]string // of the resources, by name
	urls              map[string]string // of the queues, by kind

	store     *dynamodb.Ledger
	closing   *dynamodb.Subscribers
	sim       *simulator.Simulator
	simURL    string
	licenses  []string
	private   []string // what no log may show, beside the identifiers of the licenses
	functions map[string]*function
	mappings  []*lambdahost.Mapping
}

// function is a function and the proxies before what it calls.
type function struct {
	*lambdahost.Function
	handler string

	aws   *standin.Proxy // DynamoDB and SQS
	meter *standin.Proxy // the Metering Service
}

func newWorld(t *testing.T, s suite) *world {
	t.Helper()
	config := standin.Config(s.moto)
	prefix := fmt.Sprintf("awsmp-e2e%d-", worlds.Add(1))
	w := &world{
		t: t, suite: s, hour: metering.HourOf(time.Now()) - 1,
		dynamo: dynamosdk.NewFromConfig(config), sqs: sqssdk.NewFromConfig(config),
		usage: prefix + "usage", aggregated: prefix + "aggregated-usage",
		subscribers: prefix + "subscribers", profiles: prefix + "customer-profile",
		urls: map[string]string{}, functions: map[string]*function{},
	}
	w.kinds = map[string]string{
		w.usage: usageTable, w.usage + "/metering_pending": usageIndex,
		w.aggregated: aggregatedTable, w.aggregated + "/metering_pending": aggregatedIndex,
		w.profiles: profileTable,
	}
	w.knowSubscribers(w.subscribers)
	fatal(t, dynamodb.Create(t.Context(), w.dynamo, dynamodb.UsageTable(w.usage), dynamodb.AggregatedUsageTable(w.aggregated),
		dynamodb.SubscribersTable(w.subscribers), dynamodb.CustomerProfileTable(w.profiles, "companyName")))
	w.store = &dynamodb.Ledger{
		Rows:    dynamodb.NewRows(w.dynamo, w.usage, dynamodb.Options{}),
		Records: dynamodb.NewRecords(w.dynamo, w.aggregated, dynamodb.Options{}),
	}
	w.closing = dynamodb.NewSubscribers(w.dynamo, w.subscribers)
	for kind, receives := range map[string]int{workQueue: maxReceive, deprovisionQueue: maxReceive, cleanupQueue: maxReceive, eventsQueue: maxEvents} {
		name := prefix + strings.TrimPrefix(kind, "queue ")
		w.urls[kind] = w.makeQueue(name, receives)
		w.kinds[name] = kind
	}
	var err error
	w.sim, err = simulator.New(simulator.Options{})
	fatal(t, err)
	server := httptest.NewServer(w.sim)
	t.Cleanup(server.Close)
	w.simURL = server.URL
	t.Cleanup(w.close)
	return w
}

// knowSubscribers makes a name that of a subscribers table, whether there is one or not.
func (w *world) knowSubscribers(name string) {
	w.kinds[name] = subscribersTable
	w.kinds[name+"/"+metering.DeprovisioningIndex] = closingIndex
	w.kinds[name+"/"+metering.AgreementIndex] = agreementIndex
}

// makeQueue makes a queue and its dead-letter queue.
func (w *world) makeQueue(name string, receives int) string {
	w.t.Helper()
	dead, err := w.sqs.CreateQueue(w.t.Context(), &sqssdk.CreateQueueInput{QueueName: aws.String(name + "-dlq")})
	fatal(w.t, err)
	arn, err := w.sqs.GetQueueAttributes(w.t.Context(), &sqssdk.GetQueueAttributesInput{
		QueueUrl: dead.QueueUrl, AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameQueueArn},
	})
	fatal(w.t, err)
	made, err := w.sqs.CreateQueue(w.t.Context(), &sqssdk.CreateQueueInput{QueueName: &name, Attributes: map[string]string{
		"VisibilityTimeout": fmt.Sprint(int(visibility.Seconds())),
		"RedrivePolicy":     fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":%d}`, arn.Attributes["QueueArn"], receives),
	}})
	fatal(w.t, err)
	return *made.QueueUrl
}

// close books what the functions called, and looks in what they logged for identifiers and for what is private.
func (w *world) close() {
	for name, f := range w.functions {
		for _, call := range append(f.aws.Calls(), f.meter.Calls()...) {
			resource := w.kinds[call.Resource]
			if call.Service == "marketplacemetering" {
				resource = meteringService
			}
			if resource == "" {
				w.t.Errorf("%s calls %s of %s on %q, which is no resource of this deployment", name, call.Operation, call.Service, call.Resource)
			}
			w.suite.book.add(f.handler, awsapi.Action(call.Service, call.Operation), resource)
		}
		secrets := slices.Clone(w.private)
		for _, license := range w.licenses {
			secrets = append(secrets, license, license[strings.LastIndex(license, ":")+1:], account(license))
		}
		for _, secret := range secrets {
			if strings.Contains(f.Logs(), secret) {
				w.t.Errorf("the log of %s shows %s:\n%s", name, secret, f.Logs())
			}
		}
	}
}

// license adds a license to the Marketplace, active since ever or since at.
func (w *world) license(at ...time.Time) string {
	w.t.Helper()
	arn := fmt.Sprintf("arn:aws:license-manager::111122223333:license:l-%032d", 10+len(w.licenses))
	l := simulator.License{ARN: arn, AccountID: account(arn)}
	if len(at) > 0 {
		l.ActivatedAt = at[0]
	}
	fatal(w.t, w.sim.PutLicense(l))
	w.licenses = append(w.licenses, arn)
	return arn
}

// account is the buyer's account of a license.
func account(license string) string { return "4444555566" + license[len(license)-2:] }

func (w *world) group(license, dimension string) metering.Group {
	return metering.Group{License: license, Account: account(license), Dimension: dimension, Hour: w.hour}
}

// put writes rows as a seller does who has no use for our writer: PutItem of everything that the contract asks for.
func (w *world) put(rows ...metering.Row) {
	w.t.Helper()
	for _, r := range rows {
		fatal(w.t, w.store.PutRow(w.t.Context(), r))
	}
}

// rows are n rows of a group, a minute apart, that hold 1, 2, … n.
func rows(g metering.Group, n int) []metering.Row {
	list := make([]metering.Row, n)
	for i := range list {
		list[i] = metering.NewRow(g, g.Hour.Second(60*i), int64(i+1))
	}
	return list
}

// function is the function of a handler name; its first use makes it. More sets further variables, or the same again.
func (w *world) function(handler string, more ...string) *function {
	w.t.Helper()
	return w.named(handler, handler, more...)
}

// named is a function beside others of the same handler name.
func (w *world) named(name, handler string, more ...string) *function {
	w.t.Helper()
	if f := w.functions[name]; f != nil {
		return f
	}
	f := &function{handler: handler, aws: standin.NewProxy(w.t, w.suite.moto), meter: standin.NewProxy(w.t, w.simURL)}
	f.Function = lambdahost.Start(w.t, lambdahost.Options{
		Binary: w.suite.bootstrap, Handler: handler, Name: name, Timeout: time.Minute, Concurrency: 2,
		Env: append(w.environment(handler, f), more...),
	})
	w.functions[name] = f
	return f
}

// environment holds exactly what the table of functions says that the handler reads.
func (w *world) environment(handler string, f *function) []string {
	w.t.Helper()
	values := map[string]string{
		"LOG_LEVEL": "DEBUG", "PRODUCT_CODE": simulator.DefaultProductCode, "METERING_MODE": "live",
		"USAGE_TABLE": w.usage, "AGGREGATED_USAGE_TABLE": w.aggregated,
		"SUBSCRIBERS_TABLE": w.subscribers, "SUBSCRIBERS_TABLE_REGION": standin.Region,
		"WORK_QUEUE_URL": w.urls[workQueue], "DEPROVISION_WORK_QUEUE_URL": w.urls[deprovisionQueue], "CLEANUP_QUEUE_URL": w.urls[cleanupQueue],
		"METERING_LOCK_HOURS": "1", "MAX_RECORDS_PER_RUN": "50000", "METERING_CALLS_PER_SECOND": "10", "SUBMISSION": "enabled",
		"USAGE_TTL_DAYS": "365", "AGGREGATED_USAGE_TTL_DAYS": "0",
		"TEST_STAGE": "none", "TEST_ACCOUNTS": "none",
		"CUSTOMER_PROFILE_TABLE": w.profiles, "REGISTRATION_FIELDS": "contactName*,contactEmail*,companyName", "PROMOTED_FIELDS": "companyName",
		"SELLER_NAME": "Example Corp.", "PRODUCT_NAME": "Example", "SUPPORT_CONTACT": "help@example.com",
		"CONTINUE_URL": "https://www.example.com/start", "ALLOWED_ORIGIN": "none",
	}
	env := []string{"AWS_ENDPOINT_URL=" + f.aws.URL, "AWS_ENDPOINT_URL_MARKETPLACE_METERING=" + f.meter.URL}
	read, err := functions.Named(handler)
	fatal(w.t, err)
	for _, v := range read.Variables {
		value, known := values[v.Name]
		if known {
			env = append(env, v.Name+"="+value)
		} else if !v.Reserved {
			w.t.Fatalf("no value for %s of %s", v.Name, handler)
		}
	}
	return env
}

// run invokes a function that a schedule starts, and reads its report.
func (w *world) run(handler, input string, report any) error {
	w.t.Helper()
	answer, err := w.function(handler).Invoke(w.t.Context(), []byte(input))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, report); err != nil {
		w.t.Fatalf("answer of %s, %s: %v", handler, answer, err)
	}
	return nil
}

// connect starts the event source mappings of a function.
func (w *world) connect(handler string, kinds ...string) *lambdahost.Mapping {
	w.t.Helper()
	f := w.function(handler)
	var m *lambdahost.Mapping
	for _, kind := range kinds {
		m = lambdahost.Map(w.t, f.Function, lambdahost.Source{Queue: w.queue(kind), QueueName: path.Base(w.urls[kind]), Idle: 150 * time.Millisecond})
		w.mappings = append(w.mappings, m)
	}
	return m
}

func (w *world) connectAll() {
	w.connect(functions.Aggregator, workQueue, deprovisionQueue)
	w.connect(functions.Cleanup, cleanupQueue)
}

func (w *world) queue(kind string) *sqs.Queue { return sqs.New(w.sqs, w.urls[kind]) }

// dead receives what lies in a dead-letter queue.
func (w *world) dead(kind string) []string {
	w.t.Helper()
	var bodies []string
	q := sqs.New(w.sqs, w.urls[kind]+"-dlq")
	for {
		list, err := q.Receive(w.t.Context(), metering.MaxBatch)
		fatal(w.t, err)
		if len(list) == 0 {
			slices.Sort(bodies)
			return bodies
		}
		for _, d := range list {
			bodies = append(bodies, d.Body)
		}
	}
}

// held is how many messages a queue holds, those under way included.
func (w *world) held(url string) int {
	w.t.Helper()
	out, err := w.sqs.GetQueueAttributes(w.t.Context(), &sqssdk.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []sqstypes.QueueAttributeName{
		sqstypes.QueueAttributeNameApproximateNumberOfMessages, sqstypes.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
	}})
	fatal(w.t, err)
	var waiting, underWay int
	_, err = fmt.Sscan(out.Attributes["ApproximateNumberOfMessages"]+" "+out.Attributes["ApproximateNumberOfMessagesNotVisible"], &waiting, &underWay)
	fatal(w.t, err)
	return waiting + underWay
}

// drained waits until no message is left in any queue. The order matters: while the work queues hold nothing, nobody fills the cleanup queue.
func (w *world) drained() {
	w.t.Helper()
	lambdahost.Drain(w.t, patience, func() string {
		for _, kind := range []string{workQueue, deprovisionQueue, cleanupQueue} {
			if n := w.held(w.urls[kind]); n > 0 {
				return fmt.Sprintf("%s holds %d", kind, n)
			}
		}
		return ""
	}, w.mappings...)
	for _, kind := range []string{workQueue, deprovisionQueue, cleanupQueue} {
		if n := w.held(w.urls[kind] + "-dlq"); n > 0 {
			w.t.Errorf("%d messages of %s are dead letters", n, kind)
		}
	}
}

// reached waits for a signal.
func (w *world) reached(what string, signal <-chan struct{}) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	select {
	case <-signal:
	case <-ctx.Done():
		w.t.Fatalf("did not happen: %s", what)
	}
}

// holdFrom holds the calls that match, from the nth on, until their caller leaves. The channel is closed when the first is held.
func holdFrom(p *standin.Proxy, n int, match func(standin.Call) bool) <-chan struct{} {
	held, never, seen := make(chan struct{}), make(chan struct{}), 0
	p.Intercept(func(c standin.Call) standin.Action {
		if !match(c) {
			return standin.Action{}
		}
		if seen++; seen < n {
			return standin.Action{}
		}
		if seen == n {
			close(held)
		}
		return standin.Action{Hold: never}
	})
	return held
}

// succeeded counts the calls of an operation that were answered well, heard or not.
func succeeded(p *standin.Proxy, operation string) int {
	n := 0
	for _, c := range p.Calls() {
		if c.Operation == operation && c.Status == 200 {
			n++
		}
	}
	return n
}
