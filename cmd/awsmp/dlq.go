package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/ledger"
)

const dlqLong = `Deal with dead letters: messages that failed too often and were set aside. A group that one of them names is found again by itself as long
as its rows wait; an event is not.

awsmp dlq list counts them, awsmp dlq show says what they are about, and awsmp dlq redrive puts them back when what failed is mended.`

const dlqExample = `  awsmp dlq list --stack awsmp-exampleproduct-metering
  awsmp dlq show work-dlq --stack awsmp-exampleproduct-metering
  awsmp dlq redrive work-dlq --stack awsmp-exampleproduct-metering`

func newDlqCommand() *cobra.Command {
	return group("dlq", "Show dead letters, and put them back", dlqLong, dlqExample,
		newDlqListCommand(), newDlqShowCommand(), newDlqRedriveCommand())
}

// deadDesk opens a place whose queues can be asked.
func deadDesk(cmd *cobra.Command, at *place) (*desk.Desk, func() error, error) {
	d, closeDesk, err := at.open(cmd)
	if err != nil {
		return nil, nil, err
	}
	if d.Silent != "" {
		_ = closeDesk()
		return nil, nil, &failure{exitError, errors.New("its queues cannot be asked"), "awsmp status" + d.Flags}
	}
	if d.Plant == nil {
		_ = closeDesk()
		return nil, nil, &failure{exitError, fmt.Errorf("no node runs on the %s, and its queues end with it", d.Name), "awsmp dev" + dataFlag(at.data)}
	}
	return d, closeDesk, nil
}

func newDlqListCommand() *cobra.Command {
	var (
		at     place
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Count the dead letters of each queue",
		Long:  "Count the dead letters of each queue, and say how old the oldest are. Nothing is changed.",
		Example: `  awsmp dlq list --stack awsmp-exampleproduct-metering
  awsmp dlq list --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, closeDesk, err := deadDesk(cmd, &at)
			if err != nil {
				return err
			}
			defer func() { _ = closeDesk() }()
			queues, err := d.DeadQueues(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), struct {
					Queues []desk.Queue `json:"queues"`
				}{queues})
			}
			return writeDeadQueues(cmd.OutOrStdout(), queues, d.Flags)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&asJSON, "json", false, "write one JSON document")
	at.flags(flags)
	return cmd
}

func writeDeadQueues(out io.Writer, queues []desk.Queue, where string) error {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "QUEUE\tMESSAGES\tOLDEST")
	first := ""
	for _, q := range queues {
		oldest, n := q.Oldest, q.Visible+q.InFlight
		if oldest == "" {
			oldest = "-"
		}
		if n > 0 && first == "" {
			first = q.Name
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", q.Name, ledger.Thousands(int64(n)), oldest)
	}
	_ = table.Flush() // a strings.Builder never fails
	if first != "" {
		fmt.Fprintf(&b, "What they are about: awsmp dlq show %s%s\n", first, where)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// deadQueue finds the queue that is named.
func deadQueue(cmd *cobra.Command, d *desk.Desk, name, where string) (desk.Queue, error) {
	q, err := d.DeadQueue(cmd.Context(), name)
	var unknown *desk.UnknownQueueError
	if errors.As(err, &unknown) {
		return q, &failure{exitUsage, err, "awsmp dlq list" + where}
	}
	return q, err
}

const dlqShowLong = `Say what dead letters are about, in words. They stay where they are.

A message of work is a group to be summed; one of cleanup is labels for rows; one of events is what AWS Marketplace tells of a license or
an agreement. QUEUE is a name that awsmp dlq list shows.`

func newDlqShowCommand() *cobra.Command {
	var (
		at     place
		limit  int
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "show QUEUE",
		Short: "Say what dead letters are about",
		Long:  dlqShowLong,
		Example: `  awsmp dlq show work-dlq --stack awsmp-exampleproduct-metering
  awsmp dlq show events-dlq --stack awsmp-exampleproduct-metering --json`,
		Args: oneQueue,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 {
				return misused(cmd, errors.New("--limit is a number of messages, 1 or more"))
			}
			d, closeDesk, err := deadDesk(cmd, &at)
			if err != nil {
				return err
			}
			defer func() { _ = closeDesk() }()
			queue, err := deadQueue(cmd, d, args[0], d.Flags)
			if err != nil {
				return err
			}
			letters, err := d.Letters(cmd.Context(), queue.Name, limit)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), struct {
					Queue   desk.Queue     `json:"queue"`
					Letters []desk.Reading `json:"messages"`
				}{queue, letters})
			}
			return writeLetters(cmd.OutOrStdout(), queue, letters, d.Flags)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&limit, "limit", 10, "show up to so many messages")
	flags.BoolVar(&asJSON, "json", false, "write one JSON document, with the messages' bodies")
	at.flags(flags)
	return cmd
}

func oneQueue(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("one QUEUE is named, not %d: awsmp dlq list shows which there are", len(args))
	}
	return nil
}

func writeLetters(out io.Writer, q desk.Queue, letters []desk.Reading, where string) error {
	var b strings.Builder
	if len(letters) == 0 {
		fmt.Fprintf(&b, "%s shows no message.\n", q.Name)
		if q.InFlight > 0 {
			fmt.Fprintf(&b, "%s being looked at elsewhere: try again in a minute.\n", counted(q.InFlight, "message is", "messages are"))
		}
	}
	for _, l := range letters {
		sent := "-"
		if !l.SentAt.IsZero() {
			sent = l.SentAt.UTC().Format("01-02 15:04:05")
		}
		fmt.Fprintf(&b, "%s  %s\n", sent, l.Words)
	}
	if more := q.Visible - len(letters); len(letters) > 0 && more > 0 {
		fmt.Fprintf(&b, "and about %s more: --limit shows more\n", counted(more, "message", "messages"))
	}
	if len(letters) > 0 {
		fmt.Fprintf(&b, "When what failed is mended, they are put back by\n  awsmp dlq redrive %s%s\n", q.Name, where)
	}
	_, err := io.WriteString(out, b.String())
	return err
}
