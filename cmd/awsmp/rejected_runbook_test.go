package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/awsmp/metering/docs"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
)

// commandInText is a command of awsmp in a text, with its flags.
var commandInText = regexp.MustCompile(`(?m)awsmp( [a-z]+)+( (--[a-z-]+|[A-Z]+|\$M-[a-z-]+|awsmp-[a-z-]+))*`)

// unknownCommands are the commands in a text that there are none of, or that have no such flag.
func unknownCommands(text string) (found int, wrong []string) {
	for _, line := range commandInText.FindAllString(text, -1) {
		var names, flags []string
		for _, w := range strings.Fields(line)[1:] {
			if name, ok := strings.CutPrefix(w, "--"); ok {
				flags = append(flags, name)
			} else if strings.ToLower(w) == w && !strings.Contains(w, "-") {
				names = append(names, w)
			}
		}
		root := newRootCommand()
		cmd, rest, err := root.Find(names)
		if err != nil || cmd == root {
			wrong = append(wrong, line)
			continue
		}
		if cmd.HasSubCommands() && len(rest) > 0 {
			wrong = append(wrong, line)
			continue
		}
		found++
		for _, f := range flags {
			if cmd.Flags().Lookup(f) == nil {
				wrong = append(wrong, line+" has no --"+f)
			}
		}
	}
	return found, wrong
}

// The commands that the runbook and the books name are there.
func TestCommandsInTextsAreThere(t *testing.T) {
	t.Parallel()
	var texts strings.Builder
	for _, line := range strings.Split(docs.Runbook, "\n") {
		for _, code := range regexp.MustCompile("^    .*$|`[^`]+`").FindAllString(line, -1) {
			texts.WriteString(code + "\n")
		}
	}
	found, wrong := unknownCommands(texts.String())
	if found < 15 || len(wrong) > 0 {
		t.Errorf("%d commands in the runbook; %q are none", found, wrong)
	}
	var do strings.Builder
	for _, reason := range []string{
		metering.LateReason, "Grew from 1 to 2 after its hour was committed", string(metering.DryRunSubmitted), string(metering.CustomerNotSubscribed), string(metering.NegativeQuantity),
		string(metering.MalformedSortKey), metering.ExceptionDimension,
	} {
		for _, p := range []ledger.Place{ledger.Late, ledger.Rejected, ledger.Refused, ledger.DryRun} {
			e := ledger.Explain(p, reason).Do
			for _, name := range []string{"awsmp rejected drop", "awsmp rejected retry", "awsmp late carry", "awsmp refused retry", "awsmp dryrun promote"} {
				if strings.Contains(e, name) {
					do.WriteString(name + "\n")
				}
			}
		}
	}
	for _, name := range []string{"rejected drop", "rejected retry", "late carry", "refused retry", "dryrun promote"} {
		if !strings.Contains(do.String(), name) {
			t.Errorf("the books never name awsmp %s", name)
		}
	}
	if _, wrong := unknownCommands(do.String()); len(wrong) > 0 {
		t.Errorf("the books name %q", wrong)
	}
	if _, wrong := unknownCommands("awsmp rejected retri --license L\nawsmp late carry --licence L\nawsmp nothing"); len(wrong) != 3 {
		t.Errorf("of three wrong commands it finds %q", wrong)
	}
}

// Whatever changes something can be looked at first, and agreed to without a terminal; what reads a table at a price, agreed to.
func TestEveryRedrivingAsks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		names string
		flags []string
	}{
		{"rejected retry", []string{"dry-run", "yes", "json", "stack", "store", "license"}}, {"rejected drop", []string{"dry-run", "yes", "json", "stack", "store", "license", "key"}},
		{"late carry", []string{"dry-run", "yes", "json", "stack", "store", "license", "limit"}}, {"refused retry", []string{"dry-run", "yes", "json", "stack", "store", "license"}},
		{"dlq redrive", []string{"dry-run", "yes", "json", "stack", "store", "all"}}, {"dryrun promote", []string{"dry-run", "yes", "json", "stack", "store", "license"}},
		{"rejected list", []string{"yes", "json", "stack", "store", "license"}}, {"late list", []string{"yes", "json", "stack", "store", "license"}},
		{"refused list", []string{"yes", "json", "stack", "store", "license"}}, {"dryrun list", []string{"yes", "json", "stack", "store", "license"}},
		{"dlq list", []string{"json", "stack", "store"}}, {"dlq show", []string{"json", "stack", "store", "limit"}},
	} {
		cmd, _, err := newRootCommand().Find(strings.Fields(tt.names))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range tt.flags {
			if cmd.Flags().Lookup(name) == nil {
				t.Errorf("awsmp %s has no --%s", tt.names, name)
			}
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("awsmp %s --%s has no words", tt.names, f.Name)
			}
		})
	}
}
