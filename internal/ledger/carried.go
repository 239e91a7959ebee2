package ledger

import (
	"context"
	"fmt"

	"github.com/awsmp/metering/internal/metering"
)

// follow looks for what was carried from the group's hour where its record says that it went. The source no longer holds it, so a target that
// its own seller has written over is the only way in which it can be lost without a trace in any row.
func (b *Balance) follow(ctx context.Context, store Store) error {
	if b.record == nil {
		return nil
	}
	list, kept := b.record.Carried()
	if !kept {
		b.find("the record's %s, what was carried from its hour, cannot be read: restore it from a backup", metering.AttrCarried)
		return nil
	}
	targets := make(map[metering.Group]target)
	for _, c := range list {
		key, _ := metering.ParseRowKey(c.To)
		g := key.Group(b.Group.License)
		t, looked := targets[g]
		if !looked {
			var err error
			if t, err = look(ctx, store, g); err != nil {
				return err
			}
			targets[g] = t
		}
		from, there := t.from[key.Second]
		committed, _ := t.manifest.Quantity(key.Second)
		switch {
		case from == b.Group.RowKey(c.Second), committed >= c.Quantity: // once it is committed, its row may go
		case there:
			b.find("%d units carried to %s are not there: another row stands in its place", c.Quantity, c.To)
		case !c.Lapses:
			b.find("%d units carried to %s are not there: the row is gone", c.Quantity, c.To)
		}
	}
	return nil
}

// target is a group that units were carried to.
type target struct {
	from     map[metering.Second]string // of each row, the key that it was carried from; empty where it was not
	manifest metering.Manifest
}

func look(ctx context.Context, store Store, g metering.Group) (target, error) {
	t := target{from: make(map[metering.Second]string)}
	for row, err := range store.GroupRows(ctx, g) {
		if err != nil {
			return t, fmt.Errorf("read the rows that units were carried to: %w", err)
		}
		if second, ours := g.Contains(row.SortKey); ours {
			t.from[second], _ = row.Other[metering.AttrCarriedFrom].(string)
		}
	}
	record, err := store.Record(ctx, g)
	if err != nil {
		return t, fmt.Errorf("read the record that units were carried to: %w", err)
	}
	if record != nil {
		t.manifest, _ = record.Covers() // one that cannot be read is its own group's finding
	}
	return t, nil
}
