package tablecopy_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"golang.org/x/sync/errgroup"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/tablecopy"
)

// counting counts requests.
type counting struct {
	sdk.HTTPClient
	n *atomic.Int64
}

func (c counting) Do(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return c.HTTPClient.Do(r)
}

// scanAlone reads both tables in parts as a copy does, and keeps nothing.
func scanAlone(ctx context.Context, source tablecopy.Source, segments int) error {
	all, ctx := errgroup.WithContext(ctx)
	for segment := range segments {
		all.Go(func() error {
			for after, more := "", true; more; {
				p, err := source.ScanRows(ctx, segment, segments, after)
				if err != nil {
					return err
				}
				after, more = p.Next, p.Next != ""
			}
			return nil
		})
		all.Go(func() error {
			for after, more := "", true; more; {
				p, err := source.ScanRecords(ctx, segment, segments, after)
				if err != nil {
					return err
				}
				after, more = p.Next, p.Next != ""
			}
			return nil
		})
	}
	return all.Wait()
}

// BenchmarkCopy copies 2,000 groups of 100 rows from dynalite and computes the books, against the same scans without keeping anything and
// against the books by queries. Dynalite sets the speed: what counts are the ratios, and the heap.
func BenchmarkCopy(b *testing.B) {
	const groups, rows = 2000, 100
	var requests atomic.Int64
	source := tablesBy(b, sdk.NewFromConfig(standin.Config(standin.Dynalite(b)), func(o *sdk.Options) { o.HTTPClient = counting{o.HTTPClient, &requests} }), 0)
	fillBilled(b, source, groups, rows)
	b.ResetTimer()
	for range b.N {
		begun := time.Now()
		check(b, scanAlone(b.Context(), source, tablecopy.DefaultSegments))
		alone := time.Since(begun)

		var making, computing time.Duration
		requests.Store(0)
		heap := peakHeap(func() {
			begun := time.Now()
			c := copied(b, b.TempDir(), source, tablecopy.Options{})
			making = time.Since(begun)
			begun = time.Now()
			if sheet := books(b, c, source, ledger.Scope{}); sheet.Report.Groups != groups || !sheet.Sound() {
				b.Fatalf("%+v", sheet.Report)
			}
			computing = time.Since(begun)
			check(b, c.Close())
		})

		b.ReportMetric(float64(requests.Swap(0)), "requests-by-copy")
		begun = time.Now()
		computed(b, source, ledger.Scope{})
		queries := time.Since(begun)
		b.ReportMetric(float64(requests.Load()), "requests-by-queries")
		b.ReportMetric(groups*rows/making.Seconds(), "rows/s-copied")
		b.ReportMetric(making.Seconds()/alone.Seconds(), "of-scan-alone")
		b.ReportMetric(groups*rows/computing.Seconds(), "rows/s-computed")
		b.ReportMetric((making+computing).Seconds()/queries.Seconds(), "of-queries")
		b.ReportMetric(float64(heap)/1e6, "heap-MB")
	}
}
