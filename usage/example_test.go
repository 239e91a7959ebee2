package usage_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
	"github.com/awsmp/metering/usage"
)

// A seller's service adds what is used as it happens, and closes the writer when it stops.
func ExampleWriter() {
	ctx := context.Background()
	table := openTable()
	w, err := usage.NewWriter(table, usage.Options{Now: afternoon})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 90 { // a request every second
		err := w.Add(ctx, usage.Event{
			License: buyersLicense, Account: "111122223333", Dimension: "api_calls",
			Time: afternoon(), Quantity: 1,
		})
		if err != nil {
			fmt.Println(err)
		}
		tick(time.Second)
	}
	if err := w.Close(ctx); err != nil {
		fmt.Println(err)
	}
	show(table)
	// Output:
	// 2026-03-10T14:05:59 60
	// 2026-03-10T14:06:59 30
}

// A usage that can never be billed is refused at once, with what to do about it.
func ExampleRefusal() {
	ctx := context.Background()
	w, err := usage.NewWriter(openTable(), usage.Options{Now: afternoon})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Close(ctx)
	err = w.Add(ctx, usage.Event{License: buyersLicense, Account: "11122223333", Dimension: "api_calls", Time: afternoon(), Quantity: 1})
	var refusal *usage.Refusal
	if errors.As(err, &refusal) {
		fmt.Println(refusal.Reason)
		fmt.Println(refusal.Hint)
	}
	// Output:
	// InvalidCustomerAWSAccountId
	// Keep account ids as text, so that leading zeros stay.
}

