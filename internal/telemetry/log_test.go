package telemetry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/internal/telemetry"
)

const (
	license = "arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef"
	account = "444455556666"
)

func TestMask(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, want string }{
		"a license":                 {"read " + license + ": timeout", "read …cdef: timeout"},
		"a license in a list":       {"[" + license + ", " + license + ".]", "[…cdef, …cdef.]"},
		"the form of events":        {strings.TrimPrefix(license, "arn:"), "…cdef"},
		"a license in China":        {strings.Replace(license, "aws", "aws-cn", 1), "…cdef"},
		"a license's id alone":      {"license l-0123456789abcdef0123456789abcdef!", "license …cdef!"},
		"an account":                {"account " + account, "account …6666"},
		"accounts side by side":     {account + " 111122223333", "…6666 …3333"},
		"an account in an address":  {"https://sqs.us-east-1.amazonaws.com/111122223333/awsmp-prod-1-work", "https://sqs.us-east-1.amazonaws.com/…3333/awsmp-prod-1-work"},
		"an account, percent coded": {"arn%3Aaws%3Asqs%3Aus-east-1%3A111122223333%3Aq", "arn%3Aaws%3Asqs%3Aus-east-1%3A…3333%3Aq"},
		"a table's ARN":             {"arn:aws:dynamodb:us-east-1:111122223333:table/awsmp-prod-1-usage", "arn:aws:dynamodb:us-east-1:…3333:table/awsmp-prod-1-usage"},
		"a row's key":               {account + "#api_calls#2026-03-10T14:00:00", "…6666#api_calls#2026-03-10T14:00:00"},
		"a record's key":            {"key=" + account + "#api#calls#2026-03-10T14", "key=…6666#api#calls#2026-03-10T14"},
		"a key without an account":  {"row buyer-seventeen#api_calls#2026-03-10T14:00:00 is late", "row …teen#api_calls#2026-03-10T14:00:00 is late"},
		"a key with a short name":   {"(joe#api calls#2026-03-10T14)", "(…#api calls#2026-03-10T14)"},
		"a message body":            {`{"customerIdentifier":"ifAPi5AcF3xY","licenseArn": "legacy-key-17"}`, `{"customerIdentifier":"…F3xY","licenseArn": "…y-17"}`},
		"a quoted message body":     {`"{\"customerIdentifier\":\"ifAPi5AcF3xY\"}"`, `"{\"customerIdentifier\":\"…F3xY\"}"`},
		"a form":                    {"x-amzn-marketplace-token=a%2Bbcdefghij%3D&name=x", "x-amzn-marketplace-token=…j%3D&name=x"},
		"a value AWS refused": {
			"ValidationException: 1 validation error detected: Value 'ifAPi5 AcF3xY' at 'usageRecords.1.member.customerIdentifier' failed to satisfy constraint",
			"ValidationException: 1 validation error detected: Value '…F3xY' at 'usageRecords.1.member.customerIdentifier' failed to satisfy constraint",
		},
		"a request's id":                {"reference=c6af9ac6-7b61-11e6-9a41-938812345678 " + account, "reference=c6af9ac6-7b61-11e6-9a41-938812345678 …6666"},
		"a request's id, all digits":    {`id "12345678-1234-1234-1234-123456789012"`, `id "12345678-1234-1234-1234-123456789012"`},
		"an account behind a dash":      {"awsmp-7b61-11e6-9a41-" + account, "awsmp-7b61-11e6-9a41-…6666"},
		"an account, one group short":   {"c6af9ac6-7b61-11e6-" + account, "c6af9ac6-7b61-11e6-…6666"},
		"an account before a UUID":      {account + "-c6af9ac6-7b61-11e6-9a41-938812345678", "…6666-c6af9ac6-7b61-11e6-9a41-938812345678"},
		"an account glued to a UUID":    {account + "c6af9ac6-7b61-11e6-9a41-938812345678", "…6666c6af9ac6-7b61-11e6-9a41-…5678"},
		"a UUID as somebody's name":     {"customerIdentifier=c6af9ac6-7b61-11e6-9a41-938812345678", "customerIdentifier=…5678"},
		"other numbers stay":            {"2147483647 units, 1773156000123 ms, 2026-03-10T14:00:00Z", "2147483647 units, 1773156000123 ms, 2026-03-10T14:00:00Z"},
		"other words about tokens stay": {"ExpiredTokenException: The security token included in the request is expired", "ExpiredTokenException: The security token included in the request is expired"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := telemetry.Mask(tt.text)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("masked (-want +got):\n%s", diff)
			}
			if again := telemetry.Mask(got); again != got {
				t.Errorf("masked twice it is %s", again)
			}
		})
	}
}

