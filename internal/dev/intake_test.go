package dev_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/awsmp/metering/internal/dev"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
)

const csvHead = "licenseArn,customerAWSAccountId,dimension,timestamp,quantity\n"

func csvLine(second, quantity string) string {
	return licenseOne + "," + buyerOne + ",api_calls," + second + "," + quantity + "\n"
}

func TestUsageIsTaken(t *testing.T) {
	t.Parallel()
	one, two := object("2026-03-10T14:00:00", 3), object("2026-03-10T14:00:59", 4)
	many := make([]dev.Refused, 1000)
	for name, c := range map[string]struct {
		kind, body string
		status     int
		want       dev.Taken
		units      int64
	}{
		"CSV":              {"text/csv", csvHead + csvLine("2026-03-10T14:00:00", "3") + csvLine("2026-03-10T14:05:00", "4"), 200, dev.Taken{Lines: 2, Written: 2}, 7},
		"NDJSON":           {"application/x-ndjson; charset=utf-8", one + "\n" + two, 200, dev.Taken{Lines: 2, Written: 2}, 7},
		"an object":        {"application/json", one, 200, dev.Taken{Lines: 1, Written: 1}, 3},
		"an indented one":  {"application/json", strings.ReplaceAll(one, ",", ",\n  "), 200, dev.Taken{Lines: 1, Written: 1}, 3},
		"an array":         {"application/json", " [" + one + ", " + two + "]\n", 200, dev.Taken{Lines: 2, Written: 2}, 7},
		"with allocations": {"application/json", strings.Replace(one, "{", `{"usageAllocations": [{"AllocatedUsageQuantity": 3, "Tags": [{"Key": "team", "Value": "blue"}]}],`, 1), 200, dev.Taken{Lines: 1, Written: 1}, 3},
		"some refused": {"application/json", "[" + one + "," + object("2026-03-10T14:00:59", 2.5) + "," + object("2026-03-10 14:00:59", 1) + ",7]", 207, dev.Taken{Lines: 4, Written: 1, RefusedLines: 3, Refused: []dev.Refused{
			{Line: 2, Code: "NonIntegerQuantity"}, {Line: 3, Code: "MalformedTimestamp"}, {Line: 4, Code: "BrokenJSON"}}}, 3},
		"all refused":       {"text/csv", csvHead + csvLine("2026-03-10T14:00:00", "-3"), 422, dev.Taken{Lines: 1, RefusedLines: 1, Refused: []dev.Refused{{Line: 2, Code: "NegativeQuantity"}}}, 0},
		"no quantity":       {"text/csv", csvHead + csvLine("2026-03-10T14:00:00", ""), 422, dev.Taken{Lines: 1, RefusedLines: 1, Refused: []dev.Refused{{Line: 2, Code: "MissingQuantity"}}}, 0},
		"allocations off":   {"application/json", strings.Replace(one, "{", `{"usageAllocations": "none",`, 1), 422, dev.Taken{Lines: 1, RefusedLines: 1, Refused: []dev.Refused{{Line: 1, Code: "MalformedAllocations"}}}, 0},
		"another bucket":    {"application/json", strings.Replace(one, "{", `{"meteringPending": "2026-03-10T15",`, 1), 422, dev.Taken{Lines: 1, RefusedLines: 1, Refused: []dev.Refused{{Line: 1, Code: "SortKeyMismatch"}}}, 0},
		"its own bucket":    {"application/json", strings.Replace(one, "{", `{"meteringPending": "2026-03-10T14",`, 1), 200, dev.Taken{Lines: 1, Written: 1}, 3},
		"too late":          {"application/json", object("2026-03-09T15:00:00", 1), 422, dev.Taken{Lines: 1, RefusedLines: 1, Refused: []dev.Refused{{Line: 1, Code: "HourClosed"}}}, 0},
		"too early":         {"application/json", object("2026-03-10T15:27:00", 1), 422, dev.Taken{Lines: 1, RefusedLines: 1, Refused: []dev.Refused{{Line: 1, Code: "TimestampInFuture"}}}, 0},
		"many refused":      {"text/csv", csvHead + strings.Repeat(csvLine("2026-03-10T14:00:00", "x"), 1500), 422, dev.Taken{Lines: 1500, RefusedLines: 1500, Refused: many}, 0},
		"an empty array":    {"application/json", "[]", 400, dev.Taken{}, 0},
		"nothing":           {"application/x-ndjson", "", 400, dev.Taken{}, 0},
		"a broken array":    {"application/json", "[" + one, 400, dev.Taken{}, 0},
		"two documents":     {"application/json", one + two, 400, dev.Taken{}, 0},
		"a foreign header":  {"text/csv", "a,b\n1,2\n", 400, dev.Taken{}, 0},
		"compressed":        {"text/csv", "\x1f\x8b\x08", 400, dev.Taken{}, 0},
		"more than it says": {"application/json", strings.Repeat(" ", 16<<20) + one, 413, dev.Taken{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := start(t, t.TempDir())
			status, got := m.post(c.kind, "", c.body)
			if status != c.status {
				t.Errorf("status %d, want %d", status, c.status)
			}
			if status >= 400 && status != 422 && (got.Problem == nil || got.Error == "" || got.Hint == "") {
				t.Errorf("no error and hint: %+v", got)
			}
			for i, r := range got.Refused {
				if r.Reason == "" || r.Hint == "" {
					t.Errorf("refused without a reason or a hint: %+v", r)
				}
				got.Refused[i].Reason, got.Refused[i].Hint = "", ""
			}
			if name == "many refused" {
				clear(got.Refused)
			}
			if (got.RefusedHint != "") != (got.RefusedLines > 0) || got.RefusedTruncated != (got.RefusedLines > len(got.Refused)) {
				t.Errorf("of %d refused lines %d are listed: truncated %v, hint %q", got.RefusedLines, len(got.Refused), got.RefusedTruncated, got.RefusedHint)
			}
			if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(dev.Taken{}, "ID", "Problem", "RefusedHint", "RefusedTruncated")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			m.wantPlaces(c.units, nil)
		})
	}
}

