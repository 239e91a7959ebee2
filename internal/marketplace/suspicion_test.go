package marketplace_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// A license of which one dimension is refused is under no suspicion itself: what else it has keeps its place among the others, and does not go last.
func TestABadDimensionIsNoBadLicense(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin(t)
		const other = "arn:aws:license-manager::111122223333:license:l-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
		pending := []metering.Record{record("undefined", 1)}
		for i := range 412 { // with the bad one 33 calls of 25
			dimension := fmt.Sprintf("d%d", i)
			pending = append(pending, record(dimension, 1), recordOf(metering.Group{License: other, Account: buyer, Dimension: dimension}, 1))
		}
		books := deskOf(pending...)
		service := &api{latency: 50 * time.Millisecond, answer: poisoned("InvalidUsageDimensionException", "undefined")}
		report, err := send(t, service, books, laneOf(pending...))
		if err != nil || report.Settled != len(pending) || len(books.rejected()) != 1 {
			t.Fatalf("report %+v, error %v", report, err)
		}
		for i, c := range service.calls[len(service.calls)-5:] {
			of := func(license string) func(metering.UsageRecord) bool {
				return func(u metering.UsageRecord) bool { return u.License == license }
			}
			if !slices.ContainsFunc(c.Records, of(licenseA)) || !slices.ContainsFunc(c.Records, of(other)) {
				t.Errorf("of the last five calls, number %d holds one license alone, though the lane alternates", i)
			}
		}
	})
}
