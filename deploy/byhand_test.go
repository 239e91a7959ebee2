package deploy_test

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/standin"
	store "github.com/awsmp/metering/internal/store/dynamodb"
)

// byHand runs the one command of the runbook that writes to a table, with other keys than its examples, as a person would who pastes it.
func byHand(t *testing.T, c cloud, table, license, key, hour string) error {
	t.Helper()
	text := runbookText(t)
	from := strings.Index(text, "aws dynamodb update-item --table-name $M-"+table)
	end := strings.Index(text[max(from, 0):], "}}'\n"+map[string]string{"usage": "\n", "aggregated-usage": "```"}[table])
	if from < 0 || end < 0 {
		t.Fatalf("the runbook writes to no table %s", table)
	}
	command := text[from : from+end+len("}}'")]
	example := regexp.MustCompile(`111122223333#api_calls#[0-9T:-]+`).FindString(command)
	command = strings.NewReplacer("LICENSE", license, example, key, "2026-03-10T14", hour, "aws dynamodb", "aws dynamodb --endpoint-url "+c.endpoint).Replace(command)
	cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
	cmd.Env = append(os.Environ(), "M="+motoProduct(t), "AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY=invented", "AWS_DEFAULT_REGION="+standin.Region, "AWS_REGION="+standin.Region,
		"AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null", "AWS_EC2_METADATA_DISABLED=true", "AWS_PAGER=", "NO_PROXY=localhost", "no_proxy=localhost")
	out, err := cmd.CombinedOutput()
	if err != nil && strings.Contains(string(out), "ConditionalCheckFailedException") {
		return errRefused
	}
	if err != nil {
		t.Fatalf("%s\n%v\n%s", command, err, out)
	}
	return nil
}

var errRefused = errors.New("the condition does not hold")

func motoProduct(t *testing.T) string {
	first, _, _ := strings.Cut(t.Name(), "/")
	return "awsmp-" + strings.ToLower(first)
}

// TestRecordsWaitAgainByHand: the command that the runbook gives does what `awsmp refused retry` does, and to no record that may be billed.
func TestRecordsWaitAgainByHand(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	client := dynamodb.NewFromConfig(standin.Config(c.endpoint))
	table := motoProduct(t) + "-aggregated-usage"
	if err := store.Create(t.Context(), client, store.AggregatedUsageTable(table)); err != nil {
		t.Fatal(err)
	}
	const arn = "arn:aws:license-manager::111122223333:license:l-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	now := time.Date(2026, 3, 10, 16, 0, 0, 0, time.UTC)
	ended := func(s metering.Status, reason string) func(*metering.Record) {
		return func(r *metering.Record) {
			r.Pending, r.Status, r.StatusReason, r.SentQuantity, r.SentSecond, r.MeteringRecordID = "", s, reason, metering.Units(7), "2026-03-10T14:00:00", "an-id"
		}
	}
	for name, change := range map[string]func(*metering.Record){
		"not subscribed":        ended(metering.CustomerNotSubscribed, ""),
		"dimension not defined": ended(metering.RejectedClientSide, metering.ExceptionDimension),
		"license not active":    ended(metering.RejectedClientSide, metering.ExceptionLicense),
		"before the license":    ended(metering.RejectedClientSide, metering.ExceptionTimestamp),
		"billed":                ended(metering.Success, ""),
		"billed in part": func(r *metering.Record) {
			ended(metering.CustomerNotSubscribed, "")(r)
			r.BilledQuantity = metering.Units(5)
		},
		"hour taken":       ended(metering.DuplicateRecord, ""),
		"in doubt":         ended(metering.SubmissionExpired, metering.VerdictUnknown),
		"a tag refused":    ended(metering.RejectedClientSide, metering.ExceptionTag),
		"second of a sale": ended(metering.RejectedClientSide, string(metering.MixedIdentitySchemes)),
		"by identifier": func(r *metering.Record) {
			ended(metering.CustomerNotSubscribed, "")(r)
			r.License, r.CustomerIdentifier = "legacy", "cust"
		},
		"waiting, sent": func(r *metering.Record) { r.SentQuantity, r.SentSecond = metering.Units(7), "2026-03-10T14:00:00" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			records := store.NewRecords(client, table, store.Options{})
			hour, err := metering.ParseHour("2026-03-10T14")
			if err != nil {
				t.Fatal(err)
			}
			g := metering.Group{License: arn, Account: "111122223333", Dimension: "for " + name, Hour: hour}
			before := metering.NewRecord(g, 7)
			change(&before)
			g.License = before.License
			if out, err := records.CreateRecord(t.Context(), before.Stamped(now)); err != nil || !out.Done {
				t.Fatal(out, err)
			}
			stored, err := records.Record(t.Context(), g)
			if err != nil {
				t.Fatal(err)
			}
			want, refused := *stored, error(errRefused)
			if reopen, obstacle := metering.ReopenOf(*stored, metering.Rules{}, now); obstacle == "" {
				want, refused = reopen.Apply(*stored), nil
				delete(want.Other, metering.AttrReopened) // the trace, which a hand leaves out
			}
			if err := byHand(t, c, "aggregated-usage", g.License, g.RecordKey(), "2026-03-10T14"); !errors.Is(err, refused) {
				t.Errorf("the command ends with %v, the rule says %v", err, refused)
			}
			got, err := records.Record(t.Context(), g)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.Item(), got.Item()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestRowsAreMendedByHand: the command that the runbook gives brings a rejected group back whole, and leaves a row alone that is billed.
func TestRowsAreMendedByHand(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	client := dynamodb.NewFromConfig(standin.Config(c.endpoint))
	table := motoProduct(t) + "-usage"
	if err := store.Create(t.Context(), client, store.UsageTable(table)); err != nil {
		t.Fatal(err)
	}
	rows := store.NewRows(client, table, store.Options{})
	hour, err := metering.ParseHour("2026-03-10T14")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 10, 16, 0, 0, 0, time.UTC)
	g := metering.Group{License: "arn:aws:license-manager::111122223333:license:l-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", Account: "111122223333", Dimension: "api_calls", Hour: hour}
	for second, status := range []metering.Status{metering.RejectedClientSide, metering.RejectedClientSide, metering.Aggregated} {
		row := metering.NewRow(g, hour.Second(second), 10)
		if row.Pending, row.Status = "", status; second == 1 {
			row.Quantity, row.Other = metering.Quantity{}, metering.Item{metering.AttrQuantity: "2.5"}
		}
		if err := rows.PutRow(t.Context(), row); err != nil {
			t.Fatal(err)
		}
	}
	if err := byHand(t, c, "usage", g.License, g.RowKey(hour.Second(1)), "2026-03-10T14"); err != nil {
		t.Error(err)
	}
	if err := byHand(t, c, "usage", g.License, g.RowKey(hour.Second(2)), "2026-03-10T14"); !errors.Is(err, errRefused) {
		t.Errorf("a billed row: %v", err)
	}
	fold := metering.NewFold(g, now)
	for row, err := range rows.GroupRows(t.Context(), g) {
		if err != nil {
			t.Fatal(err)
		}
		fold.Add(row)
	}
	if record, reason := fold.Record(); fold.Pending() != 1 || reason != "" || record.Quantity.N != 13 { // 10, and 3 in the place of what was wrong
		t.Errorf("%d wait, %q, %d units", fold.Pending(), reason, record.Quantity.N)
	}
}
