package dev_test

import (
	"errors"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/dev"
	"github.com/awsmp/metering/internal/folder"
	"github.com/awsmp/metering/simulator"
)

// What a node was started with once holds for its folder: a start without the flags goes on with the same product and the same lock. Another
// product is refused, before anything is changed; another lock holds from then on.
func TestFolderKeepsProductAndLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	restart := func(change func(*dev.Options)) (is, was folder.Node) {
		m := start(t, dir, change)
		defer m.stop()
		var s dev.Status
		m.ask("GET", "/v1/status", nil, nil, &s)
		if is := m.GoesBy(); s.LockHours != is.LockHours {
			t.Errorf("the status says lock %d, the node %d", s.LockHours, is.LockHours)
		}
		return m.GoesBy(), m.Before()
	}
	steps := []struct {
		product string
		lock    int
		is, was folder.Node
	}{
		{"myprod", 3, folder.Node{ProductCode: "myprod", LockHours: 3}, folder.Node{LockHours: 1}},
		{"", 0, folder.Node{ProductCode: "myprod", LockHours: 3}, folder.Node{ProductCode: "myprod", LockHours: 3}},
		{"myprod", 2, folder.Node{ProductCode: "myprod", LockHours: 2}, folder.Node{ProductCode: "myprod", LockHours: 3}},
		{"", 0, folder.Node{ProductCode: "myprod", LockHours: 2}, folder.Node{ProductCode: "myprod", LockHours: 2}},
	}
	for i, step := range steps {
		is, was := restart(func(o *dev.Options) {
			o.ProductCode, o.LockHours = step.product, step.lock
			if i > 0 {
				o.At = time.Time{}
			}
		})
		if is != step.is || was != step.was {
			t.Errorf("start %d: is %+v, was %+v", i, is, was)
		}
	}

	data, err := dev.OpenFolder(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	before, _, err := folder.Offset(t.Context(), data.Store)
	if err != nil {
		t.Fatal(err)
	}
	var refused *dev.ProductError
	_, err = dev.New(t.Context(), dev.Options{Store: data.Store, ProductCode: "other", LockHours: 5, At: afternoon.Add(48 * time.Hour)})
	if !errors.As(err, &refused) || *refused != (dev.ProductError{Asked: "other", Kept: "myprod"}) {
		t.Errorf("another product: %v", err)
	}
	after, _, err := folder.Offset(t.Context(), data.Store)
	kept, failed := folder.NodeOf(t.Context(), data.Store)
	if err != nil || failed != nil || after != before || kept != steps[3].is {
		t.Errorf("the refused start left %+v and a clock moved by %v (%v, %v)", kept, after-before, err, failed)
	}
	if err := data.Close(); err != nil {
		t.Fatal(err)
	}
}

// A new folder has the simulator's product and a lock of one hour.
func TestNewFolderGoesByDefaults(t *testing.T) {
	t.Parallel()
	m := start(t, t.TempDir())
	if m.GoesBy() != (folder.Node{ProductCode: simulator.DefaultProductCode, LockHours: 1}) || m.Before().ProductCode != "" {
		t.Errorf("is %+v, was %+v", m.GoesBy(), m.Before())
	}
}
