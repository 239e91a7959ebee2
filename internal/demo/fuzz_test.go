package demo_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/demo"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/usagefile"
)

// FuzzPlay: whatever a file holds, each of its lines is played or refused; when it has been played to its end, the books balance or name
// the row that they cannot place, nothing that a stage can find still waits, and the Marketplace's books say the same.
func FuzzPlay(f *testing.F) {
	usage := func(license int, dimension, at, quantity, rest string) string {
		return fmt.Sprintf("%s,111122223333,%s,2026-03-31T%s,%s,%s\n", arn(license), dimension, at, quantity, rest)
	}
	f.Add(head+usage(1, "a", "14:00:00", "5", ",,,,,")+usage(1, "a", "14:00:00", "7", ",,,2026-03-31T18:00:00,,")+usage(1, "a#b", "23:59:59", "0", ",,,,,"), uint8(1))
	f.Add(head+usage(1, "a", "14:00:00", "abc", ",,,,,")+usage(1, "a", "14:00:01", "2.5", ",,2026-03-31T19,,,")+usage(1, "a", "14:00:02", "1", ",,soon,,,"), uint8(6))
	f.Add(head+usage(1, "a", "14:30:00", "2147483647", ",,,,,")+usage(1, "a", "14:31:00", "1", ",,,,,")+usage(1, "", "14:00:00", "", ",,,2026-03-31T14:00:00,deprovision,")+usage(2, "a", "14:10:00", "3", ",,,,,"), uint8(1))
	f.Add(head+usage(1, "a", "14:30:00", "3", `"[{""AllocatedUsageQuantity"": 3, ""Tags"": [{""Key"": ""k"", ""Value"": ""v""},{""Key"": ""k"", ""Value"": ""w""}]}]",,,,,`)+usage(1, "b", "14:00:00", "", ",,,2026-03-31T14:00:00,lost-replies,2026-03-31T17:00:00"), uint8(20))
	f.Add(head+"product,111122223333,a,2026-03-31T14:00:00,4,,cust-1,,,,\nproduct-2,111122223333,a,2026-03-31T14:10:00,5,,cust-1,,,,\n"+usage(1, "a", "14:00:00", "6", ",,,,,"), uint8(1))
	f.Add(`{"licenseArn":"`+arn(3)+`","customerAWSAccountId":"1","dimension":"a","timestamp":"0000-01-01T00:00:00","quantity":1}`+"\n", uint8(1))
	f.Fuzz(func(t *testing.T, text string, lock uint8) {
		if len(text) > 4000 || strings.Count(text, "\n") > 12 {
			t.Skip() // more of it takes longer and finds no more
		}
		script, err := demo.Load(usagefile.Read(strings.NewReader(text), usagefile.Options{Extra: demo.Columns()}), nil)
		if err != nil {
			if fault, ok := errors.AsType[*usagefile.FileError](err); !ok || fault.Hint == "" {
				t.Errorf("%#v", err)
			}
			return
		}
		outcome, err := script.Play(context.Background(), demo.Options{LockHours: 1 + int(lock)%20})
		if err != nil {
			if !strings.Contains(err.Error(), "nothing to play") {
				t.Errorf("%v", err)
			}
			return
		}
		sheet, err := outcome.Ledger(context.Background(), ledger.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		var books strings.Builder
		_ = sheet.WriteTable(&books)
		for _, b := range sheet.Report.Imbalances {
			if len(b.Findings) == 0 {
				t.Errorf("nothing is said of what does not balance:\n%s", &books)
			}
		}
		if len(sheet.Report.Imbalances) == 0 && sheet.Report.Total.Written.Units != sheet.Report.Total.Named() || !sheet.Check.Equal() {
			t.Errorf("%s", &books)
		}
		for cause, amount := range sheet.Report.Total.Places {
			if cause.Place == ledger.InFlight && cause.Reason != ledger.Misfiled && amount.Items > 0 && len(sheet.Report.Imbalances) == 0 {
				t.Errorf("something still waits:\n%s", &books)
			}
		}
	})
}
