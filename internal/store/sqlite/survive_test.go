package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/sqlite"
)

func TestEverythingIsThereAfterReopening(t *testing.T) {
	t.Parallel()
	path := file(t)
	ours := metering.Deprovisioning{License: licenseA, Account: buyer, Expiry: now()}
	told := metering.ProfileChange{License: licenseA, Account: buyer, Fields: map[string]string{"contactName": "Ada Example"}, At: now()}
	profile := told.Apply(nil)
	rec := metering.NewRecord(group(licenseA, "api"), 5)
	rec.Manifest = "v1 1 0 0:0"
	for round := range 3 {
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		check(t, "Open", err)
		if round == 0 {
			put(t, s, rows(group(licenseA, "api"), 10)...)
			s.LabelRows(t.Context(), []metering.Label{label(row(group(licenseA, "api"), 0, 1), "because")})
			s.FlushRows(t.Context(), []metering.Flush{flush(group(licenseB, "api"), 0, 3, "one")})
			check(t, "PutRecord", s.PutRecord(t.Context(), rec))
			_, _, err := s.ChangeSubscriber(t.Context(), metering.LicenseEvent{License: licenseA, Account: buyer, At: ours.Expiry.Add(-metering.DeprovisionWindow)}.DeprovisionedAt(now()))
			check(t, "ChangeSubscriber", err)
			check(t, "SaveProfile", s.SaveProfile(t.Context(), told))
			check(t, "SetSetting", s.SetSetting(t.Context(), "clock", "2026"))
		}
		all := collect(t, s.LicenseRows(t.Context(), licenseA))
		if len(all) != 10 || all[0].StatusReason != "because" || all[0].Pending != "" || all[9].Pending != hour().String() {
			t.Errorf("round %d: rows %+v", round, all)
		}
		same(t, "the records", []metering.Record{rec}, collect(t, s.LicenseRecords(t.Context(), licenseA)))
		if r := getRow(t, s, licenseB, group(licenseB, "api").RowKey(hour().Second(0))); r == nil || r.Quantity != metering.Units(3) || r.Flushes[0] != "one" {
			t.Errorf("round %d: the flushed row is %+v", round, r)
		}
		list, err := s.Deprovisioning(t.Context())
		check(t, "Deprovisioning", err)
		same(t, "in their last hour", []metering.Deprovisioning{ours}, list)
		p, err := s.Profile(t.Context(), licenseA, buyer)
		check(t, "Profile", err)
		same(t, "profile", &profile, p)
		value, err := s.Setting(t.Context(), "clock")
		check(t, "Setting", err)
		same(t, "setting", "2026", value)
		shut(t, s)
	}
}

// What a process writes that is killed: every line of its output is one change that was answered.
const (
	batchRows   = 20
	writers     = 3
	flushesARow = 50
)

// batch is one of a writer's batches in one run of the process.
type batch struct{ run, writer, n int }

func (b batch) String() string { return fmt.Sprintf("%d-%d-%d", b.run, b.writer, b.n) }

func (b batch) group() metering.Group { return group(licenseA, b.String()) }

// flushes go to the same rows as those of the batch's neighbours.
func (b batch) flushes() (all []metering.Flush) {
	g := group(licenseB, batch{b.run, b.writer, b.n / flushesARow}.String())
	for i := range batchRows {
		all = append(all, flush(g, i, 2, b.String()))
	}
	return all
}

func (b batch) labels() (all []metering.Label) {
	for _, r := range rows(b.group(), batchRows) {
		all = append(all, label(r, b.String()))
	}
	return all
}

// writeForEver does not wait for the disk: the system keeps what a killed process has written.
func writeForEver(path string, args []string) error {
	var run int
	if _, err := fmt.Sscan(args[0], &run); err != nil {
		return err
	}
	s, err := sqlite.Open(context.Background(), path, sqlite.Options{}.Unsynced())
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for n := 0; ; n++ {
				if err := (batch{run, w, n}).write(s); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
			}
		})
	}
	all.Wait()
	return nil
}

func (b batch) write(s *sqlite.Store) error {
	ctx := context.Background()
	if err := s.PutRows(ctx, rows(b.group(), batchRows)); err != nil {
		return err
	}
	fmt.Println("put", b)
	for _, out := range s.FlushRows(ctx, b.flushes()) {
		if !out.Done {
			return fmt.Errorf("flush %v: %+v", b, out)
		}
	}
	fmt.Println("flush", b)
	if out, err := s.CreateRecord(ctx, metering.NewRecord(b.group(), batchRows)); err != nil || !out.Done {
		return fmt.Errorf("create %v: %+v, %w", b, out, err)
	}
	fmt.Println("create", b)
	for _, out := range s.LabelRows(ctx, b.labels()) {
		if !out.Done {
			return fmt.Errorf("label %v: %+v", b, out)
		}
	}
	fmt.Println("label", b)
	return nil
}

// Killed in mid-write, a store has every change that was answered, and none by halves.
func TestKilled(t *testing.T) {
	t.Parallel()
	path := file(t)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	var acknowledged []string
	for run := range 8 {
		process := child(t, "write for ever", path, fmt.Sprint(run))
		out, err := process.StdoutPipe()
		check(t, "pipe", err)
		check(t, "start", process.Start())
		lines, wanted := bufio.NewReader(out), random.IntN(40)
		for n := 0; ; n++ {
			line, err := lines.ReadString('\n')
			if err != nil {
				break // what it has said before its end counts too
			}
			acknowledged = append(acknowledged, strings.TrimSuffix(line, "\n"))
			if n == wanted {
				check(t, "kill", process.Process.Kill())
			}
		}
		if err := process.Wait(); err == nil || process.ProcessState.ExitCode() != -1 {
			t.Fatalf("run %d ended by itself: %v", run, err)
		}
		afterKill(t, path, acknowledged)
		if t.Failed() {
			t.Fatalf("seed %d, run %d, after %d acknowledged changes", seed, run, len(acknowledged))
		}
	}
	sound(t, path)
}

func afterKill(t *testing.T, path string, acknowledged []string) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	check(t, "open after a kill", err)
	defer shut(t, s)
	found := make(map[string]int)
	for r, err := range s.LicenseRows(t.Context(), licenseB) {
		check(t, "LicenseRows", err)
		if r.Quantity != metering.Units(2*int64(len(r.Flushes))) {
			t.Errorf("row %s holds %v from %d flushes of 2", r.SortKey, r.Quantity, len(r.Flushes))
		}
		for _, token := range r.Flushes {
			found["flush "+token]++
		}
	}
	for r, err := range s.LicenseRows(t.Context(), licenseA) {
		check(t, "LicenseRows", err)
		found["put "+r.Dimension]++
		if r.Status != "" {
			found["label "+r.StatusReason]++
		}
	}
	for what, n := range found {
		if n != batchRows {
			t.Errorf("%d items of %q, want %d or none", n, what, batchRows)
		}
	}
	for r, err := range s.LicenseRecords(t.Context(), licenseA) {
		check(t, "LicenseRecords", err)
		found["create "+r.Dimension]++
	}
	for _, change := range acknowledged {
		if found[change] == 0 {
			t.Errorf("%q was acknowledged and is not there", change)
		}
	}
}
