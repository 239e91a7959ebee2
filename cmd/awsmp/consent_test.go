package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/awsmp/metering/internal/store/dynamodb"
)

// changed runs change in a command with the flags given; act does what it is told to.
func changed(t *testing.T, flags []string, act func(ctx context.Context, cancel func(), dryRun bool) (int, error)) (out, errs string, err error) {
	t.Helper()
	var agreed consent
	var asJSON bool
	var stdout, stderr bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := &cobra.Command{Use: "awsmp", SilenceErrors: true, SilenceUsage: true, RunE: func(cmd *cobra.Command, _ []string) error {
		_, err := change(cmd, agreed, asJSON,
			func(ctx context.Context, dryRun bool) (int, error) { return act(ctx, cancel, dryRun) },
			func(out io.Writer, n int) error {
				_, err := fmt.Fprintf(out, "%d things\n", n)
				return err
			},
			func(n int) string { return askAbout(n, "Do it", "Do them") })
		return err
	}}
	cmd.Flags().SortFlags = false
	agreed.flags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "")
	cmd.SetArgs(flags)
	cmd.SetIn(strings.NewReader("y\n")) // no terminal: nobody is asked
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	err = cmd.ExecuteContext(ctx)
	return stdout.String(), stderr.String(), err
}

func TestNothingChangesWithoutConsent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, flags string
		found       int
		out         string
		code        int
		acts        int // that change
	}{
		{"nobody can be asked", "", 2, "2 things\n", exitUsage, 0},
		{"for a program", "--json", 2, "", exitUsage, 0},
		{"there is nothing to do", "", 0, "0 things\n", 0, 0},
		{"a dry run", "--dry-run", 2, "2 things\n", 0, 0},
		{"a dry run that is agreed to", "--dry-run --yes", 2, "2 things\n", 0, 0},
		{"agreed", "--yes", 2, "2 things\n", 0, 1},
		{"agreed, for a program", "--yes --json", 2, "2\n", 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			acts := 0
			out, errs, err := changed(t, strings.Fields(tt.flags), func(_ context.Context, _ func(), dryRun bool) (int, error) {
				if !dryRun {
					acts++
				}
				return tt.found, nil
			})
			var f *failure
			if errors.As(err, &f) != (tt.code != 0) || f != nil && (f.code != tt.code || f.try != strings.TrimSpace("awsmp "+tt.flags)+" --yes") {
				t.Errorf("ended with %+v", err)
			}
			if out != tt.out || errs != "" || acts != tt.acts {
				t.Errorf("printed %q and %q, acted %d times", out, errs, acts)
			}
		})
	}
}

// What was done before an error or an interrupt is said, and what goes on.
func TestAChangeThatEndsHalfWay(t *testing.T) {
	t.Parallel()
	broken := errors.New("the table broke")
	for _, tt := range []struct {
		name      string
		done      int
		interrupt bool
		out, says string
		code      int
	}{
		{"an error after two", 2, false, "2 things\n", "what is said above is done, the rest is not: the table broke", exitError},
		{"an error before the first", 0, false, "", "the table broke", 0},
		{"an interrupt after two", 2, true, "2 things\n", "interrupted: what is said above is done, and nothing else", exitInterrupted},
		{"an interrupt before the first", 0, true, "", "interrupted: nothing was done", exitInterrupted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			out, _, err := changed(t, []string{"--yes"}, func(_ context.Context, cancel func(), _ bool) (int, error) {
				if tt.interrupt {
					cancel()
					return tt.done, context.Canceled
				}
				return tt.done, broken
			})
			var f *failure
			if errors.As(err, &f) != (tt.code != 0) || f != nil && (f.code != tt.code || f.try != "awsmp --yes") || err.Error() != tt.says || out != tt.out {
				t.Errorf("ended with %+v, printed %q", err, out)
			}
		})
	}
}

func TestTheSameCommandAgain(t *testing.T) {
	t.Parallel()
	cmd := &cobra.Command{Use: "awsmp", Run: func(*cobra.Command, []string) {}}
	cmd.Flags().SortFlags = false
	cmd.Flags().String("key", "", "")
	cmd.Flags().StringSlice("only", nil, "")
	cmd.Flags().Bool("all", false, "")
	cmd.Flags().Int("limit", 0, "")
	cmd.SetArgs([]string{"my file", "--key", "1#it's", "--only=a,b c", "--all=false", "--limit", "3"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	const want = `awsmp 'my file' --key '1#it'\''s' --only a --only 'b c' --all=false --limit 3 --yes`
	if got := again(cmd, "--yes"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// What only reads asks nobody below a cent. Above it is asked, for the sum of all tables, before the table that makes it so is read.
func TestReadsBelowACentAskNobody(t *testing.T) {
	t.Parallel()
	table := func(name string, dollars float64) dynamodb.ScanPrice {
		return dynamodb.ScanPrice{Table: name, Dollars: dollars}
	}
	for _, tt := range []struct {
		name   string
		times  int
		yes    bool
		tables []dynamodb.ScanPrice
		reads  int // tables that are read
	}{
		{"nothing", 1, false, []dynamodb.ScanPrice{table("a", 0), table("b", 0.0099)}, 2},
		{"a cent", 1, false, []dynamodb.ScanPrice{table("a", 0.01)}, 0},
		{"twice half a cent", 2, false, []dynamodb.ScanPrice{table("a", 0.005)}, 0},
		{"together a cent", 1, false, []dynamodb.ScanPrice{table("a", 0.006), table("b", 0.004)}, 1},
		{"the same table again", 1, false, []dynamodb.ScanPrice{table("a", 0.006), table("a", 0.006)}, 2},
		{"agreed", 1, true, []dynamodb.ScanPrice{table("a", 3)}, 1},
	} {
		var at place
		var errs bytes.Buffer
		cmd := &cobra.Command{Use: "awsmp"}
		cmd.SetIn(strings.NewReader(""))
		cmd.SetErr(&errs)
		agreed := consent{yes: tt.yes}
		agreed.prices(cmd, &at, tt.times)
		reads := 0
		var failed *failure
		for _, price := range tt.tables {
			if err := at.scans.Announce(price); errors.As(err, &failed) {
				break
			}
			reads++
		}
		if reads != tt.reads || (failed != nil) != (reads < len(tt.tables)) || failed != nil && (failed.code != exitUsage || !strings.HasSuffix(failed.try, " --yes")) {
			t.Errorf("%s: %d tables are read, want %d: %+v", tt.name, reads, tt.reads, failed)
		}
		if n := strings.Count(errs.String(), "Without --license this takes"); n == 0 {
			t.Errorf("%s: no price is said: %q", tt.name, errs.String())
		}
	}
}
