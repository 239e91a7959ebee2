package simulator_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/awsmp/metering/simulator"
	"github.com/google/go-cmp/cmp"
)

var updateJournal = flag.Bool("update", false, "write testdata/journal-v1.ndjson anew")

// reopen opens a journal as a new process would, at 15:20 on 10 March unless the options have a clock.
func reopen(t *testing.T, path string, options simulator.Options) *simulator.Simulator {
	t.Helper()
	if options.Now == nil {
		options.Now = (&clock{now: at(t, "2026-03-10T15:20:00")}).Now
	}
	options.Journal = path
	sim, err := simulator.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, sim) })
	return sim
}

func closed(t *testing.T, sim *simulator.Simulator) {
	t.Helper()
	if err := sim.Close(); err != nil {
		t.Error(err)
	}
}

func try(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func contents(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	try(t, err)
	return text
}

// journalled plays one of everything that a journal keeps, in seven lines or more, and returns the journal's path.
func journalled(t *testing.T) (path, token string, want []simulator.Billed) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "marketplace.ndjson")
	sim, clock := service(t, simulator.Options{Journal: path, Dimensions: []string{"storage"}})
	try(t, sim.DefineDimension("api_calls"))
	try(t, sim.DefineDimension("Gone"))
	try(t, sim.UndefineDimension("Gone"))
	try(t, sim.SuspendAccount("777788889999", true))
	token = issue(t, sim, simulator.Token{AccountID: buyer, LicenseARN: licenseA})
	wantOutcome(t, meter(t, sim, batch(usage(allocations([]int{4, 6}, tags("team", "a <& b"), nil)), usage(fields{"Dimension": "storage", "Quantity": 0}))), "Success,Success")
	clock.now = clock.now.Add(time.Minute + 5*time.Nanosecond)
	wantOutcome(t, meter(t, sim, legacyBatch(legacy(fields{"Timestamp": 1773151234.567}))), "Success")
	want = sim.Ledger()
	closed(t, sim)
	return path, token, want
}

func wantLedger(t *testing.T, sim *simulator.Simulator, want []simulator.Billed) {
	t.Helper()
	if diff := differences(want, sim.Ledger()); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
}

func TestJournalKeepsEverything(t *testing.T) {
	t.Parallel()
	path, token, want := journalled(t)
	sim := reopen(t, path, simulator.Options{Dimensions: []string{"storage"}})
	wantLedger(t, sim, want)
	if len(want) != 3 {
		t.Fatalf("%d entries, want 3", len(want))
	}
	for _, tt := range []struct {
		body fields
		want string
	}{
		{batch(usage()), "Success"},
		{batch(usage(fields{"Quantity": 11})), "DuplicateRecord"},
		{batch(usage(fields{"LicenseArn": licenseB})), "InvalidLicenseException"},
		{batch(usage(fields{"Dimension": "Gone"})), "InvalidUsageDimensionException"},
		{legacyBatch(legacy(fields{"CustomerIdentifier": nil, "CustomerAWSAccountId": other, "Quantity": 9})), "DuplicateRecord"}, // cust-1 by its other name
	} {
		wantOutcome(t, meter(t, sim, tt.body), tt.want)
	}
	resolved := call(t, sim, "ResolveCustomer", fields{"RegistrationToken": token})
	if diff := cmp.Diff(map[string]any{"CustomerAWSAccountId": buyer, "LicenseArn": licenseA, "ProductCode": product}, resolved.raw); diff != "" {
		t.Errorf("resolved (-want +got):\n%s", diff)
	}
	if next := issue(t, sim, simulator.Token{AccountID: buyer}); next == token {
		t.Error("a token was issued a second time")
	}
	try(t, sim.PutLicense(simulator.License{ARN: licenseB, AccountID: "777788889999"}))
	wantOutcome(t, meter(t, sim, batch(usage(fields{"LicenseArn": licenseB, "CustomerAWSAccountId": "777788889999"}))), "CustomerNotSubscribed")

	try(t, sim.Reset())
	closed(t, sim)
	sim = reopen(t, path, simulator.Options{})
	wantLedger(t, sim, []simulator.Billed{})
	wantOutcome(t, meter(t, sim, batch(usage())), "InvalidLicenseException")
	wantOutcome(t, call(t, sim, "ResolveCustomer", fields{"RegistrationToken": token}), "InvalidTokenException")
}

