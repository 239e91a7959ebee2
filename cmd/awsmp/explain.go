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

With ALARM, as awsmp status names them: the entry of the runbook, what the place shows of it now, and the command that helps. Of several
alarms each is told once, in their order, and the place is looked at once for all. Without arguments all alarms are listed, the most urgent
first.

With --json one alarm is a document of its own; several are in one, {"alarms": [...]}, as a list of such documents.`

const explainExample = `  awsmp explain arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef api_calls 2026-03-10T14
  awsmp explain usage-late --stack awsmp-exampleproduct-metering --region us-east-1
  awsmp explain submitter-errors submitter-throttles work-age
  awsmp explain`

type explainFlags struct {
	place       place
	account     string
	json, tools bool
}

func newExplainCommand() *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:               "explain [LICENSE DIMENSION HOUR | ALARM...]",
		Short:             "Tell what became of usage, or what an alarm means",
		Long:              explainLong,
		Example:           explainExample,
		ValidArgsFunction: completeAlarms,
		Args: func(_ *cobra.Command, args []string) error {
			unknown := slices.IndexFunc(args, notAlarm)
			switch {
			case len(args) == 2 && unknown >= 0:
				return fmt.Errorf("an HOUR is missing, as 2026-03-10T14: LICENSE DIMENSION HOUR are wanted, or alarms, and %q is none", args[unknown])
			case f.account != "" && !metering.ValidAccount(f.account):
				return fmt.Errorf("--account is %q, and must be 12 digits", f.account)
			case f.account != "" && !ofUsage(args):
				return errors.New("--account is for LICENSE DIMENSION HOUR")
			case f.tools && len(args) > 0:
				return errors.New("--tools goes without arguments")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return f.list(cmd)
			case ofUsage(args):
				return f.usage(cmd, args[0], args[1], args[2])
			}
			return f.alarms(cmd, args)
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

// ofUsage reports whether words are LICENSE DIMENSION HOUR, and not alarms. A seller may call a dimension as an alarm is called: then the hour tells.
func ofUsage(words []string) bool {
	if len(words) != 3 {
		return false
	}
	_, noHour := metering.ParseHour(words[2])
	return notAlarm(words[0]) && (noHour == nil || notAlarm(words[1]) && notAlarm(words[2]))
}

// completeAlarms completes the names of alarms, each once. Behind a word that is none it is usage that is asked for.
func completeAlarms(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	more := desk.Alarms()
	for _, word := range args {
		given, known := alarmOf(word)
		if !known {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		more = slices.DeleteFunc(more, func(alarm string) bool { return alarm == given })
	}
	return more, cobra.ShellCompDirectiveNoFileComp
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

func notAlarm(word string) bool {
	_, known := alarmOf(word)
	return !known
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

// explainedAlarm is awsmp explain ALARM as JSON, and one of several.
type explainedAlarm struct {
	desk.Advice
	Place    string         `json:"place,omitempty"`    // that was looked at; missing where there is none
	Findings []desk.Finding `json:"findings"`           // of this alarm
	Machine  bool           `json:"machine,omitempty"`  // the place is on this machine: the entry's commands of aws are of a stack
	Here     string         `json:"here,omitempty"`     // the command that shows at this place what the entry is about
	Unlooked string         `json:"unlooked,omitempty"` // why no place was looked at
	Gaps     []string       `json:"gaps,omitempty"`     // what could not be looked at of it
}

// alarms shows the runbook's entries, and what the place shows of them, which is looked at once for all.
func (f *explainFlags) alarms(cmd *cobra.Command, words []string) error {
	if err := f.place.settle(cmd); err != nil {
		return err
	}
	names, err := f.named(words)
	if err != nil {
		return err
	}
	seen, unlooked, err := f.look(cmd)
	if err != nil {
		return err
	}
	explained := make([]explainedAlarm, len(names))
	for i, name := range names {
		explained[i] = explainAlarm(name, seen, f.place.where())
		explained[i].Unlooked = unlooked
	}
	out := cmd.OutOrStdout()
	switch {
	case !f.json:
		return writeAlarms(out, explained, f.place.where())
	case len(explained) == 1:
		return encode(out, explained[0])
	}
	return encode(out, struct {
		Alarms []explainedAlarm `json:"alarms"` // in the order in which they were asked for
	}{explained})
}

// named are the alarms that words name, each once. The first word that names none is the error; what to try has the near ones in place of all such words.
func (f *explainFlags) named(words []string) (names []string, err error) {
	guessed := true
	for i, word := range words {
		name, known := alarmOf(word)
		near := []string{name}
		if !known {
			near = nearAlarms(word)
			switch {
			case err != nil: // one is said at a time
			case len(near) > 0:
				err = fmt.Errorf("there is no alarm %q; did you mean %s?", word, strings.Join(near, " or "))
			case i == 0 && len(words) > 3:
				err = fmt.Errorf("there is no alarm %q, and LICENSE DIMENSION HOUR are 3 words, not %d", word, len(words))
			default:
				err = fmt.Errorf("there is no alarm %q", word)
			}
		}
		if len(near) == 0 {
			guessed = false
		} else if !slices.Contains(names, near[0]) {
			names = append(names, near[0])
		}
	}
	switch {
	case err == nil:
		return names, nil
	case guessed:
		return nil, &failure{exitUsage, err, "awsmp explain " + strings.Join(names, " ") + f.place.where()}
	}
	return nil, &failure{exitUsage, err, "awsmp explain"}
}

// look looks at the place. Where it cannot be looked at, unlooked says why, and the runbook is shown all the same, unless the place was named.
func (f *explainFlags) look(cmd *cobra.Command) (seen *desk.Status, unlooked string, err error) {
	d, closeDesk, err := f.place.open(cmd)
	switch {
	case err == nil:
		defer func() { _ = closeDesk() }() // nothing was written
		s, err := d.Status(cmd.Context(), desk.StatusOptions{})
		return &s, "", err
	case f.place.stack != "" || f.place.given("store") || f.place.given("data") || cmd.Context().Err() != nil:
		return nil, "", err
	}
	return nil, err.Error(), nil
}

// explainAlarm is the runbook's entry of an alarm, with what was seen of it at the place; seen is nil where none was looked at.
func explainAlarm(name string, seen *desk.Status, where string) explainedAlarm {
	e, product := explainedAlarm{Findings: []desk.Finding{}}, ""
	if seen != nil {
		e.Place, e.Gaps, e.Machine, e.Here = seen.Place, seen.Gaps, seen.Store != "", desk.Command(name, where)
		if !e.Machine {
			product = seen.ProductCode
		}
		for _, finding := range seen.Findings {
			if finding.Alarm == name {
				e.Findings = append(e.Findings, finding)
			}
		}
	}
	e.Advice, _ = desk.Advise(name, product)
	return e
}

func encode(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
