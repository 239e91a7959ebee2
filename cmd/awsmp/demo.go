package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/awsmp/metering/examples"
	"github.com/awsmp/metering/internal/demo"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/usagefile"
)

const demoLong = `Play a file of usage through the whole pipeline, over virtual time, against a simulated Marketplace.

The stages are the real ones, and so is the AWS SDK that calls the Marketplace; the tables are in memory and the clock
jumps. The story of what happens is told line by line, and at the end the books are recomputed from the tables and
compared with the Marketplace's own ledger. Nothing leaves this machine and nothing is billed.

FILE is CSV with a header row, or NDJSON with one object a line; - reads standard input. Without FILE the shipped
example is played. These are the columns or fields:

  licenseArn, customerAWSAccountId, dimension, timestamp
                    required; the time is UTC, as in 2026-03-31T14:00:00
  quantity          a whole number
  usageAllocations  a JSON list, as in the API: [{"AllocatedUsageQuantity": 3, "Tags": [{"Key": "team", "Value": "blue"}]}]
  customerIdentifier
                    of a legacy product, whose licenseArn is a plain name
  meteringPending, customerAWSAccountId_dimension_timestamp
                    derived where they are empty; otherwise taken as they stand, to play a row that is filed wrong
  writtenAt         when the row reaches the table; its timestamp where it is empty
  event, until      plays something other than usage, from writtenAt until until:
                    throttle, outage, lost-replies, unprocessed     the Marketplace misbehaves
                    subscribe, deprovision (license and account)    a license begins, or has one hour left
                    suspend (account)                               a buyer is suspended
                    undefined-dimension (dimension)                 the product has no such dimension

A second line of the same license, account, dimension and second adds its quantity to the first, as a writer's next
flush does, or takes its place where the first quantity is no whole number, as a seller mends a row. Lines that cannot be a row are refused, each with its reason, and the others are played.`

const demoExample = `  # The shipped example.
  awsmp demo

  # Your own day, beginning with a copy of the example.
  awsmp demo --write-example usage.csv
  awsmp demo usage.csv

  # The books of one hour, for a program.
  awsmp demo usage.csv --quiet --json --hour 2026-03-31T23`

// exampleName is what the shipped example is called in messages.
const exampleName = "the shipped example"

type demoFlags struct {
	json, quiet    bool
	lock           int
	license        string
	hour, from, to string
	writeExample   string
}

func newDemoCommand() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:     "demo [FILE]",
		Short:   "Play a file of usage and show the books",
		Long:    demoLong,
		Example: demoExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("one FILE is played, not %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.writeExample != "" && len(args) > 0 {
				return misused(cmd, errors.New("--write-example plays nothing, and takes no FILE beside its own"))
			}
			if f.writeExample != "" {
				return writeExample(cmd.OutOrStdout(), f.writeExample)
			}
			return playDemo(cmd, args, f)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&f.lock, "lock", 1, "MeteringLockHours: how many hours an hour stays open for late rows, 1 to 20")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "tell no story, show the books only")
	flags.BoolVar(&f.json, "json", false, "write one JSON document: refused lines, books and comparison")
	flags.StringVar(&f.license, "license", "", "books of this licenseArn only")
	flags.StringVar(&f.hour, "hour", "", "books of this hour only, as in 2026-03-31T14")
	flags.StringVar(&f.from, "from", "", "books from this hour on")
	flags.StringVar(&f.to, "to", "", "books up to this hour, which is included")
	flags.StringVar(&f.writeExample, "write-example", "", "write the shipped example to this file (- for standard output) and stop")
	return cmd
}

func playDemo(cmd *cobra.Command, args []string, f demoFlags) error {
	scope, err := f.scope()
	if err == nil && (f.lock < 1 || f.lock > 20) {
		err = fmt.Errorf("--lock is %d, and must be 1 to 20", f.lock)
	}
	if err != nil {
		return misused(cmd, err)
	}
	source, name, err := openUsage(cmd.InOrStdin(), args)
	if err != nil {
		return err
	}
	defer source.Close()
	out, errs := cmd.OutOrStdout(), cmd.ErrOrStderr()
	lines := usagefile.Read(source, usagefile.Options{Name: name, Extra: demo.Columns()})
	script, err := demo.Load(lines, progress(errs))
	if err != nil {
		return unread(err)
	}
	if script.Rows == 0 {
		reportRefused(errs, name, script.Refused, "none is left")
		return &failure{exitError, fmt.Errorf("%s: no line is usage that can be played", shown(name)), "awsmp demo --write-example usage.csv"}
	}
	tell := teller(out, f)
	if tell != nil {
		fmt.Fprintf(out, "Playing %s: %s, lock %s. The clock is virtual and the Marketplace simulated: nothing is billed.\n\n",
			shown(name), ledger.Counted(int64(script.Rows), "line")+" of usage", ledger.Counted(int64(f.lock), "hour"))
	}
	outcome, err := script.Play(cmd.Context(), demo.Options{LockHours: f.lock, Tell: tell})
	if err != nil {
		return err
	}
	sheet, err := outcome.Ledger(cmd.Context(), scope)
	if err != nil {
		return err
	}
	if sheet.Report.Groups == 0 {
		return &failure{exitError, errors.New("there is no usage in what --license, --hour, --from and --to name"), strings.Join(append([]string{"awsmp demo"}, args...), " ") + " --quiet, for the books of everything"}
	}
	if err := showDemo(out, f, outcome, sheet, script, name); err != nil {
		return err
	}
	if !f.json {
		reportRefused(errs, name, script.Refused, "the others were taken")
	}
	switch {
	case !sheet.Sound():
		return &failure{code: exitUnsound}
	case len(script.Refused) > 0:
		return &failure{code: exitRefused}
	}
	return nil
}

