package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/store/sqlite"
	"github.com/awsmp/metering/internal/usagefile"
)

// The exit codes. The help topic below lists them.
const (
	exitOK      = 0
	exitError   = 1
	exitUsage   = 2
	exitRefused = 3
	exitUnsound = 4

	exitInterrupted = 130 // as a shell says it: 128 and the signal's number
	exitPipe        = 141
)

const exitCodes = `awsmp ends with one of these codes:

  0  all is well
  1  something went wrong; the line that begins with awsmp: says what
  2  the command line is wrong: an unknown command, flag or value, or --yes is missing where nobody can be asked
  3  a part could not be done: some lines of the file were refused and the others taken, or some usage was left as it is, and
     the command says why
  4  the books do not balance, or differ from the Marketplace's own ledger for a reason that they do not name; awsmp prove:
     a day broke the law; awsmp verify: a case came out otherwise than it should
130  interrupted (Ctrl-C) at a safe point; what was done stays done, and the same command goes on from there
141  whoever read the output went away, as head does

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

// hinted is an error with what to try, where its cause knows that.
func hinted(err error) *failure {
	var f *failure
	var ofAWS *awsapi.Error
	var ofStore *sqlite.Problem
	switch {
	case errors.As(err, &f):
		return &failure{f.code, nonempty(err, f), f.try}
	case errors.As(err, &ofAWS) && ofAWS.Hint != "":
		return &failure{exitError, errors.New(strings.Replace(err.Error(), ". Try: "+ofAWS.Hint, "", 1)), ofAWS.Hint}
	case errors.As(err, &ofStore):
		return &failure{exitError, err, ofStore.Hint}
	}
	return &failure{code: exitError, err: err}
}

// nonempty is the whole error around a failure, nil where nothing is left to be said.
func nonempty(err error, f *failure) error {
	if f.err == nil {
		return nil
	}
	return err
}

func newExitCodesTopic() *cobra.Command {
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: exitCodes}
}
