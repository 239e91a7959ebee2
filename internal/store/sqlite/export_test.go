package sqlite

import (
	"context"
	"maps"
	"slices"

	"github.com/awsmp/metering/internal/metering"
)

// Unsynced are the options of a store whose changes do not wait for the disk.
func (o Options) Unsynced() Options {
	o.unsynced = true
	return o
}

// Readers is how many reads may go on at once.
const Readers = readers

// Version is the newest version of a file.
func Version() int { return len(migrations) }

// MaxPage is how many items a page holds at most.
const MaxPage = maxPage

// HoldReaders takes n connections for reading away until release is called.
func (s *Store) HoldReaders(n int) (release func()) {
	var held []*conn
	for range n {
		held = append(held, <-s.readers)
	}
	return func() {
		for _, c := range held {
			s.readers <- c
		}
	}
}

// FreeReaders is how many connections for reading no read holds.
func (s *Store) FreeReaders() int { return len(s.readers) }

// Statements are the texts of all statements that the store has prepared so far, and has still. Nothing else may use it meanwhile.
func (s *Store) Statements() []string {
	all := make(map[string]bool)
	take := func(c *conn) {
		for text := range c.statements {
			all[text] = true
		}
	}
	take(s.writer)
	for range readers {
		c := <-s.readers
		take(c)
		defer func() { s.readers <- c }()
	}
	return slices.Sorted(maps.Keys(all))
}

// PutSubscriber puts an item into the table of subscribers, as no stage does.
func (s *Store) PutSubscriber(ctx context.Context, item metering.Item) error {
	return s.write(ctx, 1, func(tx *session) error { return tx.putItem(putSubscriber, item) })
}

// Script runs statements on the connection that writes, between two changes.
func (s *Store) Script(text string) error {
	return s.write(context.Background(), 0, func(tx *session) error { return refused(tx.script(text)) })
}

var ErrClosed = errClosed
