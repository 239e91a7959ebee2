package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/awsmp/metering/internal/eventbus"
	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/simulator"
)

const eventsLong = `Play AWS Marketplace's part: a buyer's license begins or ends, an agreement is amended or ended.

awsmp events send makes an event as EventBridge delivers it, and hands it to a node or to a stage on AWS that meters in dry-run.`

const eventsExample = `  # A buyer comes and leaves. The last hour of the license begins.
  awsmp events send license-updated
  awsmp events send license-deprovisioned
  awsmp status`

func newEventsCommand() *cobra.Command {
	return group("events", "Play the Marketplace's events: buyers come and leave", eventsLong, eventsExample,
		newEventsSendCommand())
}

const sendLong = `Send an event of AWS Marketplace, with the shape that EventBridge delivers.

KIND is one of

  license-updated        a license begins, or is active again
  license-deprovisioned  its last hour begins: usage is accepted for one hour more
  agreement-created      metering has no use for it
  agreement-amended      the agreement's times change
  agreement-ended        the agreement is over; the license's own event follows

To a node, which is the default: the event has the Marketplace's own source, and the node's simulator follows it.

To a stage on AWS, with --stage: the event goes over the account's event bus, under a source of that stage alone. Before anything is
sent, the settings of the stage's subscription function are read; it is sent only if they say that the stage meters in dry-run, takes test
events under this name, and takes them for this buyer's account. Credentials and endpoints are those of the AWS CLI; the caller needs
lambda:GetFunctionConfiguration and events:PutEvents.`

const sendExample = `  # A buyer of examples/hour.csv leaves; two hours later nothing of theirs is open any more. The node knows the buyer's account.
  awsmp events send license-deprovisioned --license arn:aws:license-manager::111122223333:license:l-1a2b3c4d5e6f708192a3b4c5d6e7f801
  awsmp clock advance 2h

  # An event late and out of order, as EventBridge may deliver it.
  awsmp events send license-updated --at 2026-03-10T14:00:00Z

  # Look at it, change it, send it.
  awsmp events send agreement-ended --print > event.json
  awsmp events send --file event.json

  # To the stage qa on AWS.
  awsmp events send license-updated --stage qa --account 111122223333`

type sendFlags struct {
	remote
	event                       lifecycle.TestEvent // but for its times
	role, at, start, end        string
	file, region, function, bus string
	print, json                 bool
	anyAccount                  bool // none is named: the node may know the license's
	licenseNamed                bool
	note                        string // on the event, for whoever sends it
}

func newEventsSendCommand() *cobra.Command {
	f := &sendFlags{}
	cmd := &cobra.Command{
		Use:     "send KIND",
		Short:   "Send an event to a node, or to a dry-run stage on AWS",
		Long:    sendLong,
		Example: sendExample,
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.read(cmd, args); err != nil {
				return misused(cmd, err)
			}
			return f.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.event.License, "license", exampleLicense, "licenseArn of the buyer's license")
	flags.StringVar(&f.event.Account, "account", exampleAccount, "AWS account of the buyer; of a license's event to a node, the one that it knows of the license")
	flags.StringVar(&f.event.Agreement, "agreement", "", "id of the agreement (default: agmt- and what follows l- in the license)")
	flags.StringVar(&f.event.ProductCode, "product-code", simulator.DefaultProductCode, "product code of the license")
	flags.StringVar(&f.role, "role", "", "of the seller in an agreement's event: proposer, or manufacturer where a reseller sold it (default: proposer)")
	flags.StringVar(&f.event.Status, "status", "", "of the agreement (default: ACTIVE, or CANCELLED where it ended)")
	flags.StringVar(&f.at, "at", "", "time of the event, in UTC (default: the node's time; on AWS: now)")
	flags.StringVar(&f.start, "start", "", "start of the agreement, in UTC (default: the event's time)")
	flags.StringVar(&f.end, "end", "", "end of the agreement, in UTC (default: a year after its start)")
	flags.StringVar(&f.file, "file", "", "send the event in this file, or each of an array of them, in place of KIND; - reads standard input")
	flags.BoolVar(&f.print, "print", false, "write the event and send nothing")
	flags.BoolVar(&f.json, "json", false, "write one JSON document: what became of it")
	f.remote.flags(flags)
	flags.StringVar(&f.event.Stage, "stage", "", "send it to this dry-run stage on AWS, in place of a node")
	flags.StringVar(&f.region, "region", "us-east-1", "with --stage: Region of its events stack")
	flags.StringVar(&f.function, "function", "", "with --stage: name of its subscription function (default: "+lifecycle.TestFunction("<stage>")+")")
	flags.StringVar(&f.bus, "bus", "default", "with --stage: event bus that its rule is on")
	return cmd
}

