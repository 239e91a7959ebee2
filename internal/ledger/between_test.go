package ledger_test

import (
	"context"
	"iter"
	"testing"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
)

// committing is a store in which another row comes, and the group is committed with it, right after the rows were first read.
type committing struct {
	*memory.Store
	late metering.Row
	done bool
}

func (s *committing) GroupRows(ctx context.Context, g metering.Group) iter.Seq2[metering.Row, error] {
	return func(yield func(metering.Row, error) bool) {
		var rows []metering.Row
		for row, err := range s.Store.GroupRows(ctx, g) {
			rows = append(rows, row)
			if !yield(row, err) {
				return
			}
		}
		if s.done {
			return
		}
		s.done = true
		if err := s.PutRow(ctx, s.late); err != nil {
			panic(err)
		}
		if err := s.PutRecord(ctx, summed("", append(rows, s.late)...)); err != nil {
			panic(err)
		}
	}
}

// A group whose record appears while its rows are read is read anew: held against a record that is younger than they are, the rows would seem to
// have been taken out after they were billed.
func TestReadWhileTheGroupIsCommitted(t *testing.T) {
	t.Parallel()
	s := &committing{Store: memory.New(memory.Options{}), late: at(1, 4, "")}
	if err := s.PutRow(t.Context(), at(0, 5, "")); err != nil {
		t.Fatal(err)
	}
	b, err := ledger.Read(t.Context(), s, group)
	if err != nil {
		t.Fatal(err)
	}
	if !s.done || b.Written.Units != 9 || b.Place(ledger.InFlight).Units != 9 || b.Withdraw.Items != 0 || !b.Balanced() {
		t.Errorf("got %+v", b)
	}
}
