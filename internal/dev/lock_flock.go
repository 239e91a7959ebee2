//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package dev

import (
	"errors"
	"os"
	"syscall"
)

var errLocked = errors.New("locked by another process")

// lock takes the file for this process alone, until it is closed or the process ends in any way.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}
