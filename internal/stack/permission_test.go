package stack_test

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"
	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/stack"
)

// recorder notes the IAM action of every call of the SDK.
type recorder struct {
	mu   sync.Mutex
	seen map[string]bool
}

// config is a configuration whose clients are recorded.
func (r *recorder) config(base func(context.Context, string) (aws.Config, error)) func(context.Context, string) (aws.Config, error) {
	return func(ctx context.Context, region string) (aws.Config, error) {
		cfg, err := base(ctx, region)
		cfg.APIOptions = append(cfg.APIOptions, func(s *middleware.Stack) error {
			return s.Initialize.Add(middleware.InitializeMiddlewareFunc("record", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
				r.note(awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx), in.Parameters)
				return next.HandleInitialize(ctx, in)
			}), middleware.After)
		})
		return cfg, err
	}
}

// note notes an action. What a transaction does is asked of IAM one by one (Amazon DynamoDB developer guide, IAM and transactions).
func (r *recorder) note(service, operation string, in any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	operations := []string{operation}
	if x, is := in.(*dynamodb.TransactWriteItemsInput); is {
		operations = nil
		for _, item := range x.TransactItems {
			switch {
			case item.Update != nil:
				operations = append(operations, "UpdateItem")
			case item.Put != nil:
				operations = append(operations, "PutItem")
			case item.ConditionCheck != nil:
				operations = append(operations, "ConditionCheckItem")
			default:
				operations = append(operations, "DeleteItem")
			}
		}
	}
	for _, o := range operations {
		r.seen[awsapi.Action(service, o)] = true
	}
}

// take is what was called since it was last asked.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.seen = map[string]bool{} }()
	return slices.Sorted(maps.Keys(r.seen))
}

// pagePolicies are the actions of the policies of docs/operations.md.
func pagePolicies(t *testing.T) (all [][]string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## An operator's permissions\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, block := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(section, -1) {
		var policy struct {
			Statement []struct{ Action []string }
		}
		if err := json.Unmarshal([]byte(block[1]), &policy); err != nil {
			t.Fatal(err)
		}
		var actions []string
		for _, s := range policy.Statement {
			actions = append(actions, s.Action...)
		}
		slices.Sort(actions)
		all = append(all, actions)
	}
	return all
}

// permissions: the policies of docs/operations.md are the calls that are made: all of them, and no other.
func permissions(t *testing.T, w *world) {
	policies := pagePolicies(t)
	if len(policies) != 2 {
		t.Fatalf("docs/operations.md has %d policies, want one to look and one to put right", len(policies))
	}
	w.put(t, "work-dlq", "a message")
	now := time.Now().UTC()
	g := metering.Group{License: "arn:aws:license-manager::111122223333:license:l-00000000000000000000000000000001", Account: "444455556666", Dimension: "api_calls", Hour: metering.HourOf(now) - 3}
	row := metering.NewRow(g, g.Hour.Second(5), 7)
	row.Pending, row.Status, row.StatusReason = "", metering.LateUsage, metering.LateReason
	record := metering.NewRecord(g, 3)
	record.Manifest, record.Pending, record.Status = "v1 1 3 9:3", "", metering.Success
	rejected := metering.NewRow(g, g.Hour.Second(6), 7)
	rejected.Pending, rejected.Status, rejected.StatusReason = "", metering.RejectedClientSide, "InvalidLicenseArn"
	for _, err := range []error{w.Rows.PutRow(t.Context(), row), w.Rows.PutRow(t.Context(), rejected), w.Records.PutRecord(t.Context(), record)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r := &recorder{seen: map[string]bool{}}
	s := w.open(t, stack.Options{Config: r.config(w.Config)})
	look(t, s, g)
	if _, err := stack.Open(t.Context(), "awsmp-acne-metering", "", stack.Options{Config: r.config(w.Config)}); err == nil {
		t.Error("a stack that is not there opens")
	}
	if diff := cmp.Diff(policies[0], r.take()); diff != "" {
		t.Errorf("to look (-docs/operations.md +called):\n%s", diff)
	}
	tables := s.Desk().Tables
	carry, o := metering.CarryOf(row, &record, metering.Rules{}, metering.HourOf(now).Second(1), now)
	if o != "" {
		t.Fatal(o)
	}
	if out, err := tables.CarryRow(t.Context(), carry); err != nil || !out.Done {
		t.Errorf("carried: %+v, %v", out, err)
	}
	drop, o := metering.DropOf(rejected, nil, now)
	if o != "" {
		t.Fatal(o)
	}
	if out, err := tables.DropRow(t.Context(), drop); err != nil || !out.Done {
		t.Errorf("dropped: %+v, %v", out, err)
	}
	for _, err := range []error{second(tables.RecallRow(t.Context(), metering.Recall{License: g.License, SortKey: rejected.SortKey})), second(tables.ReopenRecord(t.Context(), metering.Reopen{License: g.License, SortKey: record.SortKey}))} {
		if err != nil {
			t.Error(err)
		}
	}
	if n, err := s.Redrive(t.Context(), "work-dlq", nil); n != 1 || err != nil {
		t.Errorf("moved %d, %v", n, err)
	}
	changes := slices.DeleteFunc(r.take(), func(action string) bool { return slices.Contains(policies[0], action) })
	if diff := cmp.Diff(policies[1], changes); diff != "" {
		t.Errorf("to put right (-docs/operations.md +called):\n%s", diff)
	}
}

// look asks everything that there is to be asked.
func look(t *testing.T, s *stack.Stack, g metering.Group) {
	t.Helper()
	ctx := t.Context()
	var errs []error
	ask := func(err error) { errs = append(errs, err) }
	ask(second(s.Queues(ctx)))
	ask(second(s.Stages(ctx)))
	ask(second(s.Ringing(ctx)))
	ask(second(s.Troubles(ctx)))
	ask(second(s.Counted(ctx, time.Now().Add(-time.Hour), time.Now())))
	ask(second(s.Letters(ctx, "work-dlq", 10)))
	tables := s.Desk().Tables
	ask(second(tables.Accounts(ctx, g.License)))
	ask(second(tables.Subscriber(ctx, g.License, g.Account)))
	ask(second(tables.Deprovisioning(ctx)))
	ask(second(tables.Record(ctx, g)))
	ask(second(tables.Row(ctx, g.License, g.RowKey(g.Hour.Second(5)))))
	ask(last(tables.Licenses(ctx)))
	ask(last(tables.GroupRows(ctx, g)))
	ask(last(tables.LicenseRows(ctx, g.License)))
	ask(last(tables.LicenseRecords(ctx, g.License)))
	ask(last(tables.PendingRows(ctx, g.Hour, "")))
	ask(last(tables.PendingRecords(ctx, g.Hour, "")))
	ask(last(tables.EndedRows(ctx, "", metering.LateUsage)))
	ask(last(tables.EndedRecords(ctx, g.License, metering.CustomerNotSubscribed)))
	for i, err := range errs {
		if err != nil {
			t.Errorf("question %d: %v", i, err)
		}
	}
}

func last[T any](items iter.Seq2[T, error]) (err error) {
	for _, err = range items {
		if err != nil {
			return err
		}
	}
	return nil
}
