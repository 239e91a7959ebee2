package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/store/dynamodb"
)

// consent is a person's word that something may be changed, or read at a price.
type consent struct {
	dryRun bool // only looks; the command asks nobody then
	yes    bool
}

// flags are those of a command that changes something.
func (c *consent) flags(flags *pflag.FlagSet) {
	flags.BoolVar(&c.dryRun, "dry-run", false, "say what would be done, and change nothing")
	c.yesFlag(flags)
}

// yesFlag is the flag of a command that only reads, at a price.
func (c *consent) yesFlag(flags *pflag.FlagSet) {
	flags.BoolVar(&c.yes, "yes", false, "go on without asking")
}

// errNotAgreed is a person's no.
var errNotAgreed = errors.New("not agreed to: nothing was done")

// ask returns nil where it may go on: with --yes, or when the person at the terminal says so. The question is a full sentence that
// ends without a mark; what is behind it has been printed before. Without a terminal and without --yes nobody can agree.
func (c *consent) ask(cmd *cobra.Command, question string) error {
	if c.yes {
		return nil
	}
	without := &failure{exitUsage, errors.New("--yes is needed where nobody can be asked; nothing was done"), again(cmd, "--yes")}
	in, errs := cmd.InOrStdin(), cmd.ErrOrStderr()
	if file, ok := in.(*os.File); !ok || !term.IsTerminal(int(file.Fd())) {
		return without
	}
	fmt.Fprintf(errs, "%s? [y/N] ", question)
	type reply struct {
		line string
		err  error
	}
	said := make(chan reply, 1)
	go func() { // a read from a terminal cannot be called back: an interrupted command leaves it behind and ends
		line, err := bufio.NewReader(in).ReadString('\n')
		said <- reply{line, err}
	}()
	select {
	case <-cmd.Context().Done():
		fmt.Fprintln(errs)
		return cmd.Context().Err()
	case r := <-said:
		switch answer := strings.ToLower(strings.TrimSpace(r.line)); {
		case answer == "y", answer == "yes":
			return nil
		case errors.Is(r.err, io.EOF) && answer == "":
			fmt.Fprintln(errs)
			return without
		}
		return &failure{exitUsage, errNotAgreed, ""}
	}
}

// cheap is the price in dollars below which what only reads asks nobody: a cent.
const cheap = 0.01

// prices makes a place tell the price of a whole table before it is read, once a table, and ask where all of it comes to a cent or more. Times
// says how often a table is read.
func (c *consent) prices(cmd *cobra.Command, p *place, times int) {
	told, sum := make(map[string]bool), 0.0
	p.scans.Announce = func(price dynamodb.ScanPrice) error {
		if told[price.Table] {
			return nil
		}
		often := ""
		if times == 2 {
			often = ", twice,"
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "Without --license this takes%s %s.\n", often, price)
		if sum += price.Dollars * float64(times); sum >= cheap {
			if err := c.ask(cmd, "Go on"); err != nil {
				return err
			}
		}
		told[price.Table] = true
		return nil
	}
}

// change runs what changes something: with --yes at once; with --dry-run it only looks; and else it looks, shows what it would do, asks, and then
// does it. Words show an outcome, and question is empty where there is nothing to do. The last outcome is returned beside an error too, and
// has been shown.
func change[T any](
	cmd *cobra.Command, c consent, asJSON bool, act func(ctx context.Context, dryRun bool) (T, error), words func(io.Writer, T) error, question func(T) string,
) (T, error) {
	out := cmd.OutOrStdout()
	tell := func(v T) error {
		if asJSON {
			return writeJSON(out, v)
		}
		return words(out, v)
	}
	if !c.yes || c.dryRun {
		v, err := act(cmd.Context(), true)
		if err != nil {
			return v, err
		}
		q := question(v)
		if !asJSON || c.dryRun || q == "" {
			if err := tell(v); err != nil {
				return v, err
			}
		}
		if c.dryRun || q == "" {
			return v, nil
		}
		if err := c.ask(cmd, q); err != nil {
			return v, err
		}
	}
	v, err := act(cmd.Context(), false)
	some := question(v) != ""
	if err == nil || some {
		if err := tell(v); err != nil {
			return v, err
		}
	}
	switch {
	case err == nil:
		return v, nil
	case cmd.Context().Err() == nil && some:
		return v, &failure{exitError, fmt.Errorf("what is said above is done, the rest is not: %w", err), again(cmd)}
	case cmd.Context().Err() == nil:
		return v, err
	case some:
		return v, &failure{exitInterrupted, errors.New("interrupted: what is said above is done, and nothing else"), again(cmd)}
	}
	return v, &failure{exitInterrupted, errors.New("interrupted: nothing was done"), again(cmd)}
}

// again is the command line as it was given, ready to be copied, with more flags behind it.
func again(cmd *cobra.Command, more ...string) string {
	line := cmd.CommandPath()
	for _, arg := range cmd.Flags().Args() {
		line += " " + desk.Word(arg)
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			switch {
			case f.Value.Type() != "bool":
				line += " --" + f.Name + " " + desk.Word(v)
			case v == "true":
				line += " --" + f.Name
			default:
				line += " --" + f.Name + "=" + v
			}
		}
	})
	for _, flag := range more {
		line += " " + flag
	}
	return line
}
