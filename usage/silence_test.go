package usage_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
	"github.com/awsmp/metering/usage"
)

// silent is a table that takes flushes in and says nothing of them.
type silent struct {
	usage.Table
	on bool
}

func (s *silent) FlushRows(ctx context.Context, flushes []metering.Flush) []metering.Flushed {
	if s.on {
		return nil
	}
	return s.Table.FlushRows(ctx, flushes)
}

// A flush that the table does not speak of is not known to be written: it is named, and sent again under its token.
func TestTableThatGivesNoAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &line{Table: memory.New(memory.Options{})}
		table := &silent{Table: l, on: true}
		w := writer(t, table, usage.Options{})
		add(t, w, used(3))
		if rows := rowErrors(t, w.Flush(t.Context())); len(rows) != 1 || !errors.Is(rows[0], usage.ErrUnknown) || !rows[0].Sent {
			t.Fatalf("Flush: %v", rows)
		}
		table.on = false
		if err := w.Flush(t.Context()); err != nil {
			t.Fatalf("Flush: %v", err)
		}
		if tokens := l.tokens(); len(tokens) != 1 {
			t.Errorf("it was added under %d tokens", len(tokens))
		}
	})
}
