package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/awsmp/metering/internal/desk"
)

const dlqRedriveLong = `Put dead letters back to where they came from, one by one, when what failed is mended: the QUEUE's, or with --all those of all queues.

Nothing is billed twice by it: a group that is visited twice is summed once, labels and events are the same however often they are
applied. A message is put in before it is taken out, so one that an interrupt hits may be in both queues; run again, it does the rest.

It asks before it changes anything; --yes does not ask.`

func newDlqRedriveCommand() *cobra.Command {
	var (
		at     place
		all    bool
		agreed consent
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "redrive QUEUE | --all",
		Short: "Put dead letters back to where they came from",
		Long:  dlqRedriveLong,
		Example: `  awsmp dlq redrive work-dlq --stack awsmp-exampleproduct-metering --dry-run
  awsmp dlq redrive work-dlq --stack awsmp-exampleproduct-metering
  awsmp dlq redrive --all --stack awsmp-exampleproduct-metering --yes`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case all && len(args) > 0:
				return errors.New("--all is of all queues: it takes no QUEUE beside it")
			case !all:
				return oneQueue(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			d, closeDesk, err := deadDesk(cmd, &at)
			if err != nil {
				return err
			}
			defer func() { _ = closeDesk() }()
			var queues []desk.Queue
			if all {
				queues, err = d.DeadQueues(cmd.Context())
			} else {
				queues = make([]desk.Queue, 1)
				queues[0], err = deadQueue(cmd, d, args[0], d.Flags)
			}
			if err != nil {
				return err
			}
			return redriveAll(cmd, d, queues, agreed, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&all, "all", false, "of all queues")
	agreed.flags(flags)
	flags.BoolVar(&asJSON, "json", false, "write one JSON document")
	at.flags(flags)
	return cmd
}

// redrives is what became of the dead letters, as one JSON document.
type redrives struct {
	DryRun bool            `json:"dryRun"`
	Moved  int             `json:"moved"`
	Stay   int             `json:"stay"` // are still there, of the queues that were asked for
	Queues []desk.Redriven `json:"queues"`
}

// redriveInterrupted is why letters stay that an interrupt has left.
const redriveInterrupted = "interrupted"

func redriveAll(cmd *cobra.Command, d *desk.Desk, queues []desk.Queue, agreed consent, asJSON bool) error {
	found, done := redrives{DryRun: true, Queues: []desk.Redriven{}}, redrives{Queues: []desk.Redriven{}}
	for _, q := range queues {
		found.Stay += q.Visible + q.InFlight
		found.Queues = append(found.Queues, desk.Redriven{Queue: q.Name, Stay: q.Visible + q.InFlight})
	}
	tell := func(r redrives) error {
		if asJSON {
			return writeJSON(cmd.OutOrStdout(), r)
		}
		return writeRedrives(cmd.OutOrStdout(), r)
	}
	if agreed.dryRun || found.Stay == 0 {
		found.DryRun = agreed.dryRun
		return tell(found)
	}
	if err := agreed.ask(cmd, "Put "+counted(found.Stay, "dead letter", "dead letters")+" back"); err != nil {
		return err
	}
	bar := newDeadBar(cmd.ErrOrStderr(), found.Stay, asJSON)
	var failed error
	for _, q := range queues { // each that was asked for is told of; one that fails stops none of the others
		r := desk.Redriven{Queue: q.Name, Stay: q.Visible + q.InFlight}
		if r.Stay > 0 && cmd.Context().Err() == nil {
			before := done.Moved
			var err error
			r, err = d.Redrive(cmd.Context(), q, func(n int) { bar.moved(before + n) })
			failed = errors.Join(failed, err)
		}
		if r.Stay > 0 && cmd.Context().Err() != nil {
			r.Failed = redriveInterrupted
		}
		done.Moved, done.Stay, done.Queues = done.Moved+r.Moved, done.Stay+r.Stay, append(done.Queues, r)
	}
	bar.close()
	switch err := tell(done); {
	case err != nil:
		return err
	case cmd.Context().Err() != nil && (failed != nil || done.Stay > 0):
		return &failure{exitInterrupted, errors.New("interrupted: what is said above is done"), again(cmd)}
	case failed != nil:
		f := hinted(failed)
		f.try = cmp.Or(f.try, again(cmd))
		return f
	case done.Stay > 0:
		return &failure{code: exitRefused}
	}
	return nil
}

func writeRedrives(out io.Writer, r redrives) error {
	var b strings.Builder
	switch {
	case r.Moved == 0 && r.Stay == 0:
		b.WriteString("There are no dead letters.\n")
	case r.DryRun:
		fmt.Fprintf(&b, "Dry run: %s would be put back. Nothing is changed.\n", counted(r.Stay, "dead letter", "dead letters"))
	default:
		fmt.Fprintf(&b, "Put back: %s.\n", counted(r.Moved, "dead letter", "dead letters"))
	}
	for _, q := range r.Queues {
		switch {
		case q.Moved+q.Stay == 0:
		case r.DryRun:
			fmt.Fprintf(&b, "  %s: %d\n", q.Queue, q.Stay)
		case q.Failed == redriveInterrupted:
			fmt.Fprintf(&b, "  %s: %d, and %d stay there: %s\n", q.Queue, q.Moved, q.Stay, q.Failed)
		case q.Failed != "":
			fmt.Fprintf(&b, "  %s: %d, and %d stay there: it failed\n", q.Queue, q.Moved, q.Stay)
		case q.Stay > 0:
			fmt.Fprintf(&b, "  %s: %d, and %d stay there: looked at elsewhere, or come since; ask again in a minute\n", q.Queue, q.Moved, q.Stay)
		default:
			fmt.Fprintf(&b, "  %s: %d\n", q.Queue, q.Moved)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// deadBar shows on a terminal how far a redrive is; elsewhere nothing.
type deadBar struct{ bar *progressbar.ProgressBar }

func newDeadBar(errs io.Writer, n int, quiet bool) *deadBar {
	file, ok := errs.(*os.File)
	if !ok || quiet || !term.IsTerminal(int(file.Fd())) {
		return &deadBar{}
	}
	return &deadBar{progressbar.NewOptions(n, progressbar.OptionSetWriter(errs), progressbar.OptionSetDescription("putting back"),
		progressbar.OptionShowCount(), progressbar.OptionClearOnFinish())}
}

func (b *deadBar) moved(n int) {
	if b.bar != nil {
		_ = b.bar.Set(min(n, b.bar.GetMax()))
	}
}

func (b *deadBar) close() {
	if b.bar != nil {
		_ = b.bar.Clear()
	}
}
