//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package simulator

import (
	"errors"
	"os"
	"syscall"
)

// lock takes the file for this process alone, until it is closed or the process ends in any way.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errInUse
	}
	return err
}

// release closes the file and gives it free. Closing alone would not do while a process is being started: until its exec, a
// fork holds a copy of the file, and the lock with it.
func release(f *os.File) error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
}
