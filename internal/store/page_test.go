package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/store"
)

type page struct {
	items []int
	next  string // empty: the read ends here
}

// script is a store that answers with the pages that it was given, by cursor.
func script(pages map[string]page) func(context.Context, string) ([]int, string, bool, error) {
	return func(_ context.Context, cursor string) ([]int, string, bool, error) {
		p, ok := pages[cursor]
		if !ok {
			return nil, "", false, errors.New("asked for a page that nothing pointed to: " + cursor)
		}
		return p.items, p.next, p.next != "", nil
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		pages map[string]page
		want  []int
		err   error
	}{
		{name: "nothing", pages: map[string]page{"": {}}},
		{name: "one page", pages: map[string]page{"": {items: []int{1, 2}}}, want: []int{1, 2}},
		{name: "case 41: two full pages exactly", pages: map[string]page{"": {[]int{1, 2}, "2"}, "2": {[]int{3, 4}, "4"}, "4": {}}, want: []int{1, 2, 3, 4}},
		{name: "case 41: an empty page in the middle", pages: map[string]page{"": {[]int{1}, "1"}, "1": {nil, "8"}, "8": {items: []int{9}}}, want: []int{1, 9}},
		{name: "an empty page first", pages: map[string]page{"": {nil, "8"}, "8": {items: []int{9}}}, want: []int{9}},
		{name: "a cursor that stands still", pages: map[string]page{"": {[]int{1}, "1"}, "1": {[]int{2}, "1"}}, want: []int{1, 2}, err: store.ErrStuck},
		{name: "a cursor that stands still later", pages: map[string]page{"": {[]int{1}, "1"}, "1": {[]int{2}, "2"}, "2": {[]int{3}, "3"}, "3": {[]int{4}, "3"}}, want: []int{1, 2, 3, 4}, err: store.ErrStuck},
		{name: "a cursor that goes round", pages: map[string]page{"": {nil, "1"}, "1": {nil, "2"}, "2": {nil, "3"}, "3": {nil, "1"}}, err: store.ErrStuck},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			seq := store.Pages(t.Context(), script(tt.pages))
			for range 2 { // a sequence may be read again
				var got []int
				var failed error
				for item, err := range seq {
					if err != nil {
						failed = err
						continue
					}
					got = append(got, item)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("items (-want +got):\n%s", diff)
				}
				if !errors.Is(failed, tt.err) {
					t.Errorf("error %v, want %v", failed, tt.err)
				}
			}
		})
	}
}

// The zero cursor together with "there is more" would begin the read anew.
func TestPagesRefuseTheZeroCursor(t *testing.T) {
	t.Parallel()
	fetches := 0
	seq := store.Pages(t.Context(), func(context.Context, string) ([]int, string, bool, error) {
		fetches++
		return []int{1}, "", true, nil
	})
	var last error
	for _, err := range seq {
		last = err
	}
	if fetches != 1 || !errors.Is(last, store.ErrStuck) {
		t.Errorf("%d fetches and %v, want 1 and %v", fetches, last, store.ErrStuck)
	}
}

// Case 39: 6,000 items, 700 a page.
func TestPagesReadEveryPage(t *testing.T) {
	t.Parallel()
	const total, perPage = 6000, 700
	n, fetches := 0, 0
	for item, err := range store.Pages(t.Context(), func(_ context.Context, from int) ([]int, int, bool, error) {
		fetches++
		var items []int
		for i := from; i < min(from+perPage, total); i++ {
			items = append(items, i)
		}
		return items, from + len(items), from+len(items) < total, nil
	}) {
		if err != nil || item != n {
			t.Fatalf("item %d is %d, %v", n, item, err)
		}
		n++
	}
	if n != total || fetches != 9 {
		t.Errorf("%d items in %d fetches, want %d in 9", n, fetches, total)
	}
}

func TestPagesEndEarly(t *testing.T) {
	t.Parallel()
	endless := func(_ context.Context, from int) ([]int, int, bool, error) {
		return []int{from, from}, from + 1, true, nil
	}

	t.Run("a consumer that has enough", func(t *testing.T) {
		t.Parallel()
		n := 0
		for range store.Pages(t.Context(), endless) {
			if n++; n == 3 {
				break
			}
		}
		if n != 3 {
			t.Errorf("%d items, want 3", n)
		}
	})
	t.Run("a context that is done", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := 0
		var last error
		for _, err := range store.Pages(ctx, endless) {
			if last = err; err != nil {
				continue
			}
			if n++; n == 3 { // in the middle of a page
				cancel()
			}
		}
		if n != 3 || !errors.Is(last, context.Canceled) {
			t.Errorf("%d items and %v, want 3 and %v", n, last, context.Canceled)
		}
	})
	t.Run("a fetch that fails", func(t *testing.T) {
		t.Parallel()
		broken := errors.New("throttled")
		var got []error
		for _, err := range store.Pages(t.Context(), func(_ context.Context, from int) ([]int, int, bool, error) {
			if from == 1 {
				return nil, 0, false, broken
			}
			return []int{from}, from + 1, true, nil
		}) {
			got = append(got, err)
		}
		if len(got) != 2 || got[0] != nil || !errors.Is(got[1], broken) {
			t.Errorf("got %v, want one item and then %v", got, broken)
		}
	})
}
