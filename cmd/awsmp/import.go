package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/folder"
	"github.com/awsmp/metering/internal/importer"
	"github.com/awsmp/metering/internal/store/sqlite"
	"github.com/awsmp/metering/internal/usagefile"
	"github.com/awsmp/metering/usage"
)

const importLong = `Take a file of usage into the store of this machine, each line once.

FILE is CSV with a header row, or NDJSON with one object a line; - reads standard input. These are the columns or fields:

  licenseArn, customerAWSAccountId, dimension, timestamp
                    required; the time is UTC, as in 2026-03-31T14:00:00
  quantity          a whole number
  usageAllocations  a JSON list, as in the API: [{"AllocatedUsageQuantity": 3, "Tags": [{"Key": "team", "Value": "blue"}]}]
  customerIdentifier
                    of a legacy product, whose licenseArn is a plain name
  meteringPending, customerAWSAccountId_dimension_timestamp
                    may be empty; a line whose value is not what its other fields say is refused

Usage of one license, account, dimension and minute becomes one row. awsmp dev may run on the same folder meanwhile.

THE SAME FILE TWICE ADDS NOTHING. A file is known by its content, not by its name. After an interruption, a crash or a full
disk run the same command again: it goes on, and what was added is not added twice.
A CHANGED FILE IS ANOTHER FILE: an edited or extended copy adds all its lines again. Import only what is new or mended.

Every line is taken, or late (added, but its hour was committed before: do not book it again), or refused with its number
and a reason. Refused lines are written to a file of their own: mend them there and import that file.`

const importExample = `  # Look first, then import.
  awsmp import usage.csv --dry-run
  awsmp import usage.csv

  # What was refused, once it is mended.
  awsmp import usage.refused.csv

  # Through a pipe. The last line must be ended, as a sign that the input is whole.
  gunzip -c usage.ndjson.gz | awsmp import -`

type importFlags struct {
	data, refused       string
	dryRun, json, quiet bool
}

func newImportCommand() *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:     "import FILE",
		Short:   "Take a file of usage into the store, each line once",
		Long:    importLong,
		Example: importExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("one FILE is imported, not %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			byData, byStore := cmd.Flags().Changed("data"), cmd.Flags().Changed("store")
			if byData && byStore {
				return errTwoFolders()
			}
			if address := os.Getenv(nodeVariable); address != "" && !byData && !byStore {
				return &failure{exitUsage, fmt.Errorf("%s names the node %s, and a file is imported into a data folder, which a node's address does not lead to", nodeVariable, entire(address)),
					"awsmp import " + desk.Word(args[0]) + " --data with the node's data folder"}
			}
			return runImport(cmd, args[0], f)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	dataFlags(flags, &f.data, "folder of the store; made where it is missing")
	flags.BoolVar(&f.dryRun, "dry-run", false, "judge every line and write nothing")
	flags.StringVar(&f.refused, "refused", "", "where refused lines are written; without it a new file beside FILE, as usage.refused.csv")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "write no progress and no summary")
	flags.BoolVar(&f.json, "json", false, "write one JSON document: counts, late lines, refused lines")
	return cmd
}

func runImport(cmd *cobra.Command, name string, f importFlags) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second signal ends the program at once

	if _, err := os.Lstat(f.refused); f.refused != "" && err == nil {
		return &failure{exitError, fmt.Errorf("%s exists and is left as it is", f.refused), "another name for --refused, or move that file away"}
	}
	bar := newImportBar(cmd.ErrOrStderr(), f.quiet)
	defer bar.clear()
	source, err := openSource(ctx, cmd.InOrStdin(), name, bar)
	if err != nil {
		return notImported(err, name)
	}
	defer source.Close()
	store, closeStore, err := openImportStore(ctx, f)
	if err != nil {
		return notImported(err, name)
	}
	defer closeStore()
	clock, err := folder.NewClock(ctx, store)
	if err != nil {
		return notImported(err, name)
	}
	bar.importing(source.Size)
	outcome, err := importer.Import{Source: source, Store: store, Now: clock.Now, DryRun: f.dryRun, Progress: bar.imported}.Run(ctx)
	defer func() { _ = outcome.Close() }() // there is one in any case
	bar.clear()
	if err != nil {
		return notImported(err, name)
	}
	report := importReport{importFlags: f, Outcome: outcome, source: source}
	return report.write(cmd.OutOrStdout(), cmd.ErrOrStderr())
}

