package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/preflight"
)

const preflightLong = `Look, before a stack is deployed, at what the deployment depends on, and change nothing: who the caller is; whether the Region has AWS
Marketplace Metering Service and the account has the Region; whether the account's quota of Lambda has room for what the stack
reserves, and which parameters fit if it has not; whether API Gateway's log role is set already; whether the topic of the alarms is
there, may be published to and is heard; the shape of the product code; the events stack; whether names are free, or tables of
an earlier stack have to be imported; and the size of the template.

What the caller may not look at is unknown, with the IAM action that is missing. It ends with 1 where there is a problem.`

const preflightExample = `  awsmp preflight --region us-east-1 --product-code 9abcdefghijklmnopqrstuvwx

  # Before a dry run.
  awsmp preflight --region us-east-1 --product-code 9abcdefghijklmnopqrstuvwx --mode dry-run

  # With the topic that alarms go to.
  awsmp preflight --product-code 9abcdefghijklmnopqrstuvwx --topic arn:aws:sns:us-east-1:111122223333:awsmp-alerts`

// The modes of a stack, as its parameter MeteringMode has them.
const (
	liveMode   = "live"
	dryRunMode = "dry-run"
)

func newPreflightCommand() *cobra.Command {
	var (
		o      preflight.Options
		mode   string
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:     "preflight",
		Short:   "Look at what a deployment depends on",
		Long:    preflightLong,
		Example: preflightExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if mode != liveMode && mode != dryRunMode {
				return misused(cmd, fmt.Errorf("--mode is %q, and must be %s or %s", mode, liveMode, dryRunMode))
			}
			o.DryRun = mode == dryRunMode
			report := preflight.Run(cmd.Context(), o)
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			write := writePreflight
			if asJSON {
				write = func(out io.Writer, r preflight.Report) error { return writeJSON(out, r) }
			}
			if err := write(out, report); err != nil {
				return err
			}
			if n := report.Count(preflight.Problem); n > 0 {
				return &failure{code: exitError, err: errors.New(ledger.Counted(int64(n), "problem") + " to solve before the deployment")}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&o.Region, "region", "", "Region of the stack to be (default: that of the environment)")
	flags.StringVar(&o.ProductCode, "product-code", "", "code of the product, from the AWS Marketplace Management Portal")
	flags.StringVar(&o.Topic, "topic", "", "ARN of the SNS topic that alarms notify")
	flags.StringVar(&mode, "mode", liveMode, "mode of the stack to be: "+liveMode+" or "+dryRunMode)
	flags.StringVar(&o.EventsRegion, "events-region", "us-east-1", "Region of the events stack")
	flags.StringVar(&o.Template, "template", "deploy/metering-stack.yaml", "file of the metering stack's template")
	flags.BoolVar(&asJSON, "json", false, "write one JSON document")
	return cmd
}

// writePreflight writes the checks for a person, with what helps below each.
func writePreflight(out io.Writer, r preflight.Report) error {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, c := range r.Checks {
		fmt.Fprintf(table, "%s\t%s\t%s\n", shownResult(c.Result), c.Name, c.Found)
		if c.Try != "" {
			fmt.Fprintf(table, "\t\tTry: %s\n", c.Try)
		}
	}
	_ = table.Flush() // a strings.Builder never fails
	if len(r.Parameters) > 0 {
		fmt.Fprintf(&b, "\nParameters of the metering stack: --parameter-overrides %s\n", strings.Join(r.Parameters, " "))
	}
	parts := []string{ledger.Counted(int64(r.Count(preflight.OK)), "check") + " ok"}
	for _, of := range []preflight.Result{preflight.Warning, preflight.Problem} {
		if n := r.Count(of); n > 0 {
			parts = append(parts, ledger.Counted(int64(n), string(of)))
		}
	}
	if n := r.Count(preflight.Unknown); n > 0 {
		parts = append(parts, ledger.Thousands(int64(n))+" not looked at")
	}
	fmt.Fprintf(&b, "\n%s.\n", strings.Join(parts, ", "))
	_, err := io.WriteString(out, b.String())
	return err
}

// shownResult makes a problem stand out.
func shownResult(r preflight.Result) string {
	if r == preflight.Problem {
		return "PROBLEM"
	}
	return string(r)
}
