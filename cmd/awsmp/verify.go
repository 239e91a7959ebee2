package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/stack"
	"github.com/awsmp/metering/internal/store/dynamodb"
	"github.com/awsmp/metering/internal/verify"
)

const verifyLong = `Try a deployed stack out: write usage of invented licenses into its tables, wait until its own schedules have acted on it, and compare
what became of each item with what should have. Usage is summed and sent; each malformed row and record is rejected for its reason; late
rows, hours that are over and the turn of the month are named. At the end the books of what was written are balanced, and all of it is
taken away again, also after Ctrl-C.

It takes about three quarters of an hour, most of it spent waiting for the next schedule; what it waits for it says. Alarms of the
stack ring meanwhile, for what is rejected, late and expired, and end by themselves.

Verify a dry-run stack. In a live one AWS Marketplace is asked, and refuses the invented licenses; that is what --live agrees to. With
--license, --account and --dimension one real unit is billed too: its row and record stay, since they are books.

It ends with 0 where all cases came out as expected, and with 4 where one did not.`

const verifyExample = `  # What would be tried, and what it would write.
  awsmp verify --stack awsmp-exampleproduct-metering --list

  # All of it.
  awsmp verify --stack awsmp-exampleproduct-metering --region us-east-1

  # Two cases and a family of them.
  awsmp verify --stack awsmp-exampleproduct-metering --only happy-path,late-row,rejected

  # What a run that was killed has left behind.
  awsmp verify --stack awsmp-exampleproduct-metering --clean

  # In a live stack, one unit of your own test subscription included.
  awsmp verify --stack awsmp-exampleproduct-metering --live --account 111122223333 --dimension api_calls \
    --license arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef`

// verifyFlags are those of the command.
type verifyFlags struct {
	at      place
	agreed  consent
	only    []string
	list    bool
	clean   bool
	live    bool
	buyer   verify.Buyer
	timeout time.Duration
	asJSON  bool
}

func newVerifyCommand() *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:     "verify --stack NAME",
		Short:   "Try a deployed stack out with invented usage",
		Long:    verifyLong,
		Example: verifyExample,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	f.at.set = flags
	flags.StringVar(&f.at.stack, "stack", "", "a deployed metering stack, as awsmp-exampleproduct-metering (default: $"+stackVariable+")")
	flags.StringVar(&f.at.region, "region", "", "Region of the stack (default: that of the environment)")
	flags.StringSliceVar(&f.only, "only", nil, "names of cases, or what they begin with up to a -")
	flags.BoolVar(&f.list, "list", false, "list the cases, and write nothing")
	flags.DurationVar(&f.timeout, "timeout", 0, "how long the run may take, as 30m; 0: as long as the schedules do")
	flags.BoolVar(&f.live, "live", false, "the stack is live, and AWS Marketplace may be asked about invented licenses")
	flags.StringVar(&f.buyer.License, "license", "", "with --live: a license of which one unit is billed; with --clean: one more to look under")
	flags.StringVar(&f.buyer.Account, "account", "", "its account")
	flags.StringVar(&f.buyer.Dimension, "dimension", "", "a dimension of the product, for that unit")
	flags.BoolVar(&f.clean, "clean", false, "only take away what killed runs have left behind")
	f.agreed.flags(flags)
	flags.BoolVar(&f.asJSON, "json", false, "write one JSON document; progress goes to standard error")
	return cmd
}