// Whatever a request's id and an account are, and wherever they stand side by side: the one is all there, the other is not.
func TestMaskTellsRequestsFromAccounts(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 10))
	some := func(letters string, n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = letters[random.IntN(len(letters))]
		}
		return string(b)
	}
	const digits, hex, mixed = "0123456789", "0123456789abcdef", "0123456789ABCDEFabcdef"
	for range 200 {
		letters := []string{digits, hex, mixed}[random.IntN(3)]
		request := fmt.Sprintf("%s-%s-%s-%s-%s", some(letters, 8), some(letters, 4), some(letters, 4), some(letters, 4), some([]string{digits, hex}[random.IntN(2)], 12))
		account := some(digits, 12)
		for _, form := range []string{
			"reference=%[1]s account %[2]s", `"request %[1]s" of arn:aws:sqs:us-east-1:%[2]s:awsmp-work`, "arn:aws:sqs:us-east-1:%[2]s:%[1]s",
			"%[2]s#api_calls#2026-03-10T14:00:00 (%[1]s)", "https://sqs.us-east-1.amazonaws.com/%[2]s/%[1]s", "arn%%3Aaws%%3Asqs%%3Aus-east-1%%3A%[2]s%%3Aq %[1]s",
			"%[2]s,%[1]s,%[2]s", "%[1]s:%[2]s", "[%[1]s %[1]s]%[2]s",
		} {
			text := fmt.Sprintf(form, request, account)
			got := telemetry.Mask(text)
			if want := fmt.Sprintf(form, request, metering.Masked(account)); got != want {
				t.Fatalf("%s\nis masked as %s", text, got)
			}
			if again := telemetry.Mask(got); again != got {
				t.Fatalf("masked twice it is %s", again)
			}
		}
	}
}

func TestLogMasksByName(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := telemetry.NewLog(&out, slog.LevelInfo).With("customerIdentifier", "ifAPi5AcF3xY")
	log.Debug("not at this level")
	log.WithGroup("buyer").Info("buyer of "+license,
		"license", "legacy key 17", "Account", 98765432101, "token", errors.New("opaque token"), "account", metering.Masked(account), "licenseArn", "", "quantity", 98765432101)
	got := out.String()
	_, rest, _ := strings.Cut(got, " ")
	want := `level=INFO msg="buyer of …cdef" customerIdentifier=…F3xY buyer.license="…y 17" buyer.Account=…2101 buyer.token=…oken buyer.account=…6666 buyer.licenseArn="" buyer.quantity=98765432101` + "\n"
	if diff := cmp.Diff(want, rest); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
}

func TestLogSaysUTC(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	h := telemetry.NewLog(&out, slog.LevelInfo).Handler()
	r := slog.NewRecord(time.Date(2026, 3, 10, 16, 20, 0, 0, time.FixedZone("elsewhere", 3600)), slog.LevelInfo, "m", 0)
	if err := h.Handle(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if want := "time=2026-03-10T15:20:00.000Z level=INFO msg=m\n"; out.String() != want {
		t.Errorf("line %q, want %q", out.String(), want)
	}
}

// deniedRecords answers as DynamoDB does to a role without permission.
type deniedRecords struct{ pipeline.Records }

func (deniedRecords) Record(context.Context, metering.Group) (*metering.Record, error) {
	return nil, awsapi.Wrap("read record", "awsmp-prod-1-aggregated-usage", &smithy.OperationError{ServiceID: "DynamoDB", OperationName: "GetItem", Err: &smithy.GenericAPIError{
		Code: "AccessDeniedException",
		Message: "User: arn:aws:sts::111122223333:assumed-role/awsmp-aggregator/f is not authorized to perform: dynamodb:GetItem on resource: " +
			"arn:aws:dynamodb:us-east-1:111122223333:table/awsmp-prod-1-aggregated-usage",
	}})
}

// What the stages really log carries no identifier.
func TestLogOfTheStages(t *testing.T) {
	t.Parallel()
	group := metering.Group{License: license, Account: account, Dimension: "api_calls"}
	for name, tt := range map[string]struct {
		run  func(log *slog.Logger)
		want string
	}{
		"a cleanup message without a quantity": {
			func(log *slog.Logger) {
				body := metering.Encode(metering.CleanupMessage{License: license, Covered: true, Status: metering.Aggregated,
					Rows: []metering.CleanupRow{{Key: account + "#api_calls#2026-03-10T14:00:00"}}})
				(&pipeline.Cleaner{Log: log}).Handle(t.Context(), []pipeline.Message{{ID: "m1", Body: body}})
			},
			`level=ERROR msg="cleanup failed; its message will be delivered again" message=m1 error="read cleanup message: row …6666#api_calls#2026-03-10T14:00:00 is covered without a quantity"`,
		},
		"a visit that is not allowed": {
			func(log *slog.Logger) {
				a := &pipeline.Aggregator{Records: deniedRecords{}, Log: log}
				a.Handle(t.Context(), []pipeline.Message{{ID: "m1", Body: metering.Encode(metering.NewWorkMessage(group, false))}})
			},
			`level=ERROR msg="visit of a group failed; its message will be delivered again" message=m1 error="read record: read record (awsmp-prod-1-aggregated-usage): ` +
				`User: arn:aws:sts::…3333:assumed-role/awsmp-aggregator/f is not authorized to perform: dynamodb:GetItem on resource: ` +
				`arn:aws:dynamodb:us-east-1:…3333:table/awsmp-prod-1-aggregated-usage (AccessDeniedException). ` +
				`Try: allow the caller's role the IAM action dynamodb:GetItem on awsmp-prod-1-aggregated-usage, and on its key where it has one of its own"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			tt.run(telemetry.NewLog(&out, slog.LevelInfo))
			_, got, _ := strings.Cut(strings.TrimSuffix(out.String(), "\n"), " ")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("line (-want +got):\n%s", diff)
			}
		})
	}
}
