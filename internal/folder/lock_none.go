//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package folder

import "os"

// lock does nothing here: the syscall package of this system has no flock.
func lock(*os.File) error { return nil }

func unlock(*os.File) error { return nil }
