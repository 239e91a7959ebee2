package simulator

import (
	"io"
	"os"
)

// WriteJournalThrough puts a writer between the simulator and the file of its journal: a disk that fails.
func (s *Simulator) WriteJournalThrough(wrap func(io.WriterAt) io.WriterAt) {
	s.journal.out = wrap(s.journal.out)
}

// JournalFile is the open file of the journal.
func (s *Simulator) JournalFile() *os.File { return s.journal.file }

// BreakJournalFile makes every later operation on the journal's file fail, cutting it included.
func (s *Simulator) BreakJournalFile() { _ = release(s.journal.file) }