func TestUsageOfAnUnknownKindIsRefused(t *testing.T) {
	t.Parallel()
	m := start(t, t.TempDir())
	for _, kind := range []string{"", "application/x-www-form-urlencoded", "text/plain"} {
		if status, got := m.post(kind, "", object("2026-03-10T14:00:00", 3)); status != http.StatusUnsupportedMediaType || got.Problem == nil || !strings.Contains(got.Hint, "curl") {
			t.Errorf("%q: %d %+v", kind, status, got)
		}
	}
	for _, key := range []string{"two words", strings.Repeat("k", 256), "schlüssel"} {
		if status, got := m.post("application/json", key, object("2026-03-10T14:00:00", 3)); status != http.StatusBadRequest || got.Problem == nil {
			t.Errorf("%q: %d %+v", key, status, got)
		}
	}
	m.wantPlaces(0, nil)
}

// lines are n lines of usage of one unit each, over 240 rows; of says how one of a second is written.
func lines(n int, of func(second string) string) string {
	first := metering.Second(afternoon.Add(-4 * 3600e9).Truncate(3600e9).Unix())
	var rows [240]string
	for i := range rows {
		rows[i] = of((first + metering.Second(i*60)).String())
	}
	var b strings.Builder
	for i := range n {
		b.WriteString(rows[i%len(rows)])
	}
	return b.String()
}

func oneObject(second string) string { return object(second, 1) }

func oneCSVLine(second string) string { return csvLine(second, "1") }