// check refuses flags that do not go together.
func (f *verifyFlags) check(cmd *cobra.Command) error {
	unknown := verify.Unknown(f.only)
	given := 0
	for _, v := range []string{f.buyer.License, f.buyer.Account, f.buyer.Dimension} {
		if v != "" {
			given++
		}
	}
	switch {
	case len(unknown) > 0:
		return &failure{exitUsage, fmt.Errorf("--only: there is no case %q", unknown[0]), cmd.CommandPath() + " --list" + f.at.where()}
	case f.clean && (f.live || f.list || len(f.only) > 0 || f.timeout != 0 || f.buyer.Account != "" || f.buyer.Dimension != ""):
		return misused(cmd, errors.New("--clean tries nothing: it goes with --license, --dry-run, --yes and --json alone"))
	case f.timeout < 0:
		return misused(cmd, errors.New("--timeout is less than nothing"))
	case given > 0 && !f.live && !f.clean:
		return misused(cmd, errors.New("--license, --account and --dimension bill one unit: they need --live"))
	case given > 0 && given < 3 && !f.clean:
		return misused(cmd, errors.New("--license, --account and --dimension go together"))
	case f.buyer.License != "" && !metering.ValidLicense(f.buyer.License):
		return misused(cmd, errors.New("--license is no license ARN"))
	case f.buyer.Account != "" && !metering.ValidAccount(f.buyer.Account):
		return misused(cmd, errors.New("--account must be 12 digits"))
	}
	return nil
}

func (f *verifyFlags) run(cmd *cobra.Command) error {
	if err := f.at.settle(cmd); err != nil {
		return err
	}
	if err := f.check(cmd); err != nil {
		return err
	}
	if f.at.stack == "" {
		if f.list { // of any stack
			return f.writeCases(cmd.OutOrStdout(), verify.List(f.settings(verify.Target{Rows: new(dynamodb.Rows), DryRun: !f.live})))
		}
		return misused(cmd, errors.New("--stack names the stack that is tried out"))
	}
	s, err := f.at.findStack(cmd)
	if err != nil {
		return err
	}
	target := targetOf(s)
	if f.clean {
		return f.tidy(cmd, target)
	}
	settings := f.settings(target)
	if f.list {
		return f.writeCases(cmd.OutOrStdout(), verify.List(settings))
	}
	switch {
	case f.live && s.DryRun:
		return misused(cmd, fmt.Errorf("--live: %s is a dry run, which asks nobody", s.Name))
	case !f.live && !s.DryRun:
		return &failure{
			exitUsage, fmt.Errorf("%s is live: AWS Marketplace would be asked about invented licenses, and calls of real usage would be split to isolate them", s.Name),
			again(cmd, "--live"),
		}
	}
	return f.try(cmd, settings)
}

// targetOf is a stack as a run sees it.
func targetOf(s *stack.Stack) verify.Target {
	t := verify.Target{Name: s.Name, Records: s.Records, Rules: s.Rules, DryRun: s.DryRun, Paused: s.Paused, Page: s.Outputs["RegistrationUrl"]}
	if !s.Direct { // one that a switch of the mode has left behind is nobody's
		t.Rows = s.Rows
	}
	return t
}

func (f *verifyFlags) settings(target verify.Target) verify.Settings {
	s := verify.Settings{
		Target: target, ID: verify.NewID(time.Now(), uint16(rand.Uint32())), Only: f.only, Timeout: f.timeout, Now: time.Now, Sleep: awsapi.Sleep,
		HTTP: http.DefaultClient,
	}
	if f.live && f.buyer.License != "" {
		s.Buyer = &f.buyer
	}
	return s
}

// try runs the cases, when it is agreed to.
func (f *verifyFlags) try(cmd *cobra.Command, s verify.Settings) error {
	out, errs := cmd.OutOrStdout(), cmd.ErrOrStderr()
	cases := verify.List(s)
	if _, err := io.WriteString(errs, verifyIntro(s, cases)); err != nil {
		return err
	}
	if f.agreed.dryRun {
		return f.writeCases(out, cases)
	}
	question := "Write this usage"
	if s.Buyer != nil && slices.ContainsFunc(cases, func(c verify.Case) bool { return c.Name == "billed-unit" && c.Result == "" }) {
		question = fmt.Sprintf("Write this usage, and bill one unit of %s to account %s", s.Buyer.Dimension, s.Buyer.Account)
	}
	if err := f.agreed.ask(cmd, question); err != nil {
		return err
	}
	s.Tell = func(line string) { fmt.Fprintln(errs, line) }
	report, err := verify.Do(cmd.Context(), s)
	if err == nil || len(report.Cases) > 0 {
		write := writeReport
		if f.asJSON {
			write = writeReportJSON
		}
		if wrote := write(out, report, f.at.where()); wrote != nil && err == nil {
			err = wrote
		}
	}
	clean := "awsmp verify --clean" + f.at.where()
	switch {
	case errors.Is(err, context.Canceled) && report.Left == 0:
		return &failure{exitError, errors.New("interrupted; what was written is taken away"), again(cmd)}
	case err != nil && report.Left > 0:
		return &failure{exitError, err, clean}
	case err != nil:
		return err
	case report.Left > 0:
		return &failure{exitUnsound, fmt.Errorf("%s could not be taken away", ledger.Counted(int64(report.Left), "item")), clean}
	case !report.Passed():
		return &failure{exitUnsound, errors.New("the stack does not do all that it should"), "awsmp status" + f.at.where()}
	}
	return nil
}

