// Package concurrency is how the stages do several things at once: on goroutines, or, where a simulation decides the order, one at
// a time. Code that waits for other code of its own run waits through it and through nothing else.
package concurrency

import (
	"context"
	"sync"
)

// Runner makes what a stage runs things with.
type Runner interface {
	// Group is a new group of functions, of which at most limit run at once; 0 means no limit.
	Group(limit int) Group
	// Semaphore is a new semaphore of n slots.
	Semaphore(n int) Semaphore
}

// Group runs functions beside their caller.
type Group interface {
	// Go starts f, as soon as the group's limit allows.
	Go(f func())
	// Wait returns when all that was started has returned.
	Wait()
}

// Semaphore bounds how many hold a slot at once.
type Semaphore interface {
	// Acquire takes a slot and waits for one where all are held. It reports false where ctx ends first.
	Acquire(ctx context.Context) bool
	Release()
}

// Or is r, or goroutines where r is nil.
func Or(r Runner) Runner {
	if r == nil {
		return Goroutines{}
	}
	return r
}

// Goroutines is the Runner of real life.
type Goroutines struct{}

func (Goroutines) Group(limit int) Group {
	g := &group{}
	if limit > 0 {
		g.slots = make(semaphore, limit)
	}
	return g
}

func (Goroutines) Semaphore(n int) Semaphore { return make(semaphore, n) }

type group struct {
	running sync.WaitGroup
	slots   semaphore // nil without a limit
}

func (g *group) Go(f func()) {
	if g.slots == nil {
		g.running.Go(f)
		return
	}
	g.slots <- struct{}{}
	g.running.Go(func() {
		defer g.slots.Release()
		f()
	})
}

func (g *group) Wait() { g.running.Wait() }

type semaphore chan struct{}

func (s semaphore) Acquire(ctx context.Context) bool {
	select {
	case s <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s semaphore) Release() { <-s }