// TestUsageCountsOnceUnderItsKey: a request of three chunks, sent twice under one key and once under another.
func TestUsageCountsOnceUnderItsKey(t *testing.T) {
	t.Parallel()
	m := start(t, t.TempDir())
	m.CutChunks(1000)
	body := lines(2500, oneObject)
	for range 2 {
		if status, got := m.post("application/x-ndjson", "file-1", body); status != 200 || got.Written != 2500 || got.ID != "file-1" {
			t.Errorf("%d %+v", status, got)
		}
		m.wantPlaces(2500, nil)
	}
	if status, _ := m.post("application/x-ndjson", "file-2", body); status != 200 {
		t.Errorf("status %d", status)
	}
	m.wantPlaces(5000, nil)
	m.stop()

	// The key lasts longer than the process.
	m = start(t, m.folder.Dir(), later)
	m.CutChunks(1000)
	if status, _ := m.post("application/x-ndjson", "file-2", body); status != 200 {
		t.Errorf("status %d", status)
	}
	m.wantPlaces(5000, nil)
}

func later(o *dev.Options) { o.At = afternoon.Add(60e9) }

// TestUsageTornInTheMiddle: the connection breaks within the second chunk. The request sent again adds what is missing, and nothing
// twice.
func TestUsageTornInTheMiddle(t *testing.T) {
	t.Parallel()
	m := start(t, t.TempDir())
	m.CutChunks(1000)
	body := lines(2500, oneObject)
	conn, err := net.Dial("tcp", m.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /v1/usage HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\nIdempotency-Key: torn\r\nContent-Length: %d\r\n\r\n", len(body))
	if _, err := conn.Write([]byte(body[:len(body)*14/25])); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	status, got := m.post("application/x-ndjson", "torn", body)
	if status != 200 || got.Written != 2500 {
		t.Errorf("%d %+v", status, got)
	}
	m.wantPlaces(2500, nil)
}

// TestUsageWhoseBodyFails: what was read of a chunk is left, because it would be another chunk when the request is sent again. Chunks are of 10,000
// lines: with others, requests begun before them would count anew.
func TestUsageWhoseBodyFails(t *testing.T) {
	t.Parallel()
	m := start(t, t.TempDir())
	body := csvHead + lines(10_800, oneCSVLine)
	r := httptest.NewRequest(http.MethodPost, "/v1/usage", io.MultiReader(strings.NewReader(body[:len(body)*104/108]), iotest.ErrReader(errStruck)))
	r.Header.Set("Content-Type", "text/csv")
	r.Header.Set("Idempotency-Key", "failed")
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, r)
	var got dev.Taken
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusBadRequest || got.Written != 10_000 || got.Problem == nil {
		t.Errorf("%d %+v: %v", w.Code, got, err)
	}
	m.wantPlaces(10_000, nil)
	if status, got := m.post("text/csv", "failed", body); status != 200 || got.Written != 10_800 {
		t.Errorf("%d %+v", status, got)
	}
	m.wantPlaces(10_800, nil)
}

// brittle is a store whose writes of usage fail or lose their answers, and which can act right before them.
type brittle struct {
	dev.Store
	fails, lost atomic.Bool
	before      func()
}

var errStruck = errors.New("injected fault")

func (b *brittle) FlushRows(ctx context.Context, flushes []metering.Flush) []metering.Flushed {
	out := make([]metering.Flushed, len(flushes))
	if b.before != nil {
		b.before()
	}
	if !b.fails.Load() {
		out = b.Store.FlushRows(ctx, flushes)
	}
	for i := range out {
		if b.fails.Load() || b.lost.Load() {
			out[i] = metering.Flushed{Err: errStruck}
		}
	}
	return out
}

// TestUsageOfUnknownFate: the answers of the store are lost. The caller is told to come again, and under which key.
func TestUsageOfUnknownFate(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("lost=%v", lost), func(t *testing.T) {
			t.Parallel()
			var store *brittle
			m := start(t, t.TempDir(), func(o *dev.Options) {
				store = &brittle{Store: o.Store}
				o.Store = store
			})
			store.fails.Store(!lost)
			store.lost.Store(lost)
			var got dev.Taken
			r := m.ask(http.MethodPost, "/v1/usage", map[string]string{"Content-Type": "application/json"}, strings.NewReader(object("2026-03-10T14:00:00", 3)), &got)
			if r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" || got.Problem == nil || !strings.Contains(got.Hint, got.ID) {
				t.Errorf("%s %+v", r.Status, got)
			}
			store.fails.Store(false)
			store.lost.Store(false)
			if status, again := m.post("application/json", got.ID, object("2026-03-10T14:00:00", 3)); status != 200 || again.Written != 1 {
				t.Errorf("%d %+v", status, again)
			}
			m.wantPlaces(3, nil)
		})
	}
}

