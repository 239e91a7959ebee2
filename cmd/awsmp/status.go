package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/awsmp/metering/internal/desk"
)

const statusLong = `Show what wants you, what waits and how long it can still be billed, queues and dead letters, the licenses in their last hour, the
stages' last runs, and where the units of today and of this month are.

The place is a deployed stack (--stack, with --region), or a data folder on this machine, with the node that runs on it if one does. A
node elsewhere is named by its address with --node.

What wants you is listed first, the most urgent on top, each with the name of its alarm and a command. awsmp explain with that name says what
it means and what to do.

On one machine units are counted by the hour of their usage, from the tables. On AWS they are counted by the metrics, in the hour in which
that became of them: awsmp ledger recomputes them from the tables.`

const statusExample = `  awsmp status
  awsmp status --stack awsmp-exampleproduct-metering --region us-east-1
  awsmp status --watch
  awsmp status --json

  # In a script: wait until the node is there.
  awsmp dev &
  awsmp status --wait 10s`

type statusFlags struct {
	place       place
	json, watch bool
	every, wait time.Duration
}

func newStatusCommand() *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show what wants you, what waits and until when, and where units are",
		Long:    statusLong,
		Example: statusExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("status takes no word, and %q is one: a place is named by a flag", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	f.place.flags(flags)
	f.place.nodeFlag(flags)
	flags.BoolVarP(&f.watch, "watch", "w", false, "show it again and again, until Ctrl-C")
	flags.DurationVar(&f.every, "every", 5*time.Second, "how often with --watch")
	flags.BoolVar(&f.json, "json", false, "write one JSON document; with --watch one a line")
	flags.DurationVar(&f.wait, "wait", 0, "how long to wait for a node that is not there yet")
	return cmd
}

func (f *statusFlags) run(cmd *cobra.Command) error {
	if err := f.place.settle(cmd); err != nil {
		return err
	}
	switch {
	case f.every < time.Second:
		return misused(cmd, fmt.Errorf("--every is %v, and must be a second or more", f.every))
	case f.place.given("every") && !f.watch:
		return misused(cmd, errors.New("--every is for --watch"))
	case f.wait != 0 && f.place.stack != "":
		return misused(cmd, errors.New("--wait is for a node, and a stack has none"))
	}
	if f.wait > 0 {
		if _, err := f.place.await(cmd.Context(), f.wait, "/v1/status?brief=true"); err != nil {
			return err
		}
	}
	if f.place.node != "" {
		return f.show(cmd, f.ofNode)
	}
	d, closeDesk, err := f.place.open(cmd)
	if err != nil {
		return err
	}
	defer func() { _ = closeDesk() }() // nothing was written
	var o desk.StatusOptions
	return f.show(cmd, func(ctx context.Context) (desk.Status, error) {
		s, err := d.Status(ctx, o)
		if s.Month.By == "" { // too much to read each time
			o.Patience = time.Nanosecond
		}
		return s, err
	})
}

// ofNode is what a node at an address says, whose tables are not at hand.
func (f *statusFlags) ofNode(ctx context.Context) (desk.Status, error) {
	text, err := f.place.call(ctx, http.MethodGet, "/v1/status", nil)
	if err != nil {
		return desk.Status{}, err
	}
	s, err := decode[desk.Status](text, nil) // its fields are those of dev.Status, and more
	s.Place, s.Findings, s.Hours = "node at "+f.place.node, []desk.Finding{}, []desk.HourFates{}
	s.Gaps = []string{"what wants you, and where units are: a node's address does not lead to its tables; awsmp status --store FOLDER does, with the node's data folder"}
	return s, err
}

// show writes a status once, or again and again.
func (f *statusFlags) show(cmd *cobra.Command, look func(context.Context) (desk.Status, error)) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	screen := terminal(out)
	for {
		s, err := look(ctx)
		switch {
		case f.watch && ctx.Err() != nil:
			return nil // the end of a watch
		case err != nil:
			return err
		}
		var b bytes.Buffer
		switch {
		case f.json:
			err = encodeStatus(&b, s, f.watch)
		case f.watch && screen:
			b.WriteString(nextScreen(styleOf(screen)))
			writeStatus(&b, s, f.place.where(), styleOf(screen))
		default:
			writeStatus(&b, s, f.place.where(), styleOf(screen))
			if f.watch {
				b.WriteByte('\n')
			}
		}
		if err == nil {
			_, err = out.Write(b.Bytes())
		}
		if err != nil || !f.watch {
			return err
		}
		select {
		case <-time.After(f.every):
		case <-ctx.Done():
			return nil
		}
	}
}

// nextScreen begins the next of several looks. What has scrolled away stays, and a terminal that is dumb, or is to show no colours, gets no sequences at all.
func nextScreen(style desk.Style) string {
	if style.Colour {
		return "\x1b[H\x1b[2J" // to the corner, and clear what is seen (ECMA-48, CUP and ED)
	}
	return "\n"
}

func encodeStatus(w io.Writer, s desk.Status, oneLine bool) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if !oneLine {
		e.SetIndent("", "  ")
	}
	return e.Encode(s)
}

// terminal reports whether a person looks at the output as it comes.
func terminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// styleOf is how a picture is drawn: with colours on a terminal, unless NO_COLOR forbids them (no-color.org) or it is a dumb one.
func styleOf(screen bool) desk.Style {
	dumb := os.Getenv("TERM") == "dumb"
	return desk.Style{Colour: screen && !dumb && os.Getenv("NO_COLOR") == "", ASCII: dumb}
}