// A token's end is a time on the service's clock, not a span from the start of the process.
func TestJournalKeepsTheEndOfATokenAndOfALicense(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "j")
	sim, clock := service(t, simulator.Options{Journal: path})
	token := issue(t, sim, simulator.Token{AccountID: buyer, TTL: 10 * time.Minute})
	odd := time.FixedZone("of 1890", 9*60+21) // nine minutes and 21 seconds east
	try(t, sim.PutLicense(simulator.License{ARN: licenseB, AccountID: buyer, ActivatedAt: at(t, "2026-03-10T14:00:00").In(odd)}))
	closed(t, sim)
	sim = reopen(t, path, simulator.Options{Now: clock.Now})
	clock.now = clock.now.Add(10*time.Minute - 1)
	wantOutcome(t, call(t, sim, "ResolveCustomer", fields{"RegistrationToken": token}), "")
	clock.now = clock.now.Add(1)
	wantOutcome(t, call(t, sim, "ResolveCustomer", fields{"RegistrationToken": token}), "ExpiredTokenException")
	wantOutcome(t, meter(t, sim, batch(usage(fields{"LicenseArn": licenseB}, stampedAt(t, "2026-03-10T13:59:59")))), "InvalidLicenseException")
	wantOutcome(t, meter(t, sim, batch(usage(fields{"LicenseArn": licenseB}, stampedAt(t, "2026-03-10T14:00:00")))), "Success")
}

// Journals of version 1 stay readable, and are written to the byte as they always were. Another form is another version.
func TestJournalFormat(t *testing.T) {
	t.Parallel()
	path, _, want := journalled(t)
	const stored = "testdata/journal-v1.ndjson"
	if *updateJournal {
		try(t, os.MkdirAll("testdata", 0o755))
		try(t, os.WriteFile(stored, contents(t, path), 0o644))
	}
	if diff := cmp.Diff(string(contents(t, stored)), string(contents(t, path))); diff != "" {
		t.Errorf("journal (-stored +written):\n%s", diff)
	}
	copied := filepath.Join(t.TempDir(), "copy")
	try(t, os.WriteFile(copied, contents(t, stored), 0o600))
	sim := reopen(t, copied, simulator.Options{})
	wantLedger(t, sim, want)
}

// What changes nothing is no line: refused calls, resends, faults, the clock of a token's reader.
func TestJournalHoldsOnlyChanges(t *testing.T) {
	t.Parallel()
	path, token, _ := journalled(t)
	before := contents(t, path)
	sim := reopen(t, path, simulator.Options{})
	wantOutcome(t, meter(t, sim, batch(usage(), usage(fields{"Quantity": 3}))), "Success,DuplicateRecord")
	wantOutcome(t, meter(t, sim, batch()), "")
	wantOutcome(t, meter(t, sim, batch(usage(fields{"Dimension": "Gone"}))), "InvalidUsageDimensionException")
	sim.Inject(simulator.Fault{Kind: simulator.Unprocessed, Times: 1})
	wantOutcome(t, meter(t, sim, batch(usage(fields{"Dimension": "storage", "Timestamp": 1773147600}))), "1 unprocessed")
	wantOutcome(t, call(t, sim, "ResolveCustomer", fields{"RegistrationToken": token}), "")
	if sim.PutLicense(simulator.License{}) == nil || sim.PutCustomer(simulator.Customer{Identifier: "\xff"}) == nil {
		t.Error("a malformed license or customer was taken")
	}
	if diff := cmp.Diff(string(before), string(contents(t, path))); diff != "" {
		t.Errorf("journal (-before +after):\n%s", diff)
	}
}

// The process was killed in the middle of its last write: at any byte of the line, also of the header.
func TestJournalTornTail(t *testing.T) {
	t.Parallel()
	path, _, want := journalled(t)
	whole := contents(t, path)
	header := bytes.IndexByte(whole, '\n') + 1
	last := bytes.LastIndexByte(whole[:len(whole)-1], '\n') + 1 // the line of the legacy call; the one before is that of the other
	torn := filepath.Join(t.TempDir(), "torn")
	for length := range whole {
		if length > header && length < last {
			continue // no other path than that of the last line
		}
		try(t, os.WriteFile(torn, whole[:length], 0o600))
		sim := reopen(t, torn, simulator.Options{})
		ledger := []simulator.Billed{}
		if length >= last {
			ledger = want[1:] // the legacy entry, without a license, is the first
		}
		wantLedger(t, sim, ledger)
		sound := max(header, bytes.LastIndexByte(whole[:length], '\n')+1)
		if got := contents(t, torn); !bytes.Equal(got, whole[:sound]) {
			t.Fatalf("cut at %d: the journal has %d bytes after it was opened, want %d", length, len(got), sound)
		}
		try(t, sim.PutLicense(simulator.License{ARN: licenseB, AccountID: buyer}))
		wantOutcome(t, meter(t, sim, batch(usage(fields{"LicenseArn": licenseB}))), "Success")
		after := sim.Ledger()
		closed(t, sim)
		sim = reopen(t, torn, simulator.Options{})
		wantLedger(t, sim, after)
		closed(t, sim)
	}
}

