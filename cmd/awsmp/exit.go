package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/awsmp/metering/internal/usagefile"
)

// The exit codes. The help topic below lists them.
const (
	exitOK      = 0
	exitError   = 1
	exitUsage   = 2
	exitRefused = 3
	exitUnsound = 4
)

const exitCodes = `awsmp ends with one of these codes:

  0  all is well
  1  something went wrong; the line that begins with awsmp: says what
  2  the command line is wrong: an unknown command, flag or value
  3  some lines of the file were refused; the others were taken, and the books balance
  4  the books do not balance, or differ from the Marketplace's own ledger for a reason that they do not name; awsmp prove:
     a day broke the law

Usage that is rejected, refused or late does not change the code: it has its place in the books.`

// failure is an error with an exit code and what to try. With no error nothing is left to be said.
type failure struct {
	code int
	err  error
	try  string
}

func (f *failure) Error() string {
	if f.err == nil {
		return ""
	}
	return f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

// misused is a wrong command line.
func misused(cmd *cobra.Command, err error) error {
	return &failure{exitUsage, err, cmd.CommandPath() + " --help"}
}

// unread is a file that cannot be read; its hint becomes what to try.
func unread(err error) error {
	var f *usagefile.FileError
	if errors.As(err, &f) {
		return &failure{exitError, err, f.Hint}
	}
	return &failure{code: exitError, err: err}
}

func newExitCodesTopic() *cobra.Command {
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: exitCodes}
}
