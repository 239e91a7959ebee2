package costs

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	dynamosdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	sqssdk "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/functions"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/store/dynamodb"
	"github.com/awsmp/metering/simulator"
)

// began is when the clock of functions begins; it goes on in real time, and a play ends within the hour.
var began = time.Date(2026, 3, 10, 15, 20, 0, 0, time.UTC)

const (
	eventSource = "event source"

	workBatch, cleanupBatch = 10, 5 // messages an invocation

	// A cleanup writes 150 rows a second. On AWS five run at once; here so many that the stand-in sets the pace.
	aggregators, cleaners = 4, 16
)

// plays makes the names of tables and queues unique.
var plays atomic.Int64

// play is one deployment whose functions run in this process, as cmd/bootstrap builds them.
type play struct {
	t       testing.TB
	account *account
	env     map[string]string
	now     func() time.Time
	sim     *simulator.Simulator
	meter   func(stage string) *meter
	client  *http.Client

	dynamo *dynamosdk.Client // counted as the seller's, as rows and records
	store  *dynamodb.Ledger
	urls   map[string]string // of the queues

	closes func(license, account string, expiry time.Time) // marks a license's last hour
}

func newPlay(t testing.TB) *play {
	t.Helper()
	dynalite, fauxqs := standin.Dynalite(t), standin.Fauxqs(t)
	started := time.Now()
	p := &play{t: t, account: newAccount(), urls: map[string]string{}}
	p.now = func() time.Time { return began.Add(time.Since(started)) }
	p.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	t.Cleanup(p.client.CloseIdleConnections)

	var err error
	p.sim, err = simulator.New(simulator.Options{OpenDoors: true, Now: p.now})
	fatal(t, err)
	counted := httptest.NewServer(http.HandlerFunc(p.marketplace))
	t.Cleanup(counted.Close)
	p.meter = func(stage string) *meter {
		return &meter{account: p.account, stage: stage, dynamo: dynalite, sqs: fauxqs, mms: counted.URL, client: p.client}
	}
	p.env = map[string]string{
		"AWS_REGION": standin.Region, "PRODUCT_CODE": simulator.DefaultProductCode, "METERING_MODE": "live",
		"SUBSCRIBERS_TABLE_REGION": standin.Region, "METERING_LOCK_HOURS": "1", "MAX_RECORDS_PER_RUN": "50000",
		"METERING_CALLS_PER_SECOND": "10", "SUBMISSION": "enabled", "USAGE_TTL_DAYS": "365", "AGGREGATED_USAGE_TTL_DAYS": "0",
	}
	p.deploy(dynalite, fauxqs, counted.URL)
	return p
}

// deploy makes the tables and queues, uncounted.
func (p *play) deploy(dynalite, fauxqs, marketplace string) {
	prefix := fmt.Sprintf("awsmp-costs%d-", plays.Add(1))
	plain := dynamosdk.NewFromConfig(standin.Config(dynalite))
	for kind, table := range map[string]struct {
		variable string
		input    func(string) *dynamosdk.CreateTableInput
	}{
		"usage":            {"USAGE_TABLE", dynamodb.UsageTable},
		"aggregated-usage": {"AGGREGATED_USAGE_TABLE", dynamodb.AggregatedUsageTable},
		"subscribers":      {"SUBSCRIBERS_TABLE", dynamodb.SubscribersTable},
	} {
		in := table.input(prefix + kind)
		p.account.tables[prefix+kind], p.env[table.variable] = schemaOf(kind, in), prefix+kind
		fatal(p.t, dynamodb.Create(p.t.Context(), plain, in))
	}
	queues := sqssdk.NewFromConfig(standin.Config(fauxqs))
	for kind, variable := range map[string]string{"work": "WORK_QUEUE_URL", "deprovision-work": "DEPROVISION_WORK_QUEUE_URL", "cleanup": "CLEANUP_QUEUE_URL"} {
		made, err := queues.CreateQueue(p.t.Context(), &sqssdk.CreateQueueInput{QueueName: aws.String(prefix + kind), Attributes: map[string]string{"VisibilityTimeout": "360"}})
		fatal(p.t, err)
		p.account.queues[prefix+kind], p.env[variable], p.urls[kind] = "queue "+kind, *made.QueueUrl, *made.QueueUrl
	}
	p.dynamo = dynamosdk.NewFromConfig(p.config(seller))
	p.store = &dynamodb.Ledger{
		Rows:    dynamodb.NewRows(p.dynamo, p.env["USAGE_TABLE"], dynamodb.Options{}),
		Records: dynamodb.NewRecords(p.dynamo, p.env["AGGREGATED_USAGE_TABLE"], dynamodb.Options{}),
	}
	subscribers := dynamodb.NewSubscribers(plain, p.env["SUBSCRIBERS_TABLE"])
	p.closes = func(license, account string, expiry time.Time) { // the events stack does: it is not counted
		began := expiry.Add(-metering.DeprovisionWindow)
		_, _, err := subscribers.ChangeSubscriber(p.t.Context(), metering.LicenseEvent{License: license, Account: account, At: began}.DeprovisionedAt(began))
		fatal(p.t, err)
	}
}

