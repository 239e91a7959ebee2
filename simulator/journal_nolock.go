//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package simulator

import "os"

// lock does nothing here: the syscall package of this system has no flock.
func lock(*os.File) error { return nil }

func release(f *os.File) error { return f.Close() }