// verifyIntro says what a run is about to do.
func verifyIntro(s verify.Settings, cases []verify.Case) string {
	var b strings.Builder
	tried, rows, records := 0, 0, 0
	var by time.Time
	for _, c := range cases {
		if c.Result != "" {
			continue
		}
		tried, rows, records = tried+1, rows+c.Rows, records+c.Records
		if c.By.After(by) {
			by = c.By
		}
	}
	mode := "live"
	if s.DryRun {
		mode = "a dry run"
	}
	fmt.Fprintf(&b, "%s (%s), run %s.\n", s.Name, mode, s.ID)
	fmt.Fprintf(&b, "Tries %s of %d, with %s and %s of invented licenses, which are taken away at the end.\n", ledger.Counted(int64(tried), "case"), len(cases),
		ledger.Counted(int64(rows), "row"), ledger.Counted(int64(records), "record"))
	if !by.IsZero() {
		fmt.Fprintf(&b, "Ends by %s UTC at the latest; most schedules act every 15 minutes.\n", by.UTC().Format("2006-01-02 15:04"))
	}
	b.WriteString("Alarms ring for what is rejected, late and expired, and end by themselves.\n")
	if !s.DryRun {
		b.WriteString("AWS Marketplace is asked about the invented licenses, and refuses them.\n")
	}
	if s.Buyer != nil {
		b.WriteString("One unit of your buyer is billed, and stays in the books. It takes an hour that holds none of the dimension yet; what your application\nwrites for that hour afterwards is late.\n")
	}
	return b.String()
}

// tidy takes away what runs have left.
func (f *verifyFlags) tidy(cmd *cobra.Command, target verify.Target) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	var more []string
	if f.buyer.License != "" {
		more = append(more, f.buyer.License)
	}
	left, err := verify.Leftovers(ctx, target, more)
	if err != nil {
		return err
	}
	doc := cleanDocument{Stack: target.Name, Runs: []cleanRun{}, DryRun: f.agreed.dryRun}
	for id, n := range left {
		doc.Runs = append(doc.Runs, cleanRun{id, n})
		doc.Items += n
	}
	slices.SortFunc(doc.Runs, func(a, b cleanRun) int { return strings.Compare(a.Run, b.Run) })
	told := cmd.ErrOrStderr()
	if !f.asJSON {
		told = out
	}
	for _, r := range doc.Runs {
		fmt.Fprintf(told, "Run %s has left %s.\n", r.Run, ledger.Counted(int64(r.Items), "item"))
	}
	if doc.Items > 0 && !f.agreed.dryRun {
		if err := f.agreed.ask(cmd, "Delete them; a run that is still going on would fail"); err != nil {
			return err
		}
		done, err := verify.Clean(ctx, target, more, awsapi.Sleep, func(id string) bool { return left[id] > 0 })
		if err != nil {
			return err
		}
		doc.Deleted, doc.Left = done.Deleted, done.Left
	}
	if f.asJSON {
		err = writeJSON(out, doc)
	} else {
		_, err = fmt.Fprintln(out, doc.words())
	}
	if err == nil && doc.Left > 0 {
		return &failure{exitUnsound, fmt.Errorf("%s could not be taken away", ledger.Counted(int64(doc.Left), "item")), again(cmd)}
	}
	return err
}
