package functions

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/time/rate"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/lambdaevent"
	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/internal/queue/sqs"
	"github.com/awsmp/metering/internal/registration"
	"github.com/awsmp/metering/internal/store/dynamodb"
)

const (
	// cleanupWrites is the pace of one cleanup: five at once (MaximumConcurrency) write 750 a second, under the 1,000 that a
	// partition takes (Amazon DynamoDB developer guide, partition key design). All rows of a license share a partition, and all
	// rows of an hour share one in the index.
	cleanupWrites = 150
	// discoverWrites is the pace at which one discoverer corrects buckets: the seven shards of age-out run at once.
	discoverWrites = 100
	// burst is what a pacer that has rested lets through at once.
	burst = 8
)

// parts are what stages are built of.
type parts struct {
	Settings
	*clients
	metrics pipeline.Metrics
	log     *slog.Logger
	now     func() time.Time
}

// stage handles one invocation: answer is what AWS gets, report what the log says.
type stage func(ctx context.Context, payload []byte) (answer, report any, err error)

func (p parts) rows(o dynamodb.Options) *dynamodb.Rows {
	return dynamodb.NewRows(p.table(p.Region), p.UsageTable, o)
}

func (p parts) records() *dynamodb.Records {
	return dynamodb.NewRecords(p.table(p.Region), p.AggregatedTable, dynamodb.Options{})
}

func (p parts) subscribers() *dynamodb.Subscribers {
	return dynamodb.NewSubscribers(p.table(cmp.Or(p.SubscribersRegion, p.Region)), p.SubscribersTable)
}

func (p parts) send(url string) *sqs.Queue {
	q := sqs.New(p.queue(), url)
	q.Log = p.log
	return q
}

func discoverer(p parts) stage {
	d := &pipeline.Discoverer{
		Rows:    p.rows(dynamodb.Options{Writes: rate.NewLimiter(discoverWrites, burst)}),
		Records: p.records(), Subscribers: p.subscribers(),
		Work: p.send(p.WorkQueue), Deprovision: p.send(p.DeprovisionQueue), Cleanup: p.send(p.CleanupQueue),
		Metrics: p.metrics, Rules: metering.Rules{LockHours: p.LockHours}, Now: p.now, Log: p.log,
	}
	return func(ctx context.Context, payload []byte) (any, any, error) {
		slice, err := readSlice(payload)
		if err != nil {
			return nil, nil, err
		}
		found, err := d.Run(ctx, slice)
		return found, found, err
	}
}

// readSlice reads the discoverer's constant input. A number that the mode has no use for is a mistake in the template.
func readSlice(payload []byte) (pipeline.Slice, error) {
	s, err := lambdaevent.Constant[pipeline.Slice](payload)
	if err != nil {
		return s, fmt.Errorf("%w; want %s", err, pipeline.WantedSlices())
	}
	known := s.Mode == pipeline.ModeMeter || s.Mode == pipeline.ModeAgeout || s.Mode == pipeline.ModeFlush // of another, the stage says what it wants
	if known && (s.HourOffset != nil && s.Mode != pipeline.ModeMeter || s.Shard != nil && s.Mode != pipeline.ModeAgeout) {
		return s, fmt.Errorf("read slice: hourOffset goes with mode %s alone and shard with mode %s, got %s", pipeline.ModeMeter, pipeline.ModeAgeout, payload)
	}
	return s, nil
}

func aggregator(p parts) stage {
	a := &pipeline.Aggregator{
		Rows: p.rows(dynamodb.Options{}), Records: p.records(), Cleanup: p.send(p.CleanupQueue), Metrics: p.metrics, Now: p.now, Log: p.log,
	}
	return batch(a.Handle)
}

func cleanup(p parts) stage { return batch(newCleaner(p).Handle) }

func newCleaner(p parts) *pipeline.Cleaner {
	return &pipeline.Cleaner{
		Rows: p.rows(dynamodb.Options{}), Metrics: p.metrics, Limiter: rate.NewLimiter(cleanupWrites, burst), Now: p.now, Sleep: awsapi.Sleep, Log: p.log,
	}
}

func submitter(p parts) stage {
	s := &pipeline.Submitter{
		Records: p.records(), Subscribers: p.subscribers(), Metrics: p.metrics,
		MaxRecords: p.MaxRecords, Retention: time.Duration(p.AggregatedDays) * 24 * time.Hour, DryRun: p.dryRun(), Paused: p.Paused,
		Now: p.now, Log: p.log,
	}
	if !p.dryRun() { // what cannot call cannot bill
		s.Marketplace = marketplace.NewSender(p.metering(p.ProductCode), p.pace())
	}
	return scheduled(s.Run)
}

func (p parts) pace() marketplace.Settings {
	return marketplace.Settings{CallsPerSecond: p.CallsPerSecond, Now: p.now}
}

func submissionExpiry(p parts) stage {
	e := &pipeline.Expirer{Records: p.records(), Metrics: p.metrics, Now: p.now, Log: p.log}
	return scheduled(e.Run)
}

func register(p parts) stage {
	return request(&registration.Handler{
		Settings: p.registration(), Customers: p.metering(p.ProductCode),
		Profiles: dynamodb.NewProfiles(p.table(p.Region), p.ProfileTable), Subscribers: p.subscribers(),
		Metrics: p.metrics, Now: p.now, Log: p.log,
	})
}

func subscription(p parts) stage {
	h := &lifecycle.Handler{
		Subscribers: p.subscribers(), Metrics: p.metrics, TestStage: p.TestStage, TestAccounts: p.TestAccounts, Now: p.now, Log: p.log,
	}
	return batch(h.Handle)
}

func deprovisionCleanup(p parts) stage {
	f := &lifecycle.Finalizer{Subscribers: p.subscribers(), Now: p.now, Log: p.log}
	return scheduled(f.Run)
}

// requestReport is how a request was answered.
type requestReport struct {
	Status int `json:"status"`
}

// request is a stage that answers requests of API Gateway.
func request(h http.Handler) stage {
	return func(ctx context.Context, payload []byte) (any, any, error) {
		answer, err := lambdaevent.Serve(ctx, h, payload)
		if err != nil {
			return nil, nil, err
		}
		return answer, requestReport{answer.StatusCode}, nil
	}
}

// scheduled is a stage that a schedule starts with an input that says nothing.
func scheduled[Report any](run func(context.Context) (Report, error)) stage {
	return func(ctx context.Context, payload []byte) (any, any, error) {
		if _, err := lambdaevent.Constant[json.RawMessage](payload); err != nil {
			return nil, nil, err
		}
		report, err := run(ctx)
		return report, report, err
	}
}

// batchReport is what became of a batch.
type batchReport struct {
	Messages int `json:"messages"`
	Failed   int `json:"failed"` // they come again
}

// batch is a stage that handles messages of a queue.
func batch(handle func(context.Context, []pipeline.Message) []string) stage {
	return func(ctx context.Context, payload []byte) (any, any, error) {
		messages, err := lambdaevent.Batch(payload)
		if err != nil {
			return nil, nil, err
		}
		failed := handle(ctx, messages)
		return lambdaevent.Failed(failed), batchReport{len(messages), len(failed)}, nil
	}
}
