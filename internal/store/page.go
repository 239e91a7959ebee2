package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// ErrStuck means that a read handed out the same cursor again: it would never end.
var ErrStuck = errors.New("the cursor does not advance")

// Pages reads page by page from the zero cursor on and yields one item after the other.
//
// Only a page without a cursor (more is false) ends the read; an empty page with one does not, since a store may stop
// at its size limit before it has found anything (Amazon DynamoDB API reference, Query: LastEvaluatedKey). A failed
// fetch, a cursor that comes back (ErrStuck) and a context that is done are yielded as the last thing. The sequence may
// be ranged over again and then reads anew.
func Pages[T any, C comparable](ctx context.Context, fetch func(ctx context.Context, cursor C) (items []T, next C, more bool, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var cursor, mark, none C
		fail := func(err error) {
			var zero T
			yield(zero, err)
		}
		for page, lap := 1, 1; ; page++ {
			if err := ctx.Err(); err != nil {
				fail(err)
				return
			}
			items, next, more, err := fetch(ctx, cursor)
			if err != nil {
				fail(err)
				return
			}
			for _, item := range items {
				if err := ctx.Err(); err != nil {
					fail(err)
					return
				}
				if !yield(item, nil) {
					return
				}
			}
			if !more {
				return
			}
			// A cursor may also come back after a detour: one is remembered for twice as many pages each time.
			if next == cursor || next == mark || next == none {
				fail(fmt.Errorf("read page %d: %w", page+1, ErrStuck))
				return
			}
			if page == lap {
				mark, lap = next, 2*lap
			}
			cursor = next
		}
	}
}
