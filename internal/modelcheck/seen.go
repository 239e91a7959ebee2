package modelcheck

import "hash/maphash"

// seen are the states visited, in the order in which they were met, each with the one that it was met from. They are compared in full: no
// state is taken for another.
type seen struct {
	chunks [][]visited // full but for the last: what is kept is never copied
	n      int
	table  []entry // open addressing
	seed   maphash.Seed
}

type visited struct {
	state
	parent uint32
}

const chunk = 1 << 15

// entry is a place of the table: a state's number + 1, and so much of its hash that others are rarely compared with it.
type entry struct {
	number uint32
	hash   uint32
}

func newSeen() *seen { return &seen{table: make([]entry, 1<<12), seed: maphash.MakeSeed()} }

func (s *seen) at(n uint32) *visited { return &s.chunks[n/chunk][n%chunk] }

// add takes a state in, unless it was met before.
func (s *seen) add(st state, parent uint32) {
	if 4*s.n >= 3*len(s.table) {
		s.grow()
	}
	hash := uint32(maphash.Comparable(s.seed, st))
	for i := s.place(hash); ; i = s.after(i) {
		switch e := &s.table[i]; {
		case e.number == 0:
			*e = entry{s.keep(st, parent) + 1, hash}
			return
		case e.hash == hash && s.at(e.number-1).state == st:
			return
		}
	}
}

func (s *seen) keep(st state, parent uint32) uint32 {
	if s.n%chunk == 0 {
		s.chunks = append(s.chunks, make([]visited, 0, chunk))
	}
	last := &s.chunks[len(s.chunks)-1]
	*last = append(*last, visited{st, parent})
	s.n++
	return uint32(s.n - 1)
}

func (s *seen) place(hash uint32) int { return int(hash) & (len(s.table) - 1) }

func (s *seen) after(i int) int { return (i + 1) & (len(s.table) - 1) }

func (s *seen) grow() {
	old := s.table
	s.table = make([]entry, 2*len(old))
	for _, e := range old {
		if e.number == 0 {
			continue
		}
		i := s.place(e.hash)
		for s.table[i].number != 0 {
			i = s.after(i)
		}
		s.table[i] = e
	}
}
