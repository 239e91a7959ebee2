package desk_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/metering"
)

func TestLettersAreReadInWords(t *testing.T) {
	t.Parallel()
	g := groupIn(apiCalls, "2026-03-10T14")
	row := waiting(apiCalls, "2026-03-10T14:00:00", 5)
	for name, tt := range map[string]struct {
		body string
		want desk.Reading
	}{
		"work": {metering.Encode(metering.NewWorkMessage(g, false)), desk.Reading{
			Kind: desk.LetterWork, License: driveLicense, Account: driveAccount, Dimension: apiCalls, Hour: "2026-03-10T14",
			Words: "sum api_calls of account 111122223333 in hour 2026-03-10T14, license l-aaaa…aaaa",
		}},
		"a last hour": {metering.Encode(metering.NewWorkMessage(g, true)), desk.Reading{
			Kind: desk.LetterWork, License: driveLicense, Account: driveAccount, Dimension: apiCalls, Hour: "2026-03-10T14",
			Words: "sum api_calls of account 111122223333 in hour 2026-03-10T14, license l-aaaa…aaaa, which is in its last hour",
		}},
		"labels": {metering.Encode(metering.CleanupMessage{
			License: driveLicense, Status: metering.LateUsage, Reason: metering.LateReason, Rows: []metering.CleanupRow{metering.NewCleanupRow(row), metering.NewCleanupRow(row)},
		}), desk.Reading{
			Kind: desk.LetterCleanup, License: driveLicense, Account: driveAccount, Dimension: apiCalls, Hour: "2026-03-10T14", Status: metering.LateUsage, Reason: metering.LateReason,
			Rows: 2, Units: 10,
			Words: "label 2 rows, 10 units, as LateUsage (Arrived after its hour was committed) in hour 2026-03-10T14 of api_calls, account 111122223333, license l-aaaa…aaaa",
		}},
		"an event of a license": {
			`{"source":"aws.agreement-marketplace","detail-type":"License Deprovisioned - Manufacturer","time":"2026-03-10T14:00:00Z","detail":{"license":{"arn":"` + driveLicense + `"},"acceptor":{"accountId":"111122223333"},"agreement":{"id":"agmt-1"}}}`,
			desk.Reading{
				Kind: desk.LetterEvent, License: driveLicense, Account: driveAccount, Event: "License Deprovisioned - Manufacturer", At: "2026-03-10T14:00:00Z", Agreement: "agmt-1",
				Words: "License Deprovisioned - Manufacturer at 2026-03-10T14:00:00Z, license l-aaaa…aaaa, account 111122223333, agreement agmt-1",
			},
		},
		"an event of odd types": {`{"detail-type":"X","detail":{"license":{"arn":7}}}`, desk.Reading{Kind: desk.LetterEvent, Event: "X", Words: "X"}},
		"no JSON":               {"\x1b[31m", desk.Reading{Kind: desk.LetterUnread, Problem: "it is no JSON object", Words: "cannot be read: it is no JSON object"}},
		"something else": {`{"a":1}`, desk.Reading{
			Kind: desk.LetterUnread, Problem: "it is neither a group to be summed, nor labels, nor an event",
			Words: "cannot be read: it is neither a group to be summed, nor labels, nor an event",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.want.Letter = desk.Letter{ID: "1", Queue: "work-dlq", Body: tt.body}
			if diff := cmp.Diff(tt.want, tt.want.Read()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A letter of any bytes is read without a control character in its words.
func FuzzLettersAreReadInPrint(f *testing.F) {
	f.Add(`{"detail-type":"a` + "\u001b" + `[31m"}`)
	f.Add(metering.Encode(metering.NewWorkMessage(groupIn(apiCalls, "2026-03-10T14"), true)))
	f.Add(`{"rows":[{"k":"x"}],"licenseArn":"\n"}`)
	f.Fuzz(func(t *testing.T, body string) {
		r := desk.Letter{Body: body}.Read()
		if r.Words == "" || strings.ContainsFunc(r.Words, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			t.Errorf("%q is read as %q", body, r.Words)
		}
	})
}

// shelfPlant has queues whose letters can be redriven until it is stopped.
type shelfPlant struct {
	desk.Plant
	letters map[string]int
	stop    int // fails after so many; below 0 never
}

func (p *shelfPlant) Queues(context.Context) ([]desk.Queue, error) {
	return []desk.Queue{{Name: "work", Visible: 9}, {Name: "work-dlq", Dead: true, Visible: p.letters["work-dlq"]}, {Name: "cleanup-dlq", Dead: true}}, nil
}

func (p *shelfPlant) Redrive(_ context.Context, queue string, moved func(int)) (n int, err error) {
	for p.letters[queue] > 0 {
		if n == p.stop {
			return n, errDead
		}
		p.letters[queue]--
		n++
		moved(n)
	}
	return n, nil
}

func TestRedriveTellsWhatStays(t *testing.T) {
	t.Parallel()
	p := &shelfPlant{letters: map[string]int{"work-dlq": 3}, stop: 2}
	d := &desk.Desk{Plant: p, ProductCode: "a-product"}
	for _, name := range []string{"work", "work-dlq", "awsmp-a-product-work-dlq", "awsmp-work-dlq"} {
		if q, err := d.DeadQueue(t.Context(), name); err != nil || q.Name != "work-dlq" {
			t.Errorf("%s: %+v, %v", name, q, err)
		}
	}
	var unknown *desk.UnknownQueueError
	if _, err := d.DeadQueue(t.Context(), "wrok"); !errors.As(err, &unknown) || err.Error() != `there is no dead-letter queue "wrok"; there are work-dlq, cleanup-dlq` {
		t.Errorf("%v", err)
	}
	told := 0
	done, err := d.Redrive(t.Context(), desk.Queue{Name: "work-dlq", Visible: 3}, func(n int) { told = n })
	if !errors.Is(err, errDead) || done.Moved != 2 || told != 2 {
		t.Errorf("%+v, %v", done, err)
	}
	p.stop = -1
	if done, err = d.Redrive(t.Context(), desk.Queue{Name: "work-dlq", Visible: 3}, func(int) {}); err != nil || done.Moved != 1 || done.Stay != 0 {
		t.Errorf("%+v, %v", done, err)
	}
	if _, err = (&desk.Desk{}).DeadQueues(t.Context()); !errors.Is(err, desk.ErrNoPlant) {
		t.Errorf("%v", err)
	}
}
