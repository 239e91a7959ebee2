// Command awsmp meters usage to AWS Marketplace.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run runs one command line and returns its exit code. The first interrupt ends the command's context, so that it ends at a safe point;
// the second ends the program at once.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	outer := ctx
	ctx, stop := signal.NotifyContext(outer, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, syscall.EPIPE): // whoever read the output has seen enough
		return exitPipe
	}
	f := hinted(err)
	if ctx.Err() != nil && outer.Err() == nil {
		f.code = exitInterrupted
		if errors.Is(err, context.Canceled) && f.try == "" {
			f.err = errors.New("interrupted")
		}
	}
	if f.err != nil {
		fmt.Fprintf(errs, "awsmp: %v\n", f.err)
	}
	if f.try != "" {
		fmt.Fprintf(errs, "Try: %s\n", f.try)
	}
	return f.code
}

const rootLong = `Meter the usage of a SaaS product on AWS Marketplace, so that every unit is billed once or has a name.

Start here: awsmp demo plays a day of usage through the whole pipeline on this machine and shows the books at its end.`

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "awsmp",
		Short:         "Meter usage to AWS Marketplace",
		Long:          rootLong,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		text, _, _ := strings.Cut(err.Error(), ": strconv.") // how the value was parsed is nobody's concern
		return misused(cmd, errors.New(text))
	})
	root.AddCommand(
		newClockCommand(),
		newDemoCommand(),
		newDevCommand(),
		newDlqCommand(),
		newDryrunCommand(),
		newEventsCommand(),
		newExplainCommand(),
		newImportCommand(),
		newLedgerCommand(),
		newLateCommand(),
		newPreflightCommand(),
		newProveCommand(),
		newRefusedCommand(),
		newRejectedCommand(),
		newSimulatorCommand(),
		newStatusCommand(),
		newVerifyCommand(),
		newVersionCommand(),
		newExitCodesTopic(),
	)
	alike(root)
	return root
}

// group is a command that has commands under it, and by itself only says which.
func group(use, short, long, example string, under ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:                        use,
		Short:                      short,
		Long:                       long,
		Example:                    example,
		Args:                       knownCommand,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SuggestionsMinimumDistance: 2,
	}
	cmd.AddCommand(under...)
	return cmd
}

// alike makes all commands under one speak of a wrong command line in the same way.
func alike(parent *cobra.Command) {
	for _, cmd := range parent.Commands() {
		cmd.DisableFlagsInUseLine = true
		if check := cmd.Args; check != nil {
			cmd.Args = func(cmd *cobra.Command, args []string) error {
				err := check(cmd, args)
				if err != nil && !cmd.HasSubCommands() && strings.HasPrefix(err.Error(), "unknown command ") { // so cobra.NoArgs says it
					err = fmt.Errorf("%s takes no argument like %q", cmd.Name(), args[0])
				}
				if err != nil {
					return misused(cmd, err)
				}
				return nil
			}
		}
		alike(cmd)
	}
}

// knownCommand is the Args of a command that has commands under it.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("there is no command %q", args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		err = fmt.Errorf("%w; did you mean %s %s?", err, cmd.CommandPath(), strings.Join(near, " or "))
	}
	return misused(cmd, err)
}