// Allocations split a quantity by tags, so that a buyer sees who used it. They are added up row by row.
func ExampleWriter_Add_allocations() {
	ctx := context.Background()
	table := openTable()
	w, err := usage.NewWriter(table, usage.Options{Now: afternoon})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, team := range []string{"blue", "red", "blue"} {
		err := w.Add(ctx, usage.Event{
			License: buyersLicense, Account: "111122223333", Dimension: "gigabytes", Time: afternoon(), Quantity: 10,
			Allocations: []usage.Allocation{
				{Quantity: 7, Tags: []usage.Tag{{Key: "team", Value: team}}},
				{Quantity: 3}, // nobody's
			},
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	if err := w.Close(ctx); err != nil {
		fmt.Println(err)
	}
	show(table)
	// Output:
	// 2026-03-10T14:05:59 30 = 9 untagged + 14 of blue + 7 of red
}

// A batch is written under an id of its own. When the answer does not come, or the process dies, the same batch is sent again
// and counts once.
func ExampleWriter_WriteBatch() {
	ctx := context.Background()
	table := openTable()
	flaky := &line{Table: table}
	w, err := usage.NewWriter(flaky, usage.Options{Now: afternoon})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Close(ctx)
	batch := []usage.Event{
		{License: buyersLicense, Account: "111122223333", Dimension: "api_calls", Time: afternoon(), Quantity: 5},
		{License: buyersLicense, Account: "111122223333", Dimension: "api_calls", Time: afternoon(), Quantity: 2},
		{License: buyersLicense, Account: "111122223333", Dimension: "api_calls", Time: afternoon(), Quantity: -1},
	}
	flaky.cut(nil, nil, errors.New("connection reset")) // writes arrive, answers do not
	for {
		answers, err := w.WriteBatch(ctx, "queue-7/offset-1200", batch)
		if errors.Is(err, usage.ErrUnknown) {
			fmt.Println("no answer; the same again")
			flaky.cut(nil, nil, nil)
			continue
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		for i, answer := range answers {
			var refusal *usage.Refusal
			if errors.As(answer, &refusal) {
				fmt.Printf("event %d: %s\n", i, refusal.Reason)
			}
		}
		break
	}
	show(table)
	// Output:
	// no answer; the same again
	// event 2: NegativeQuantity
	// 2026-03-10T14:05:59 7
}

// What belongs to an hour that was metered before is not written. It can be booked in the current hour.
func ExampleWriter_Flush_hourCommitted() {
	ctx := context.Background()
	table := openTable()
	meterHour(table, afternoon().Add(-time.Hour))
	w, err := usage.NewWriter(table, usage.Options{Now: afternoon})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Close(ctx)
	forgotten := usage.Event{License: buyersLicense, Account: "111122223333", Dimension: "api_calls", Time: afternoon().Add(-time.Hour), Quantity: 4}
	if err := w.Add(ctx, forgotten); err != nil {
		fmt.Println(err)
	}
	var rows usage.RowErrors
	if errors.As(w.Flush(ctx), &rows) {
		for _, row := range rows {
			if !errors.Is(row, usage.ErrHourCommitted) {
				continue
			}
			fmt.Println("nothing was written for", row.Time.Format("15:04:05"))
			_ = w.Add(ctx, usage.Event{License: row.License, Account: row.Account, Dimension: row.Dimension,
				Time: afternoon(), Quantity: row.Quantity, Allocations: row.Allocations, CustomerIdentifier: row.CustomerIdentifier})
		}
	}
	if err := w.Flush(ctx); err != nil {
		fmt.Println(err)
	}
	show(table)
	// Output:
	// nothing was written for 13:05:59
	// 2026-03-10T14:05:59 4
}

// What was written while its hour was being metered is late. It stands in its row, so it is not booked again.
func ExampleWriter_WriteBatch_late() {
	ctx := context.Background()
	table := openTable()
	// The hour is metered between this writer's look at it and its write.
	racing := &line{Table: table, before: func() { meterHour(table, afternoon()) }}
	w, err := usage.NewWriter(racing, usage.Options{Now: afternoon})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Close(ctx)
	answers, err := w.WriteBatch(ctx, "request 17", []usage.Event{
		{License: buyersLicense, Account: "111122223333", Dimension: "api_calls", Time: afternoon(), Quantity: 4},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if errors.Is(answers[0], usage.ErrLate) {
		fmt.Println("late: not to be booked again")
	}
	show(table)
	// Output:
	// late: not to be booked again
	// 2026-03-10T14:05:59 4
}

// What Close could not settle in time is kept, and sent again by the next process.
func ExampleWriter_Resend() {
	table := openTable()
	broken := &line{Table: table, answers: errors.New("connection reset")}
	w, err := usage.NewWriter(broken, usage.Options{Now: afternoon})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_ = w.Add(ctx, usage.Event{License: buyersLicense, Account: "111122223333", Dimension: "api_calls", Time: afternoon(), Quantity: 4})
	var rows usage.RowErrors
	var kept []usage.Row // as JSON in a file, for instance
	if errors.As(w.Close(ctx), &rows) {
		for _, row := range rows {
			if errors.Is(row, usage.ErrUnknown) {
				kept = append(kept, row.Row)
			}
		}
	}
	fmt.Println(len(kept), "row is unknown")

	next, err := usage.NewWriter(table, usage.Options{Now: afternoon})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer next.Close(context.Background())
	if err := next.Resend(context.Background(), kept); err != nil {
		fmt.Println(err)
	}
	show(table)
	// Output:
	// 1 row is unknown
	// 2026-03-10T14:05:59 4
}

const buyersLicense = "arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef"

// openTable stands for the store that a program writes to.
func openTable() *memory.Store {
	passed = 0
	return memory.New(memory.Options{})
}

// passed is how far the examples' clock has come; they run one after another.
var passed time.Duration

func tick(d time.Duration) { passed += d }

func afternoon() time.Time { return time.Date(2026, 3, 10, 14, 5, 0, 0, time.UTC).Add(passed) }

func meterHour(table *memory.Store, t time.Time) {
	g := metering.Group{License: buyersLicense, Account: "111122223333", Dimension: "api_calls", Hour: metering.HourOf(t)}
	if _, err := table.CreateRecord(context.Background(), metering.NewRecord(g, 0)); err != nil {
		fmt.Println(err)
	}
}

func show(table *memory.Store) {
	for row, err := range table.LicenseRows(context.Background(), buyersLicense) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(row.Timestamp, " ", row.Quantity.N)
		for i, a := range row.Allocations {
			sign := " +"
			if i == 0 {
				sign = " ="
			}
			if len(a.Tags) == 0 {
				fmt.Print(sign, " ", a.Quantity, " untagged")
			} else {
				fmt.Print(sign, " ", a.Quantity, " of ", a.Tags[0].Value)
			}
		}
		fmt.Println()
	}
}
