package desk_test

import (
	"context"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
)

// counter is a plant of which nothing is known but its metrics.
type counter struct {
	desk.Plant
	counts []desk.Count
}

func (counter) Queues(context.Context) ([]desk.Queue, error)     { return nil, nil }
func (counter) Stages(context.Context) ([]desk.Stage, error)     { return nil, nil }
func (counter) Ringing(context.Context) ([]desk.Alarm, error)    { return nil, nil }
func (counter) Troubles(context.Context) ([]desk.Finding, error) { return nil, nil }
func (c counter) Counted(context.Context, time.Time, time.Time) ([]desk.Count, error) {
	return c.counts, nil
}

// TestDoubtIsNotExpired: what was sent and never answered is counted among the records that ran out of time. It may be billed, so it is not shown as lost: whoever books
// it anew bills it twice.
func TestDoubtIsNotExpired(t *testing.T) {
	t.Parallel()
	hour := metering.HourOf(instant("2026-03-10T14:00:00"))
	d := &desk.Desk{Tables: memory.New(memory.Options{}), Now: func() time.Time { return instant("2026-03-10T15:20:00") }, Plant: counter{counts: []desk.Count{
		{Hour: hour, Metric: metering.MetricSubmissionExpired, Items: 3, Units: 1000},
		{Hour: hour, Metric: metering.MetricSubmissionExpired, Cause: metering.VerdictUnknown, Items: 1, Units: 900},
	}}}
	s, err := d.Status(t.Context(), desk.StatusOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []desk.Fates{s.Today, s.Month} {
		if expired, doubt := of.Places[ledger.Expired], of.Places[ledger.InDoubt]; expired != (ledger.Amount{Items: 2, Units: 100}) || doubt != (ledger.Amount{Items: 1, Units: 900}) {
			t.Errorf("expired %+v, in doubt %+v", expired, doubt)
		}
	}
	for _, h := range s.Hours {
		if h.Hour == hour.String() && (h.Units[ledger.Expired] != 100 || h.Units[ledger.InDoubt] != 900) {
			t.Errorf("the picture has %v", h.Units)
		}
	}
}
