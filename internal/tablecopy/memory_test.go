package tablecopy_test

import (
	"context"
	"fmt"
	"runtime"
	"runtime/metrics"
	"sync"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/dynamodb"
	"github.com/awsmp/metering/internal/tablecopy"
)

// billedRows are the rows of a group that is done.
func billedRows(g metering.Group, n int) []metering.Row {
	rows := make([]metering.Row, n)
	at := long().Format(time.RFC3339)
	for i := range rows {
		r := metering.NewRow(g, g.Hour.Second(i), int64(1+i%9))
		r.Pending, r.Status, r.StatusReason = "", metering.Aggregated, metering.AggregatedReason(int64(5*n), n)
		r.CreatedAt, r.UpdatedAt, r.Flushes = at, at, []string{"0123456789abcdef"}
		rows[i] = r
	}
	return rows
}

// fillBilled writes groups of so many rows, all billed, into the tables.
func fillBilled(t testing.TB, l *dynamodb.Ledger, groups, rowsAGroup int) {
	t.Helper()
	const licenses, atOnce = 20, 5000
	var rows []metering.Row
	flush := func() {
		check(t, l.PutRows(t.Context(), rows))
		rows = rows[:0]
	}
	var records []metering.Record
	for n := range groups {
		g := group(n%licenses, 2+n/licenses, "api_calls")
		of := billedRows(g, rowsAGroup)
		records = append(records, recordOf(t, metering.Success, of...))
		if rows = append(rows, of...); len(rows) >= atOnce {
			flush()
		}
	}
	flush()
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := worker; i < len(records); i += 8 {
				if err := l.PutRecord(t.Context(), records[i]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// peakHeap is the largest live heap while do runs, beyond what there was before.
func peakHeap(do func()) (peak uint64) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	measure := func() uint64 {
		runtime.GC()
		metrics.Read(live)
		return live[0].Value.Uint64()
	}
	before := measure()
	done, measured := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(measured)
		for {
			peak = max(peak, measure())
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	do()
	close(done)
	<-measured
	return max(peak, before) - before
}

// endless is a source whose pages are made as they are asked for: so many groups of 100 rows, all billed. Its tables cannot be read in any
// other way.
type endless struct {
	tablecopy.Source
	t      testing.TB
	groups int
}

const endlessRows = 100

func (e *endless) Surveys(context.Context) ([]dynamodb.Survey, error) {
	return []dynamodb.Survey{{ID: fmt.Sprint("endless ", e.groups)}}, nil
}

func (e *endless) group(n int) (rows []metering.Row) {
	return billedRows(group(n%2, 2+n/2, "api_calls"), endlessRows)
}

// next is the group that a segment's page is of, and where the page ends.
func (e *endless) next(segment, segments int, after string) (n int, next string) {
	if after == "" {
		n = segment
	} else if _, err := fmt.Sscan(after, &n); err != nil {
		e.t.Error(err)
	}
	if n+segments < e.groups {
		next = fmt.Sprint(n + segments)
	}
	return n, next
}

func (e *endless) ScanRows(_ context.Context, segment, segments int, after string) (p dynamodb.Part[metering.Row], err error) {
	n, next := e.next(segment, segments, after)
	return dynamodb.Part[metering.Row]{Items: e.group(n), Next: next, Units: 2}, nil
}

func (e *endless) ScanRecords(_ context.Context, segment, segments int, after string) (p dynamodb.Part[metering.Record], err error) {
	n, next := e.next(segment, segments, after)
	return dynamodb.Part[metering.Record]{Items: []metering.Record{recordOf(e.t, metering.Success, e.group(n)...)}, Next: next, Units: 0.5}, nil
}

// Neither the copy nor the ledger of it holds more of larger tables. It measures the heap, and is not parallel.
func TestMemoryDoesNotGrow(t *testing.T) {
	peak := func(groups int) uint64 {
		source := &endless{t: t, groups: groups}
		dir := t.TempDir()
		return peakHeap(func() {
			c := copied(t, dir, source, tablecopy.Options{})
			defer c.Close()
			sheet := books(t, c, source, ledger.Scope{})
			if sheet.Report.Groups != groups || !sheet.Report.Balanced() || sheet.Copy.Rows != int64(groups*endlessRows) || sheet.Copy.ReadAgain != 0 {
				t.Errorf("%d groups, read %+v", sheet.Report.Groups, sheet.Copy)
			}
		})
	}
	small, large := peak(fewGroups), peak(manyGroups)
	t.Logf("live heap at most: %.2f MB with %d rows, %.2f MB with %d", float64(small)/1e6, fewGroups*endlessRows, float64(large)/1e6, manyGroups*endlessRows)
	// The pages of both tables and of the store are seldom all full with the fewer rows. A row takes 440 bytes.
	const pages = (manyGroups - fewGroups) * endlessRows * 110
	if large > small+pages {
		t.Errorf("%d bytes of live heap with %d rows, %d with %d", large, manyGroups*endlessRows, small, fewGroups*endlessRows)
	}
}