// Every byte of a journal matters, and every line of it.
func TestJournalDamage(t *testing.T) {
	t.Parallel()
	path, _, _ := journalled(t)
	whole := contents(t, path)
	lines := bytes.SplitAfter(whole, []byte("\n"))
	lines = lines[:len(lines)-1]
	join := func(parts ...[][]byte) []byte { return bytes.Join(slices.Concat(parts...), nil) }
	damaged := map[string][]byte{
		"line lost":       join(lines[:4], lines[5:]),
		"line twice":      join(lines[:4], lines[3:]),
		"lines exchanged": join(lines[:4], [][]byte{lines[5], lines[4]}, lines[6:]),
		"line cut":        join(lines[:4], [][]byte{lines[4][:20], []byte("\n")}, lines[5:]),
		"empty line":      join(lines[:4], [][]byte{[]byte("\n")}, lines[4:]),
		"second journal":  join(lines, lines),
		"zeros":           join(lines[:4], [][]byte{make([]byte, len(lines[4])-1), []byte("\n")}, lines[5:]),
	}
	for i := range len(whole) - 1 { // without its end the last line is torn, not damaged
		altered := bytes.Clone(whole)
		altered[i] ^= 1
		damaged[fmt.Sprintf("byte %d", i)] = altered
	}
	broken := filepath.Join(t.TempDir(), "broken")
	for name, text := range damaged {
		try(t, os.WriteFile(broken, text, 0o600))
		sim, err := simulator.New(simulator.Options{Journal: broken})
		if err == nil {
			closed(t, sim)
			t.Errorf("%s: the journal was taken", name)
		} else if !strings.Contains(err.Error(), "\nTry: ") || !strings.Contains(err.Error(), broken) {
			t.Errorf("%s: error %q names no file or nothing to try", name, err)
		}
		if got := contents(t, broken); !bytes.Equal(got, text) {
			t.Errorf("%s: the damaged journal was changed", name)
		}
	}

	try(t, os.WriteFile(broken, damaged["line lost"], 0o600))
	_, err := simulator.New(simulator.Options{Journal: broken})
	want := fmt.Sprintf("line 5 of the journal %[1]s is damaged: its checksum does not match: it, or a line before it, was altered, lost or moved\n"+
		"Try: head -n 4 %[1]q > %[2]q && mv %[2]q %[1]q", broken, broken+".sound")
	if err == nil || err.Error() != want {
		t.Errorf("error\n%v\nwant\n%s", err, want)
	}
	_, command, _ := strings.Cut(err.Error(), "\nTry: ")
	if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
	if !bytes.Equal(contents(t, broken), join(lines[:4])) {
		t.Errorf("%s does not leave the lines before the damage", command)
	}
	reopen(t, broken, simulator.Options{})
}

func TestJournalErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		try(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	journal, _, _ := journalled(t)
	reopen(t, journal, simulator.Options{})
	for _, tt := range []struct{ path, want, try string }{
		{file("v2", "{\"format\":\"awsmp simulator journal\",\"version\":2}\n{}\n"), "is a journal of version 2, and this program knows version 1", "mv "},
		{file("v2torn", "{\"format\":\"awsmp simulator journal\",\"version\":2}"), "is a journal of version 2, and this program knows version 1", "mv "},
		{file("notes.txt", "to do"), "is no simulator journal: its first line is not {\"format\":", "mv "},
		{file("usage.csv", "license,dimension\n"), "is no simulator journal", "mv "},
		{file("long", strings.Repeat("x", 1<<17)), "is no simulator journal", "mv "},
		{dir, "is a directory", "name a file that you may read and write"},
		{os.DevNull, "is no regular file", "name a file that does not exist yet"},
		{filepath.Join(dir, "no", "such", "j"), "no such file or directory", fmt.Sprintf("mkdir -p %q", filepath.Join(dir, "no", "such"))},
		{journal, "is in use by another simulator", "stop that one, or name another file"},
	} {
		before, _ := os.ReadFile(tt.path)
		_, err := simulator.New(simulator.Options{Journal: tt.path})
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "\nTry: "+tt.try) {
			t.Errorf("%s: error %v, want %q and to try %q", tt.path, err, tt.want, tt.try)
		}
		if after, _ := os.ReadFile(tt.path); !bytes.Equal(before, after) {
			t.Errorf("%s: the file was changed", tt.path)
		}
	}
}

// After Close the journal is another's. What was read before can still be read.
func TestJournalClose(t *testing.T) {
	t.Parallel()
	path, _, want := journalled(t)
	sim := reopen(t, path, simulator.Options{})
	closed(t, sim)
	closed(t, sim)
	second := reopen(t, path, simulator.Options{})
	wantLedger(t, sim, want)
	refused := meter(t, sim, batch(usage(fields{"Dimension": "storage", "Timestamp": 1773147600})))
	wantOutcome(t, refused, "InternalServiceErrorException")
	if !strings.Contains(refused.Message, "the simulator is closed") {
		t.Errorf("message %q", refused.Message)
	}
	if err := sim.Reset(); err == nil || !strings.Contains(err.Error(), "the simulator is closed") {
		t.Errorf("error %v", err)
	}
	wantLedger(t, sim, want)
	wantLedger(t, second, want)
	wantOutcome(t, meter(t, sim, batch(usage())), "Success") // a resend changes nothing

	memory, _ := service(t, simulator.Options{})
	closed(t, memory)
	wantOutcome(t, meter(t, memory, batch(usage())), "Success")
}