// TestUsageAfterItsHour: usage of a committed hour is refused where the record stood before, and late where it came in between.
func TestUsageAfterItsHour(t *testing.T) {
	t.Parallel()
	var store *brittle
	m := start(t, t.TempDir(), func(o *dev.Options) {
		store = &brittle{Store: o.Store}
		o.Store = store
	})
	if status, _ := m.post("application/json", "", object("2026-03-10T14:00:00", 3)); status != 200 {
		t.Fatal(status)
	}
	store.before = func() {
		store.before = nil
		m.advance(afternoon.Add(3600e9))
	}
	if status, got := m.post("application/json", "", object("2026-03-10T14:30:00", 4)); status != 200 || got.Late != 1 || got.Written != 0 {
		t.Errorf("%d %+v", status, got)
	}
	status, got := m.post("application/json", "", object("2026-03-10T14:40:00", 5))
	if status != 422 || len(got.Refused) != 1 || got.Refused[0].Code != dev.CodeHourCommitted ||
		got.Refused[0].Hint != "book it in the current hour, under a key of its own; "+metering.CommittedForGood {
		t.Errorf("%d %+v", status, got)
	}
	m.advance(afternoon.Add(2 * 3600e9))
	m.wantPlaces(7, map[ledger.Place]int64{ledger.Billed: 3, ledger.Late: 4})
}

// endless is n lines of usage, made while they are read; four times a chunk of them it looks at the heap.
type endless struct {
	left, line int
	rest       string
	heap       uint64 // the most that was live
}

func (e *endless) Read(p []byte) (int, error) {
	for e.rest == "" {
		if e.left == 0 {
			return 0, io.EOF
		}
		if e.left--; e.left%250 == 0 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			e.heap = max(e.heap, m.HeapAlloc)
		}
		e.line++
		e.rest = object(metering.Second(afternoon.Unix()-int64(e.line%14_000)).String(), 1)
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// TestUsageTakesNoMoreMemoryForMore: five times the lines, the same memory. Not parallel: it looks at the heap.
func TestUsageTakesNoMoreMemoryForMore(t *testing.T) {
	m := start(t, t.TempDir())
	m.CutChunks(1000)
	peak := func(n int) uint64 {
		body := &endless{left: n}
		r := httptest.NewRequest(http.MethodPost, "/v1/usage", body)
		r.Header.Set("Content-Type", "application/x-ndjson")
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Fatal(w.Code, w.Body)
		}
		return body.heap
	}
	small, large := peak(2001), peak(10_001)
	t.Logf("2,000 lines: %d KiB, 10,000 lines: %d KiB", small>>10, large>>10)
	if large > small+512<<10 {
		t.Errorf("2,000 lines: %d bytes, 10,000 lines: %d bytes", small, large)
	}
	m.wantPlaces(12_002, nil)
}

func BenchmarkUsage(b *testing.B) {
	folder, err := dev.OpenFolder(b.Context(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer folder.Close()
	m, err := dev.New(b.Context(), dev.Options{Store: folder.Store, At: afternoon})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close(context.Background())
	server := httptest.NewServer(m.Handler())
	defer server.Close()
	b.ReportAllocs()
	b.ResetTimer()
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, server.URL+"/v1/usage", strings.NewReader(lines(b.N, oneObject)))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-ndjson")
	response, err := server.Client().Do(r)
	if err != nil || response.StatusCode != 200 {
		b.Fatal(response, err)
	}
	response.Body.Close()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}
