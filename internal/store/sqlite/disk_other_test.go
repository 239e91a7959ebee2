//go:build !unix

package sqlite_test

import "errors"

func fill(string, []string) error { return errors.ErrUnsupported }
