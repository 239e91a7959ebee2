package local_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/desk/local"
	"github.com/awsmp/metering/internal/dev"
	"github.com/awsmp/metering/internal/folder"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/simulator"
)

func open(t *testing.T, dir string) *desk.Desk {
	t.Helper()
	d, closeDesk, err := local.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closeDesk(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// A folder without a store is left as it is.
func TestNoStore(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "missing")} {
		if _, _, err := local.Open(t.Context(), dir); !errors.Is(err, local.ErrNoStore) {
			t.Errorf("opened: %v", err)
		}
		if left, _ := os.ReadDir(dir); len(left) != 0 {
			t.Errorf("left in the folder: %v", left)
		}
	}
}

// running is a node that runs on a folder until the test stops it.
func running(t *testing.T, dir string) (machine *dev.Machine, stop func()) {
	t.Helper()
	data, err := dev.OpenFolder(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 3, 10, 15, 20, 0, 0, time.UTC)
	machine, err = dev.New(t.Context(), dev.Options{Store: data.Store, StorePath: data.StorePath(), ProductCode: "exampleproduct", LockHours: 3, At: at})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := data.Announce("http://" + listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- machine.Serve(ctx, listener) }()
	return machine, func() {
		cancel()
		if err := errors.Join(<-served, machine.Close(t.Context()), data.Close()); err != nil {
			t.Error(err)
		}
	}
}

// Beside a node the desk has its clock, its settings and its plant; when the node is gone, all but the plant.
func TestBesideANode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	machine, stop := running(t, dir)
	d := open(t, dir)
	if d.ProductCode != "exampleproduct" || d.Rules.LockHours != 3 || d.Now().Sub(machine.Now()).Abs() > time.Minute || d.Plant == nil {
		t.Errorf("desk %+v at %v", d, d.Now())
	}
	queues, err := d.Plant.Queues(t.Context())
	want := []desk.Queue{
		{Name: "work"}, {Name: "work-dlq", Dead: true}, {Name: "deprovision-work"}, {Name: "deprovision-work-dlq", Dead: true}, {Name: "cleanup"}, {Name: "cleanup-dlq", Dead: true},
	}
	if diff := cmp.Diff(want, queues); diff != "" || err != nil {
		t.Errorf("queues, %v (-want +got):\n%s", err, diff)
	}
	stages, err := d.Plant.Stages(t.Context())
	if err != nil || len(stages) != 8 || stages[0].Name != metering.MeterSchedule.Name || stages[0].Next.IsZero() {
		t.Errorf("stages %+v, %v", stages, err)
	}
	for _, q := range want {
		letters, err := d.Plant.Letters(t.Context(), q.Name, 5)
		moved, failed := d.Plant.Redrive(t.Context(), q.Name, func(int) { t.Error("moved what is not there") })
		if (err == nil) != q.Dead || (failed == nil) != q.Dead || len(letters) != 0 || moved != 0 {
			t.Errorf("letters of %s: %v, %v; redriven %d, %v", q.Name, letters, err, moved, failed)
		}
	}
	s, err := d.Status(t.Context(), desk.StatusOptions{})
	if err != nil || s.Node == "" || s.Started.IsZero() || s.Marketplace != "simulator" || len(s.Gaps) > 0 || len(s.Findings) > 0 {
		t.Errorf("status %+v, %v", s, err)
	}

	stop()
	alone := open(t, dir)
	if alone.Plant != nil || alone.ProductCode != "exampleproduct" || alone.Rules.LockHours != 3 || alone.Now().Sub(d.Now()).Abs() > time.Minute {
		t.Errorf("without the node: %+v at %v", alone, alone.Now())
	}
	if s, err = alone.Status(t.Context(), desk.StatusOptions{}); err != nil || s.Node != "" || s.Store != folder.Store(dir) {
		t.Errorf("status %+v, %v", s, err)
	}
}

// A node that died without a word is none, and an address that leads to something else is none either.
func TestDeadNode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, err := folder.OpenStore(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	for _, owner := range []string{`{"process": 1, "node": "http://127.0.0.1:1"}`, ""} {
		if err := os.WriteFile(folder.Lock(dir), []byte(owner), 0o644); err != nil {
			t.Fatal(err)
		}
		if d := open(t, dir); d.Plant != nil || d.ProductCode != simulator.DefaultProductCode || d.Rules.LockHours != 1 {
			t.Errorf("desk %+v", d)
		}
	}
}

// A node that takes a connection and says nothing holds nobody up: it is no plant, and is told apart from one that is gone.
func TestHangingNode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, err := folder.OpenStore(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	hanging, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer hanging.Close()
	address := "http://" + hanging.Addr().String()
	if err := os.WriteFile(folder.Lock(dir), []byte(`{"process": 1, "node": "`+address+`"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if d := open(t, dir); d.Plant != nil || d.Silent != address {
		t.Errorf("desk %+v", d)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := local.Open(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	d, closeDesk, err := local.OpenTables(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if d.Plant != nil || d.Silent != "" {
		t.Errorf("the node was asked: %+v", d)
	}
	if err := closeDesk(); err != nil {
		t.Error(err)
	}
}