const exampleAccount = "111122223333"

// agreementOf is the agreement that a license is invented to be of: each is of its own.
func agreementOf(license string) string {
	id := license[strings.LastIndexAny(license, ":/")+1:]
	return "agmt-" + strings.TrimPrefix(id, "l-")
}

// unused says which flag an event of a kind has no use for; nil where there is none.
func unused(kind lifecycle.Kind, changed func(flag string) bool) error {
	ofLicense := kind.OfLicense()
	if !ofLicense && changed("license") {
		return errors.New("an agreement's event names no license; use --agreement")
	}
	for _, flag := range []struct {
		name string
		used bool
	}{
		{"product-code", ofLicense}, {"status", !ofLicense},
		{"start", !ofLicense && kind != lifecycle.AgreementEnded}, {"end", !ofLicense && kind != lifecycle.AgreementEnded},
	} {
		if changed(flag.name) && !flag.used {
			return fmt.Errorf("%s has no use for --%s", kind, flag.name)
		}
	}
	return nil
}

// read reads what the flags say beyond their own values.
func (f *sendFlags) read(cmd *cobra.Command, args []string) (err error) {
	changed := cmd.Flags().Changed
	for _, name := range []string{"region", "function", "bus"} {
		if changed(name) && f.event.Stage == "" {
			return fmt.Errorf("--%s is of a stage on AWS: name it with --stage", name)
		}
	}
	if changed("stage") {
		if !eventbus.StageName(f.event.Stage) {
			return fmt.Errorf("--stage is %q, and must be a letter and up to 30 lower-case letters, digits and hyphens", f.event.Stage)
		}
		for _, name := range []string{"node", "data", "store"} {
			if changed(name) {
				return fmt.Errorf("--stage excludes --%s: it is a stage on AWS or a node", name)
			}
		}
		f.function = cmp.Or(f.function, lifecycle.TestFunction(f.event.Stage))
	}
	if f.file != "" {
		for _, name := range []string{"license", "account", "agreement", "product-code", "role", "status", "at", "start", "end"} {
			if changed(name) {
				return fmt.Errorf("--file excludes --%s: the event is in the file", name)
			}
		}
		if len(args) > 0 {
			return errors.New("--file excludes KIND: the event is in the file")
		}
		return nil
	}
	if len(args) != 1 {
		return fmt.Errorf("one KIND of event is sent, not %d: %s", len(args), strings.Join(kindNames(), ", "))
	}
	if f.event.Kind, err = kindOf(args[0]); err != nil {
		return err
	}
	if err := unused(f.event.Kind, changed); err != nil {
		return err
	}
	f.anyAccount = f.event.Stage == "" && !changed("account") && f.event.Kind.OfLicense()
	f.licenseNamed = changed("license")
	if !changed("agreement") {
		f.event.Agreement = agreementOf(f.event.License)
	}
	f.event.Role = lifecycle.Role(f.role)
	for _, v := range []struct {
		flag, text string
		to         *time.Time
	}{{"at", f.at, &f.event.At}, {"start", f.start, &f.event.Start}, {"end", f.end, &f.event.End}} {
		if v.text == "" {
			continue
		}
		if *v.to, err = parseInstant(v.text); err != nil {
			return fmt.Errorf("--%s: %w", v.flag, err)
		}
	}
	complete := f.event
	complete.At = cmp.Or(complete.At, time.Now()) // the node is not asked for its time yet
	return complete.Check()
}

func kindNames() []string {
	var names []string
	for _, k := range lifecycle.Kinds() {
		names = append(names, string(k))
	}
	return names
}

func kindOf(text string) (lifecycle.Kind, error) {
	names := kindNames()
	for _, name := range names {
		if name == text {
			return lifecycle.Kind(name), nil
		}
	}
	if near := nearest(text, names); len(near) > 0 {
		return "", fmt.Errorf("there is no event %q; did you mean %s?", text, strings.Join(near, " or "))
	}
	return "", fmt.Errorf("there is no event %q; there are %s", text, strings.Join(names, ", "))
}

// nearest are the names that may have been meant, by cobra's rule for commands.
func nearest(typed string, names []string) []string {
	all := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, name := range names {
		all.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	return all.SuggestionsFor(typed)
}
