package memory

import "github.com/tidwall/btree"

// place is where a read stands: after this item.
type place struct{ license, key string }

// partition is all items of one license, in the order of their sort keys.
type partition[T any] struct {
	license string
	items   btree.Map[string, *T]
}

// shelf keeps items by license and sort key.
type shelf[T any] struct {
	partitions btree.Map[string, *partition[T]]
}

func (s *shelf[T]) get(at place) *T {
	p, ok := s.partitions.Get(at.license)
	if !ok {
		return nil
	}
	item, _ := p.items.Get(at.key)
	return item
}

// partition is that of a license, made where there is none.
func (s *shelf[T]) partition(license string) *partition[T] {
	p, ok := s.partitions.Get(license)
	if !ok {
		p = &partition[T]{license: license}
		s.partitions.Set(license, p)
	}
	return p
}

func (s *shelf[T]) remove(at place) {
	p, ok := s.partitions.Get(at.license)
	if !ok {
		return
	}
	p.items.Delete(at.key)
	if p.items.Len() == 0 {
		s.partitions.Delete(at.license)
	}
}

// from visits the items from a place on in order, of its license only or of that and every later one.
func (s *shelf[T]) from(start place, one bool, visit func(at place, item *T) bool) {
	s.partitions.Ascend(start.license, func(license string, p *partition[T]) bool {
		first := ""
		if license == start.license {
			first = start.key
		} else if one {
			return false
		}
		on := true
		p.items.Ascend(first, func(key string, item *T) bool {
			on = visit(place{license, key}, item)
			return on
		})
		return on
	})
}

// table is a shelf with its pending index. Items are never changed in place: a write puts another one in, so that the
// index may point at the very item and a reader may copy it at leisure.
type table[T any] struct {
	shelf[T]
	pending map[string]*shelf[T]
	bucket  func(*T) string
}

func newTable[T any](bucket func(*T) string) table[T] {
	return table[T]{pending: make(map[string]*shelf[T]), bucket: bucket}
}

// put puts an item into its license's partition, which is t.partition(license).
func (t *table[T]) put(p *partition[T], key string, item *T) {
	old, _ := p.items.Set(key, item)
	bucket, at := t.bucket(item), place{p.license, key}
	if old != nil && t.bucket(old) != bucket {
		t.unlist(at, t.bucket(old))
	}
	if bucket == "" {
		return
	}
	index, ok := t.pending[bucket]
	if !ok {
		index = new(shelf[T])
		t.pending[bucket] = index
	}
	index.partition(p.license).items.Set(key, item)
}

func (t *table[T]) remove(at place) {
	if old := t.get(at); old != nil {
		t.unlist(at, t.bucket(old))
		t.shelf.remove(at)
	}
}

func (t *table[T]) unlist(at place, bucket string) {
	index, ok := t.pending[bucket]
	if !ok {
		return
	}
	index.remove(at)
	if index.partitions.Len() == 0 {
		delete(t.pending, bucket)
	}
}