func openSource(ctx context.Context, in io.Reader, name string, bar *importBar) (*importer.Source, error) {
	if name == "-" {
		return importer.OpenStream(ctx, "", in, bar.read)
	}
	return importer.OpenFile(ctx, name, bar.read)
}

// openImportStore opens the store in the data folder. A dry run makes neither: where there is no store, an empty one in a temporary
// folder stands in for it.
func openImportStore(ctx context.Context, f importFlags) (*sqlite.Store, func(), error) {
	dir := f.data
	remove := func() {}
	if _, err := os.Stat(folder.Store(dir)); f.dryRun && errors.Is(err, fs.ErrNotExist) {
		empty, err := os.MkdirTemp("", "awsmp-dry-run-*")
		if err != nil {
			return nil, nil, fmt.Errorf("make a store for the dry run: %w", err)
		}
		dir, remove = empty, func() { _ = os.RemoveAll(empty) }
	} else if err := makeFolder(dir); err != nil {
		return nil, nil, err
	}
	store, err := folder.OpenStore(ctx, dir)
	if err != nil {
		remove()
		return nil, nil, err
	}
	return store, func() { _ = store.Close(); remove() }, nil
}

// makeFolder makes the data folder itself, but no folder above it: a path that is mistyped is an error.
func makeFolder(path string) error {
	err := os.Mkdir(path, 0o755)
	switch parent := filepath.Dir(path); {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrExist):
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return &failure{exitError, fmt.Errorf("%s is no folder", path), "another folder: --data " + path + "-data"}
		}
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return &failure{exitError, fmt.Errorf("%s cannot be made: there is no folder %s", path, parent), "mkdir -p " + path}
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return &failure{exitError, fmt.Errorf("%s cannot be made: writing to %s is not permitted", path, parent), "a folder of your own: --data ~/" + folder.Default}
	default:
		return fmt.Errorf("make the data folder: %w", err)
	}
}

// stored is an error of the store; its hint becomes what to try.
func stored(err error) error {
	if p, ok := errors.AsType[*sqlite.Problem](err); ok {
		return &failure{exitError, err, p.Hint}
	}
	return err
}

// notImported is why a file was not imported, or not to its end.
func notImported(err error, name string) error {
	const again = "the same command again goes on from there; what was added is not added twice"
	stopped, begun := errors.AsType[*importer.Stopped](err)
	problem, ofStore := errors.AsType[*sqlite.Problem](err)
	if _, ofFile := errors.AsType[*usagefile.FileError](err); ofFile {
		return unread(err)
	}
	if !begun {
		if errors.Is(err, context.Canceled) {
			return &failure{exitError, errors.New("interrupted before anything was written"), "the same command again"}
		}
		return stored(err)
	}
	if name == "-" {
		name = shown("")
	}
	at := fmt.Sprintf("%s: stopped after line %d", name, stopped.Lines)
	if errors.Is(err, context.Canceled) {
		return &failure{exitError, fmt.Errorf("%s: interrupted", at), again}
	}
	if errors.Is(err, importer.ErrChanged) {
		return &failure{exitError, fmt.Errorf("%s: %w", name, importer.ErrChanged), "import the lines that are missing as a file of their own: the changed file would add all its lines again"}
	}
	cause, try := stopped.Err, again
	if row, ok := errors.AsType[*usage.RowError](err); ok {
		cause = row.Err // the same for all of them
	}
	if ofStore {
		cause, try = problem, problem.Hint+"; then "+again
	}
	return &failure{exitError, fmt.Errorf("%s: %w", at, cause), try}
}
