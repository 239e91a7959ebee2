// Package faults keeps errors that hold up nothing else: where a table or a service cannot be reached, everything fails alike, and a few words tell it
// as well as thousands.
package faults

import (
	"errors"
	"fmt"
	"sync"
)

// Told is how many errors are told one by one; the others are counted.
const Told = 8

// List is such errors. The zero value is ready; it is safe for concurrent use.
type List struct {
	mu    sync.Mutex
	first []error
	more  int
}

// Add adds an error; nil adds nothing.
func (l *List) Add(err error) {
	if err == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.first) < Told {
		l.first = append(l.first, err)
	} else {
		l.more++
	}
}

// Err joins the errors, and says how many there are beyond those told; nil where there is none.
func (l *List) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := errors.Join(l.first...)
	if l.more > 0 {
		err = errors.Join(err, fmt.Errorf("and %d errors more", l.more))
	}
	return err
}
