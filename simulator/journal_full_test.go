package simulator_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/awsmp/metering/simulator"
)

// fullDisk takes room bytes more, in however many writes, and then none.
type fullDisk struct {
	io.WriterAt
	room   int
	writes int
}

func (d *fullDisk) WriteAt(p []byte, offset int64) (int, error) {
	d.writes++
	if len(p) <= d.room {
		return d.WriterAt.WriteAt(p, offset)
	}
	n, err := d.WriterAt.WriteAt(p[:d.room], offset)
	if err == nil {
		err = syscall.ENOSPC
	}
	return n, err
}

// The disk fills up at any byte of a line: the call is refused as a whole, the next one finds a sound journal.
func TestJournalDiskFull(t *testing.T) {
	t.Parallel()
	path, _, want := journalled(t)
	before := contents(t, path)
	sim := reopen(t, path, simulator.Options{})
	disk := &fullDisk{}
	sim.WriteJournalThrough(func(file io.WriterAt) io.WriterAt { disk.WriterAt = file; return disk })
	body := batch(usage(stampedAt(t, "2026-03-10T13:00:00")), usage(stampedAt(t, "2026-03-10T12:00:00")), usage())

	for ; ; disk.room++ {
		disk.writes = 0
		refused := meter(t, sim, body)
		if refused.outcome() == "Success,Success,Success" {
			break
		}
		if refused.Exception != "InternalServiceErrorException" || refused.HTTP != http.StatusInternalServerError || !strings.Contains(refused.Message, "nothing was changed: write the journal") ||
			!strings.Contains(refused.Message, "no space left on device") {
			t.Fatalf("HTTP %d: %s: %s", refused.HTTP, refused.Exception, refused.Message)
		}
		if got := contents(t, path); !bytes.Equal(got, before) {
			t.Fatalf("room for %d bytes: the journal has %d bytes, want %d", disk.room, len(got), len(before))
		}
		if n := len(sim.Ledger()); n != len(want) {
			t.Fatalf("room for %d bytes: %d entries, want %d", disk.room, n, len(want))
		}
		wantOutcome(t, meter(t, sim, batch(usage())), "Success") // a resend needs no room
	}
	if line := len(contents(t, path)) - len(before); disk.room != line || disk.writes != 1 {
		t.Errorf("a line of %d bytes was written with room for %d, in %d writes; want one write", line, disk.room, disk.writes)
	}
	if stats := sim.Stats(); stats.Statuses["Success"] != 3+disk.room || stats.Records != 3+disk.room {
		t.Errorf("refused calls were counted: %+v", stats)
	}
	want = sim.Ledger()
	closed(t, sim)
	wantLedger(t, reopen(t, path, simulator.Options{}), want)
}

// Everything else that a journal keeps is refused by a full disk, too, and over HTTP with 500 and what to do.
func TestJournalDiskFullRefusesEveryChange(t *testing.T) {
	t.Parallel()
	path, _, want := journalled(t)
	before := contents(t, path)
	sim := reopen(t, path, simulator.Options{Dimensions: []string{"storage"}})
	sim.WriteJournalThrough(func(file io.WriterAt) io.WriterAt { return &fullDisk{WriterAt: file, room: 20} })
	for _, tt := range []struct{ method, path, body string }{
		{"PUT", "licenses", `{"licenseArn": "` + licenseA + `", "accountId": "` + other + `"}`},
		{"PUT", "customers", `{"customerIdentifier": "cust-1", "active": false}`},
		{"PUT", "suspensions", `{"accountId": "` + buyer + `", "suspended": true}`},
		{"PUT", "dimensions", `{"name": "Gone"}`},
		{"DELETE", "dimensions", `{"name": "api_calls"}`},
		{"POST", "tokens", `{"token": "refused"}`},
		{"POST", "tokens", `{"accountId": "` + buyer + `"}`},
		{"POST", "reset", ""},
	} {
		status, answer := control(t, sim, tt.method, tt.path, tt.body)
		said, _ := answer.(map[string]any)
		if status != http.StatusInternalServerError || said["hint"] != "make room on the disk of the journal and send it again" {
			t.Errorf("%s %s: HTTP %d, %v", tt.method, tt.path, status, answer)
		}
	}
	// As before: the license, the customer and the buyer are active, the dimensions as they were, no token was issued.
	wantLedger(t, sim, want)
	wantOutcome(t, meter(t, sim, batch(usage())), "Success")
	wantOutcome(t, meter(t, sim, legacyBatch(legacy(fields{"Timestamp": 1773151234}))), "Success")
	wantOutcome(t, meter(t, sim, batch(usage(fields{"Dimension": "Gone"}))), "InvalidUsageDimensionException")
	wantOutcome(t, call(t, sim, "ResolveCustomer", fields{"RegistrationToken": "refused"}), "InvalidTokenException")
	if got := contents(t, path); !bytes.Equal(got, before) {
		t.Errorf("the journal has %d bytes, want %d", len(got), len(before))
	}
}

// A torn line that cannot be cut off: nothing may be written behind it. A restart cuts it off.
func TestJournalTornLineStays(t *testing.T) {
	t.Parallel()
	path, _, want := journalled(t)
	before := contents(t, path)
	sim, err := simulator.New(simulator.Options{Journal: path, Now: (&clock{now: at(t, "2026-03-10T15:20:00")}).Now})
	try(t, err)
	sim.WriteJournalThrough(func(file io.WriterAt) io.WriterAt {
		return tearing{&fullDisk{WriterAt: file, room: 20}, sim.BreakJournalFile}
	})
	body := batch(usage(stampedAt(t, "2026-03-10T13:00:00")))
	wantOutcome(t, meter(t, sim, body), "InternalServiceErrorException")
	refused := meter(t, sim, body)
	wantOutcome(t, refused, "InternalServiceErrorException")
	if !strings.Contains(refused.Message, "an earlier write left a torn line that cannot be cut off") || !strings.Contains(refused.Message, "restart the simulator") {
		t.Errorf("message %q", refused.Message)
	}
	wantLedger(t, sim, want)
	if got := contents(t, path); len(got) != len(before)+20 {
		t.Fatalf("the journal has %d bytes: the test has torn no line", len(got))
	}
	again := reopen(t, path, simulator.Options{})
	wantLedger(t, again, want)
	wantOutcome(t, meter(t, again, body), "Success")
}

// tearing breaks the file after a write.
type tearing struct {
	io.WriterAt
	broken func()
}

func (w tearing) WriteAt(p []byte, offset int64) (int, error) {
	defer w.broken()
	return w.WriterAt.WriteAt(p, offset)
}
