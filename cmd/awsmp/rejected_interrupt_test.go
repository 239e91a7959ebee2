package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/folder"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/sqlite"
)

// TestInterruptedCommandsGoOn interrupts commands that change thousands of rows, as Ctrl-C does: they end between two writes with code 130, say
// how much is done and what goes on, and that command does the rest.
func TestInterruptedCommandsGoOn(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there is no interrupt to send")
	}
	const rows = 1_500
	g := metering.Group{License: exampleLicense, Account: exampleAccount, Dimension: "api_calls", Hour: 492710} // 2026-03-17T14
	for _, tt := range []struct {
		name    string
		args    []string
		row     func(*metering.Row)
		touched func(metering.Row) bool
	}{
		{"rejected retry", []string{"rejected", "retry"}, func(r *metering.Row) { r.Status, r.StatusReason = metering.RejectedClientSide, "NegativeQuantity" },
			func(r metering.Row) bool { return r.Pending != "" }},
		{"late carry", []string{"late", "carry"}, func(r *metering.Row) { r.Status, r.StatusReason = metering.LateUsage, metering.LateReason },
			func(r metering.Row) bool { return r.Status == metering.Aggregated }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			store, err := sqlite.Open(t.Context(), folder.Store(dir), sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = store.Close() }()
			if err := folder.SetOffset(t.Context(), store, time.Until(g.Hour.Start().Add(119*time.Minute))); err != nil {
				t.Fatal(err)
			}
			list := make([]metering.Row, rows)
			for i := range list {
				list[i] = metering.NewRow(g, g.Hour.Second(i), 1)
				list[i].Pending = ""
				tt.row(&list[i])
			}
			if err := store.PutRows(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			if tt.name == "late carry" {
				record := metering.NewRecord(g, 7)
				record.Pending, record.Status, record.Manifest = "", metering.Success, "v1 1 7 3599:7"
				if err := store.PutRecord(t.Context(), record); err != nil {
					t.Fatal(err)
				}
			}
			args := append(tt.args, "--license", exampleLicense, "--store", dir, "--yes", "--json")
			first, errs := interruptedAt(t, args, func() bool {
				r, err := store.Row(t.Context(), g.License, list[20].SortKey)
				return err == nil && r != nil && tt.touched(*r)
			})
			if !strings.Contains(errs, "awsmp: interrupted: what is said above is done, and nothing else\nTry: awsmp "+strings.Join(args, " ")+"\n") {
				t.Errorf("it says %q", errs)
			}
			var second bytes.Buffer
			again := exec.Command("awsmp", args...)
			again.Stdout = &second
			if err := again.Run(); err != nil {
				t.Fatal(err)
			}
			done := [2]int{rowsOf(t, first), rowsOf(t, second.String())}
			if done[0] < 21 || done[1] == 0 || done[0]+done[1] != rows && done[0]+done[1] != rows-1 { // the interrupt may have hit a write whose answer was not heard
				t.Errorf("they did %d and %d of %d", done[0], done[1], rows)
			}
			touched := 0
			for r, err := range store.GroupRows(t.Context(), g) {
				if err != nil {
					t.Fatal(err)
				}
				if tt.touched(r) {
					touched++
				}
			}
			if touched != rows {
				t.Errorf("%d rows are done in the store, want %d", touched, rows)
			}
		})
	}
}

func rowsOf(t *testing.T, document string) int {
	t.Helper()
	var sum desk.Sum
	if err := json.Unmarshal([]byte(document), &sum); err != nil {
		t.Fatalf("%v in %.200s", err, document)
	}
	return sum.Rows
}

// interruptedAt runs awsmp and interrupts it when the moment has come. It returns what it printed, when it ended as interrupted.
func interruptedAt(t *testing.T, args []string, moment func() bool) (out, errs string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "awsmp", args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for !moment() && ctx.Err() == nil {
		runtime.Gosched()
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	if code := exitCodeOf(err); err == nil || code != "130" {
		t.Fatalf("it ended with %s: %s", code, stderr.String())
	}
	return stdout.String(), stderr.String()
}
