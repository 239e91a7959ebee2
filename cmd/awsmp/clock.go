package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/awsmp/metering/internal/dev"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/node"
)

const clockLong = `Show the clock of awsmp dev, or move it forward.

Moving it plays every instant of the timetable on the way, one by one: what would be metered, sent, labelled or lost until
then is when the command ends. Ctrl-C stops it between two instants. The clock never goes back, not even over restarts.`

const clockExample = `  awsmp clock
  awsmp clock advance 90m
  awsmp clock to 2026-04-01T06:00:00Z`

func newClockCommand() *cobra.Command {
	var r remote
	cmd := &cobra.Command{
		Use:     "clock [advance DURATION | to TIME]",
		Short:   "Show or move the clock of awsmp dev",
		Long:    clockLong,
		Example: clockExample,
		Args: func(_ *cobra.Command, args []string) error {
			_, err := moveOf(args)
			return err
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			context.AfterFunc(ctx, stop) // the second signal ends the program at once
			if len(args) == 0 {
				clock, err := readClock(ctx, &r)
				if err == nil {
					_, err = fmt.Fprintln(cmd.OutOrStdout(), clock)
				}
				return err
			}
			move, _ := moveOf(args)
			began, err := decode[dev.Clock](r.call(ctx, http.MethodGet, "/v1/clock", nil))
			if err != nil {
				return err
			}
			text, err := r.call(ctx, http.MethodPost, "/v1/clock", move)
			if errors.Is(err, context.Canceled) {
				return stoppedClock(context.WithoutCancel(cmd.Context()), &r, began, move)
			}
			done, err := decode[node.Advanced](text, err)
			if err != nil {
				return err
			}
			clock, err := readClock(ctx, &r)
			if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s; %s played.\n", clock, ledger.Counted(int64(done.Instants), "instant"))
			}
			return err
		},
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		var unknown *pflag.NotExistError
		if errors.As(err, &unknown) && strings.Trim(unknown.GetSpecifiedName(), "0123456789.") == "" { // as in advance -5m
			return misused(cmd, errBack)
		}
		return cmd.Parent().FlagErrorFunc()(cmd, err)
	})
	flags := cmd.Flags()
	flags.SortFlags = false
	r.flags(flags)
	return cmd
}

var errBack = errors.New("the clock never goes back")

func moveOf(args []string) (m dev.Move, err error) {
	if len(args) == 0 {
		return m, nil
	}
	if len(args) != 2 {
		return m, errors.New("advance DURATION or to TIME is wanted")
	}
	switch args[0] {
	case "advance":
		d, err := time.ParseDuration(args[1])
		if err == nil && d < 0 {
			return m, errBack
		}
		if err != nil {
			return m, fmt.Errorf("%q is no duration; write it as 90m or 24h", args[1])
		}
		m.Advance = d.String()
		return m, nil
	case "to":
		m.To, err = parseInstant(args[1])
		return m, err
	}
	return m, fmt.Errorf("%q is not known: advance DURATION or to TIME is wanted", args[0])
}

func readClock(ctx context.Context, r *remote) (string, error) {
	clock, err := decode[dev.Clock](r.call(ctx, http.MethodGet, "/v1/clock", nil))
	offset, _ := time.ParseDuration(clock.Offset)
	return clockText(clock.Now, offset), err
}

// stoppedClock says where an advance has stopped that its caller gave up.
func stoppedClock(ctx context.Context, r *remote, began dev.Clock, move dev.Move) error {
	clock, err := readClock(ctx, r)
	if err != nil {
		return err
	}
	to := move.To
	if by, err := time.ParseDuration(move.Advance); err == nil { // advance again would go that far once more
		to = began.Now.Add(by)
	}
	return &failure{exitError, fmt.Errorf("interrupted; the clock shows %s", clock),
		"to go on: awsmp clock to " + to.UTC().Format(time.RFC3339) + dataFlag(r.data)}
}