// config is that of the functions, but for credentials, endpoint and the HTTP client, which counts.
func (p *play) config(stage string) aws.Config {
	p.t.Helper()
	config, err := awsapi.Config(p.t.Context(), standin.Region)
	fatal(p.t, err)
	m, fake := p.meter(stage), standin.Config("")
	config.Credentials, config.BaseEndpoint, config.HTTPClient = fake.Credentials, aws.String(m.mms), m
	return config
}

// marketplace counts the calls of the Metering Service: its client has an HTTP client of its own.
func (p *play) marketplace(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		p.account.problem("read a call of the Marketplace: %v", err)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	p.sim.ServeHTTP(answer, r)
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if answer.Code != http.StatusOK {
		p.account.problem("%s: status %d: %s", operation, answer.Code, answer.Body)
	}
	if err := p.account.book(functions.Submitter, operation, body, answer.Body.Bytes()); err != nil {
		p.account.problem("%s: %v", operation, err)
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// open builds a function as the Lambda binary does.
func (p *play) open(handler string) *functions.Handler {
	p.t.Helper()
	h, err := functions.Open(p.t.Context(), functions.Process{
		Handler: handler, Getenv: func(name string) string { return p.env[name] },
		Config:  func(context.Context, string) (aws.Config, error) { return p.config(handler), nil },
		Metrics: printer{p.account, handler}, Log: printer{p.account, handler}, Now: p.now,
	})
	fatal(p.t, err)
	return h
}

// invoke invokes a function that a schedule starts, and returns its report.
func (p *play) invoke(h *functions.Handler, handler, input string) (report map[string]any) {
	p.t.Helper()
	answer, err := h.Invoke(p.t.Context(), []byte(input))
	fatal(p.t, err)
	p.account.count(Class{handler, "Invoke", "function"}, Tally{Requests: 1})
	fatal(p.t, json.Unmarshal(answer, &report))
	return report
}

// drain is the event source mapping of a function, run until all messages of its queue are done: some functions at once, each
// with full batches.
func (p *play) drain(handler, kind string, messages, batch, parallel int) {
	p.t.Helper()
	queue, at := sqssdk.NewFromConfig(p.config(eventSource)), p.urls[kind]
	batches := make(chan int, messages/batch+1)
	for left := messages; left > 0; left -= batch {
		batches <- min(left, batch)
	}
	close(batches)
	var all sync.WaitGroup
	for range min(parallel, len(batches)) {
		h := p.open(handler)
		all.Go(func() {
			for want := range batches {
				if err := p.deliver(queue, at, h, handler, want); err != nil {
					p.account.problem("%s: %v", handler, err)
					return
				}
			}
		})
	}
	all.Wait()
}

func (p *play) deliver(queue *sqssdk.Client, at string, h *functions.Handler, handler string, want int) error {
	ctx := p.t.Context()
	got, err := queue.ReceiveMessage(ctx, &sqssdk.ReceiveMessageInput{QueueUrl: &at, MaxNumberOfMessages: int32(want)})
	if err != nil {
		return err
	}
	if len(got.Messages) != want {
		return fmt.Errorf("received %d messages, want %d", len(got.Messages), want)
	}
	var event events.SQSEvent
	var done []types.DeleteMessageBatchRequestEntry
	for i, m := range got.Messages {
		sum := md5.Sum([]byte(*m.Body))
		event.Records = append(event.Records, events.SQSMessage{
			MessageId: *m.MessageId, Body: *m.Body, Md5OfBody: hex.EncodeToString(sum[:]), EventSource: "aws:sqs", AWSRegion: standin.Region,
		})
		done = append(done, types.DeleteMessageBatchRequestEntry{Id: aws.String(fmt.Sprint(i)), ReceiptHandle: m.ReceiptHandle})
	}
	payload, err := json.Marshal(event)
	if err != nil {
		return err
	}
	answer, err := h.Invoke(ctx, payload)
	if err != nil {
		return err
	}
	if string(answer) != `{"batchItemFailures":[]}` {
		return fmt.Errorf("messages failed: %s", answer)
	}
	p.account.count(Class{handler, "Invoke", "function"}, Tally{Requests: 1, Entries: want})
	_, err = queue.DeleteMessageBatch(ctx, &sqssdk.DeleteMessageBatchInput{QueueUrl: &at, Entries: done})
	return err
}

// groups are n groups of the last complete hour, of ten licenses as far as there are so many.
func groups(n int, hour metering.Hour) (all []metering.Group) {
	for i := range n {
		all = append(all, metering.Group{
			License: fmt.Sprintf("arn:aws:license-manager::111122223333:license:l-%032d", i%10), Account: "444455556666",
			Dimension: fmt.Sprintf("dimension_%03d", i/10), Hour: hour,
		})
	}
	return all
}

// rowsOf are the rows of a group, spread over its hour.
func rowsOf(g metering.Group, n int) []metering.Row {
	rows := make([]metering.Row, n)
	for i := range rows {
		rows[i] = metering.NewRow(g, g.Hour.Second(i*3600/n), int64(i%50+1))
	}
	return rows
}

func fatal(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
