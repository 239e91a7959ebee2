package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/metering"
)

const explainLong = `Tell what became of usage, or what an alarm means.

With LICENSE DIMENSION HOUR: the rows, the record that they were summed into, what was sent and what AWS Marketplace said, as a short story; then for
every unit that is not billed why, whether anything can still be done, by which command, and until when; at the end the balance of the group.
On one machine LICENSE may be the end of one, as awsmp status shows it. Where several accounts have usage of it, all are shown.

With ALARM, as awsmp status names them: the entry of the runbook, what the place shows of it now, and the command that helps. Without
arguments all alarms are listed, the most urgent first.`

const explainExample = `  awsmp explain arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef api_calls 2026-03-10T14
  awsmp explain usage-late --stack awsmp-exampleproduct-metering --region us-east-1
  awsmp explain`

type explainFlags struct {
	place       place
	account     string
	json, tools bool
}

func newExplainCommand() *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:               "explain [LICENSE DIMENSION HOUR | ALARM]",
		Short:             "Tell what became of usage, or what an alarm means",
		Long:              explainLong,
		Example:           explainExample,
		ValidArgsFunction: completeAlarms,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 2:
				return errors.New("an HOUR is missing, as 2026-03-10T14: LICENSE DIMENSION HOUR are wanted, or one ALARM")
			case len(args) > 3:
				return fmt.Errorf("LICENSE DIMENSION HOUR are wanted, or one ALARM, and not %d words", len(args))
			case f.account != "" && !metering.ValidAccount(f.account):
				return fmt.Errorf("--account is %q, and must be 12 digits", f.account)
			case f.account != "" && len(args) != 3:
				return errors.New("--account is for LICENSE DIMENSION HOUR")
			case f.tools && len(args) > 0:
				return errors.New("--tools goes without arguments")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch len(args) {
			case 3:
				return f.usage(cmd, args[0], args[1], args[2])
			case 1:
				return f.alarm(cmd, args[0])
			}
			return f.list(cmd)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.account, "account", "", "of this customerAWSAccountId only")
	flags.BoolVar(&f.tools, "tools", false, "print the shell functions that the runbook's commands go by")
	flags.BoolVar(&f.json, "json", false, "write one JSON document")
	f.place.flags(flags)
	return cmd
}

// completeAlarms completes the name of an alarm.
func completeAlarms(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return desk.Alarms(), cobra.ShellCompDirectiveNoFileComp
}

// list lists all alarms, or prints the runbook's tools.
func (f *explainFlags) list(cmd *cobra.Command) error {
	out := cmd.OutOrStdout()
	if err := f.place.settle(cmd); err != nil {
		return err
	}
	if f.tools {
		product, region := "", f.place.region
		if f.place.stack != "" {
			s, err := f.place.findStack(cmd)
			if err != nil {
				return err
			}
			product, region = s.ProductCode, s.Region
		}
		_, err := io.WriteString(out, desk.Tools(product, region))
		return err
	}
	untils := desk.Untils()
	if f.json {
		list := []desk.Advice{}
		for _, name := range desk.Alarms() {
			a, _ := desk.Advise(name, "")
			list = append(list, a)
		}
		return encode(out, struct {
			Alarms []desk.Advice `json:"alarms"` // the most urgent first
		}{list})
	}
	var b strings.Builder
	b.WriteString("Alarms, the most urgent first, and how long until money is lost. awsmp explain ALARM tells more.\n")
	for _, name := range desk.Alarms() {
		fmt.Fprintf(&b, "  %-31s  %s\n", name, untils[name])
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// alarmOf is an alarm as a person names it: with the stack's name before it, as CloudWatch does.
func alarmOf(name string) (string, bool) {
	known := desk.Alarms()
	if slices.Contains(known, name) {
		return name, true
	}
	if base, _, test := strings.Cut(name, "-test-"); test { // of a test stage of the events stack
		name = base
	}
	best := ""
	for _, alarm := range known {
		if name == alarm || strings.HasPrefix(name, "awsmp-") && strings.HasSuffix(name, "-"+alarm) && len(alarm) > len(best) {
			best = alarm
		}
	}
	return best, best != ""
}

// nearAlarms are those that a name may have meant.
func nearAlarms(name string) (near []string) {
	topic := &cobra.Command{Use: "explain", SuggestionsMinimumDistance: 3}
	for _, alarm := range desk.Alarms() {
		topic.AddCommand(&cobra.Command{Use: alarm, Run: func(*cobra.Command, []string) {}})
		if len(name) > 3 && strings.Contains(alarm, name) {
			near = append(near, alarm)
		}
	}
	for _, alarm := range topic.SuggestionsFor(name) {
		if !slices.Contains(near, alarm) {
			near = append(near, alarm)
		}
	}
	return near[:min(len(near), 5)]
}

// explainedAlarm is awsmp explain ALARM as JSON.
type explainedAlarm struct {
	desk.Advice
	Place    string         `json:"place,omitempty"`    // that was looked at; missing where there is none
	Findings []desk.Finding `json:"findings"`           // of this alarm
	Machine  bool           `json:"machine,omitempty"`  // the place is on this machine: the entry's commands of aws are of a stack
	Here     string         `json:"here,omitempty"`     // the command that shows at this place what the entry is about
	Unlooked string         `json:"unlooked,omitempty"` // why no place was looked at
	Gaps     []string       `json:"gaps,omitempty"`     // what could not be looked at of it
}

// alarm shows the runbook's entry, and what the place shows of it. Where the place cannot be looked at, the entry is shown all the same, unless the
// place was named.
func (f *explainFlags) alarm(cmd *cobra.Command, text string) error {
	if err := f.place.settle(cmd); err != nil {
		return err
	}
	name, known := alarmOf(text)
	if !known {
		err, try := fmt.Errorf("there is no alarm %q", text), "awsmp explain"
		if near := nearAlarms(text); len(near) > 0 {
			err, try = fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or ")), "awsmp explain "+near[0]+f.place.where()
		}
		return &failure{exitUsage, err, try}
	}
	e := explainedAlarm{Findings: []desk.Finding{}}
	product := ""
	d, closeDesk, err := f.place.open(cmd)
	switch {
	case err == nil:
		defer func() { _ = closeDesk() }() // nothing was written
		s, err := d.Status(cmd.Context(), desk.StatusOptions{})
		if err != nil {
			return err
		}
		e.Place, e.Gaps = s.Place, s.Gaps
		e.Machine, e.Here = s.Store != "", desk.Command(name, f.place.where())
		if !e.Machine {
			product = s.ProductCode
		}
		for _, finding := range s.Findings {
			if finding.Alarm == name {
				e.Findings = append(e.Findings, finding)
			}
		}
	case f.place.stack != "" || f.place.given("store") || f.place.given("data") || cmd.Context().Err() != nil:
		return err
	default:
		e.Unlooked = err.Error()
	}
	e.Advice, _ = desk.Advise(name, product)
	out := cmd.OutOrStdout()
	if f.json {
		return encode(out, e)
	}
	return writeAlarm(out, e, f.place.where())
}

func encode(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
