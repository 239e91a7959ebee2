package demo_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/awsmp/metering/internal/demo"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/usagefile"
)

const head = "licenseArn,customerAWSAccountId,dimension,timestamp,quantity,usageAllocations,customerIdentifier,meteringPending,writtenAt,event,until\n"

func arn(n int) string {
	return fmt.Sprintf("arn:aws:license-manager::111122223333:license:l-%032x", n)
}

func load(t interface{ Fatal(...any) }, text string) *demo.Script {
	script, err := demo.Load(usagefile.Read(strings.NewReader(text), usagefile.Options{Extra: demo.Columns()}), nil)
	if err != nil {
		t.Fatal(err)
	}
	return script
}

// play plays a text and returns its story and its books.
func play(t interface{ Fatal(...any) }, text string, lock int) (story []string, sheet ledger.Sheet) {
	outcome, err := load(t, text).Play(context.Background(), demo.Options{LockHours: lock, Tell: func(at time.Time, line string) {
		story = append(story, at.Format("2006-01-02 15:04 ")+line)
	}})
	if err != nil {
		t.Fatal(err)
	}
	sheet, err = outcome.Ledger(context.Background(), ledger.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	return story, sheet
}

// Whatever a file holds, every unit ends in one place, nothing stays in flight, and our books and the Marketplace's agree or
// their difference has its name.
func TestEveryFileBalances(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := time.Date(2026, 3, 31, rapid.SampledFrom([]int{0, 4, 16, 20, 23}).Draw(t, "start"), 0, 0, 0, time.UTC)
		at := func(label string) string {
			minutes := rapid.IntRange(0, 8*60).Draw(t, label)
			return base.Add(time.Duration(minutes) * time.Minute).Format("2006-01-02T15:04:05")
		}
		later := func(label, from string) string {
			start, _ := time.Parse("2006-01-02T15:04:05", from)
			return start.Add(time.Duration(rapid.IntRange(1, 300).Draw(t, label)) * time.Minute).Format("2006-01-02T15:04:05")
		}
		var text strings.Builder
		text.WriteString(head)
		for range rapid.IntRange(1, 25).Draw(t, "rows") {
			license, ts := rapid.IntRange(0, 3).Draw(t, "license"), at("timestamp")
			name, account, identifier, written, pending := arn(license), fmt.Sprint(111122223333+license), "", "", ""
			if license == 0 {
				name, identifier = "legacy-product", "cust-1"
			}
			if rapid.IntRange(0, 3).Draw(t, "late") == 0 {
				written = later("writtenAt", ts)
			}
			if rapid.IntRange(0, 7).Draw(t, "misfiled") == 0 {
				pending = at("bucket")[:13] // anywhere in the play
			}
			quantity := rapid.SampledFrom([]string{"0", "1", "5", "70", "2147483647", "2.5", "abc", "-3", "", "1e30"}).Draw(t, "quantity")
			fmt.Fprintf(&text, "%s,%s,%s,%s,%s,,%s,%s,%s,,\n", name, account, rapid.SampledFrom([]string{"a", "a#b"}).Draw(t, "dimension"), ts, quantity, identifier, pending, written)
		}
		for range rapid.IntRange(0, 3).Draw(t, "events") {
			from := at("from")
			until, license := later("until", from), rapid.IntRange(1, 3).Draw(t, "of")
			event := rapid.SampledFrom(demo.Events()).Draw(t, "event")
			fmt.Fprintf(&text, "%s,%d,a,,,,,,%s,%s,%s\n", arn(license), 111122223333+license, from, event, until)
		}
		story, sheet := play(t, text.String(), rapid.SampledFrom([]int{1, 2, 6, 20}).Draw(t, "lock"))
		if inFlight := sheet.Report.Total.Place(ledger.InFlight); !sheet.Sound() || inFlight.Items > 0 {
			var books strings.Builder
			_ = sheet.WriteTable(&books)
			t.Fatalf("%s\n%s\n%s", text.String(), strings.Join(story, "\n"), books.String())
		}
	})
}

// Years without usage cost nothing, and nothing that waits is passed over.
func TestPlayJumpsOverSilence(t *testing.T) {
	t.Parallel()
	text := head + arn(1) + ",111122223333,a,1999-03-10T10:00:00,1,,,,,,\n" +
		arn(1) + ",111122223333,a,2010-05-10T10:00:00,2,,,,2010-05-01T09:00:00,,\n" + // stamped nine days ahead
		arn(1) + ",111122223333,a,2026-03-10T10:00:00,4,,,,,,\n"
	story, sheet := play(t, text, 1)
	want := []string{"1999-03-10 11:08 1 call: 1 record billed (1 unit)", "2010-05-10 11:08 1 call: 1 record billed (2 units)", "2026-03-10 11:08 1 call: 1 record billed (4 units)"}
	story = slices.DeleteFunc(story, func(s string) bool { return !strings.Contains(s, "billed") })
	if !slices.Equal(story, want) || !sheet.Sound() {
		t.Errorf("%q", story)
	}
}

// An hour of a month's last day is looked after until 06:00 on the 1st, longer than any other.
func TestPlayOutlastsTheLongestHour(t *testing.T) {
	t.Parallel()
	for _, hour := range []string{"00", "02", "05", "14"} {
		story, sheet := play(t, head+arn(1)+",111122223333,a,2026-03-31T"+hour+":00:00,0,,,,,,\n", 1)
		if a := sheet.Report.Total.Place(ledger.InFlight); a.Items > 0 || !sheet.Sound() {
			t.Errorf("the zero of %s:00 waits\n%s", hour, strings.Join(story, "\n"))
		}
	}
}

func TestPlayStopsWhenAsked(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := load(t, head+arn(1)+",111122223333,a,2026-03-10T10:00:00,1,,,,,,\n").Play(ctx, demo.Options{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// A row that no table can hold is refused when it is written, by its line.
func TestPlayRefusesRowsTooLarge(t *testing.T) {
	t.Parallel()
	script := load(t, head+arn(1)+",111122223333,"+strings.Repeat("d", 500_000)+",2026-03-10T10:00:00,1,,,,,,\n"+
		arn(1)+",111122223333,a,2026-03-10T10:00:00,1,,,,,,\n")
	if _, err := script.Play(context.Background(), demo.Options{}); err != nil {
		t.Fatal(err)
	}
	if script.Rows != 1 || len(script.Refused) != 1 || script.Refused[0].Line != 2 || !strings.Contains(script.Refused[0].Reason, "400 KB") {
		t.Errorf("%d rows, refused %v", script.Rows, script.Refused)
	}
}