// scope is what the books cover.
func (f demoFlags) scope() (ledger.Scope, error) {
	scope := ledger.Scope{License: f.license}
	if f.hour != "" && (f.from != "" || f.to != "") {
		return scope, errors.New("--hour excludes --from and --to")
	}
	for _, flag := range []struct {
		name, value string
		into        []**metering.Hour
	}{
		{"hour", f.hour, []**metering.Hour{&scope.From, &scope.To}},
		{"from", f.from, []**metering.Hour{&scope.From}},
		{"to", f.to, []**metering.Hour{&scope.To}},
	} {
		if flag.value == "" {
			continue
		}
		h, err := metering.ParseHour(flag.value)
		if err != nil {
			return scope, fmt.Errorf("--%s: %w", flag.name, err)
		}
		for _, into := range flag.into {
			*into = &h
		}
	}
	if scope.From != nil && scope.To != nil && *scope.From > *scope.To {
		return scope, errors.New("--from is after --to")
	}
	return scope, nil
}

// openUsage opens the file to play: the one named, standard input, or the shipped example.
func openUsage(in io.Reader, args []string) (io.ReadCloser, string, error) {
	if len(args) == 0 {
		return io.NopCloser(strings.NewReader(examples.Usage())), exampleName, nil
	}
	name := args[0]
	if name == "-" {
		return io.NopCloser(in), "", nil
	}
	file, err := os.Open(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, name, &failure{exitError, fmt.Errorf("%s: there is no such file", name), "awsmp demo --write-example " + name}
	case errors.Is(err, fs.ErrPermission):
		return nil, name, &failure{exitError, fmt.Errorf("%s: reading it is not permitted", name), "ls -l " + name}
	case err != nil:
		return nil, name, fmt.Errorf("open usage: %w", err)
	}
	return file, name, nil
}

func shown(name string) string {
	if name == "" {
		return "standard input"
	}
	return name
}

// writeExample never overwrites: what stands there may be somebody's own usage.
func writeExample(out io.Writer, name string) error {
	if name == "-" {
		_, err := io.WriteString(out, examples.Usage())
		return err
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return &failure{exitError, fmt.Errorf("%s exists and is left as it is", name), "another name: awsmp demo --write-example " + filepath.Join(filepath.Dir(name), "my-"+filepath.Base(name))}
	}
	if err != nil {
		return fmt.Errorf("write the example: %w", err)
	}
	_, err = io.WriteString(file, examples.Usage())
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write the example: %w", err)
	}
	fmt.Fprintf(out, "Wrote %s. Change it, then play it: awsmp demo %s\n", name, name)
	return nil
}

// teller tells the story on out, or is nil where none is wanted.
func teller(out io.Writer, f demoFlags) func(time.Time, string) {
	if f.quiet || f.json {
		return nil
	}
	return func(at time.Time, text string) { fmt.Fprintf(out, "%s  %s\n", at.Format("01-02 15:04"), text) }
}

// demoDocument is what --json writes.
type demoDocument struct {
	File    string               `json:"file"`
	Start   time.Time            `json:"start"` // of the virtual clock
	End     time.Time            `json:"end"`
	Rows    int                  `json:"rows"` // lines of usage that were played
	Refused []*usagefile.Refusal `json:"refused"`
	Ledger  ledger.Document      `json:"ledger"`
}

func showDemo(out io.Writer, f demoFlags, o *demo.Outcome, sheet ledger.Sheet, script *demo.Script, name string) error {
	if !f.json {
		if !f.quiet {
			fmt.Fprintln(out)
		}
		return sheet.WriteTable(out)
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(demoDocument{
		File: shown(name), Start: o.Start, End: o.End, Rows: script.Rows,
		Refused: append([]*usagefile.Refusal{}, script.Refused...), Ledger: sheet.Document(),
	})
}

// maxRefusedShown bounds the refused lines that are shown one by one.
const maxRefusedShown = 20

func reportRefused(errs io.Writer, name string, refused []*usagefile.Refusal, others string) {
	if len(refused) == 0 {
		return
	}
	fmt.Fprintf(errs, "\nawsmp: %s: %s refused, %s\n", shown(name), ledger.Counted(int64(len(refused)), "line"), others)
	for i, r := range refused {
		if i == maxRefusedShown {
			fmt.Fprintf(errs, "  and %s more: --json lists all of them\n", ledger.Counted(int64(len(refused)-i), "line"))
			return
		}
		fmt.Fprintf(errs, "  line %d: %s. Try: %s\n", r.Line, r.Reason, r.Hint)
	}
}

// progress notes on a terminal how far a big file has been read.
func progress(errs io.Writer) func(int) {
	file, ok := errs.(*os.File)
	if !ok {
		return nil
	}
	if info, err := file.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	return func(lines int) { fmt.Fprintf(errs, "read %s\n", ledger.Counted(int64(lines), "line")) }
}
