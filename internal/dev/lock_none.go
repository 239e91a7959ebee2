//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package dev

import (
	"errors"
	"os"
)

var errLocked = errors.New("locked by another process")

// lock does nothing here: the syscall package of this system has no flock.
func lock(*os.File) error { return nil }
