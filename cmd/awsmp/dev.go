package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/dev"
	"github.com/awsmp/metering/internal/folder"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/internal/registration"
	"github.com/awsmp/metering/simulator"
)

const devLong = `Run the whole pipeline on this machine, with a simulated Marketplace and a clock that can be moved.

Usage comes in over HTTP or by awsmp import. The stages run at the times at which they run on AWS, over a store that lasts: end
the command, or pull the plug, and start it again on the same folder. Its address is also a simulated AWS Marketplace
Metering Service, where any AWS SDK can be pointed at; every well-formed license counts as an active customer. Nothing
leaves this machine and nothing is billed.

Buyers come and leave too: awsmp events send plays the Marketplace's events, and /register on its address is the registration
page for a buyer's first click, which the printed link plays.

An hour of usage is metered when it is over. awsmp clock moves the clock forward, and everything that would happen in
the meantime happens at once. The clock never goes back; a new folder begins anew.

The folder holds usage.db (usage, records and buyers, an SQLite file), marketplace.ndjson (what the simulator holds) and node.lock (where
the node is to be found).`

const devExample = `  # Begin. The output says how usage is written and how the clock is moved.
  awsmp dev

  # The evening before a month ends, in a folder of its own.
  awsmp dev --data month-end --at 2026-03-31T18:00:00Z

  # Send to a simulator elsewhere, which may be as strict as the real service.
  awsmp simulator --addr 127.0.0.1:9000 --open=false
  awsmp dev --marketplace-endpoint http://127.0.0.1:9000

  # The registration page as your buyers will see it.
  awsmp dev --seller "Example Software" --product-name "Example Analytics" --registration-fields 'contactName*,contactEmail*,teamSize'`

type devFlags struct {
	data, addr, at, marketplace, product string
	lock                                 int
	fold                                 time.Duration
	fields                               string
	seller                               registration.Seller
	start                                []string // the flags that another start of the same node needs
}

func newDevCommand() *cobra.Command {
	var f devFlags
	cmd := &cobra.Command{
		Use:     "dev",
		Short:   "Run the pipeline on this machine, against a simulated Marketplace",
		Long:    devLong,
		Example: devExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			context.AfterFunc(ctx, stop) // the second signal ends the program at once
			if cmd.Flags().Changed("data") && cmd.Flags().Changed("store") {
				return errTwoFolders()
			}
			options, err := f.options(cmd.Flags().Changed("lock"))
			if err != nil {
				return misused(cmd, err)
			}
			f.start = startFlags(cmd.Flags())
			return runDev(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr(), f, options)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	dataFlags(flags, &f.data, "folder of the store; made where it is missing")
	flags.StringVar(&f.addr, "addr", "127.0.0.1:8787", "address to listen on; port 0 takes a free one")
	flags.IntVar(&f.lock, "lock", 0, "MeteringLockHours: how many hours an hour stays open for late rows, 1 to 20 (default: what the folder had last, at first 1)")
	flags.StringVar(&f.at, "at", "", "where the clock starts, in UTC: later than the folder's clock, or any time for a new folder")
	flags.DurationVar(&f.fold, "fold", 0, "how long a stretch of usage over HTTP becomes one row, which takes 100 requests: 1s to 5m, dividing the hour; a folder keeps the first (default: 1s)")
	flags.StringVar(&f.marketplace, "marketplace-endpoint", "", "send to this service, unsigned, in place of the built-in simulator")
	flags.StringVar(&f.product, "product-code", "", "product code that buyers register for, and of calls for products of the old kind; a folder keeps the first (default: "+simulator.DefaultProductCode+")")
	flags.StringVar(&f.fields, "registration-fields", registration.DefaultFields, "what buyers are asked for at registration, * where it is required; none: nothing")
	flags.StringVar(&f.seller.Name, "seller", "", "your name on the registration page")
	flags.StringVar(&f.seller.Product, "product-name", "", "your product's name on the registration page")
	flags.StringVar(&f.seller.Support, "support", "", "where buyers find help: a mail address or an https address")
	flags.StringVar(&f.seller.Continue, "continue-url", "", "address of your product, where a registered buyer goes on: https, or http on localhost")
	return cmd
}

// startFlags are the flags that were given, but for the folder's and the clock's: another start names the one itself, and goes on with the other.
func startFlags(set *pflag.FlagSet) (words []string) {
	set.Visit(func(f *pflag.Flag) {
		if f.Name != "data" && f.Name != "store" && f.Name != "at" {
			words = append(words, "--"+f.Name, f.Value.String())
		}
	})
	return words
}

func (f devFlags) options(lockGiven bool) (o dev.Options, err error) {
	if lockGiven && (f.lock < 1 || f.lock > 20) {
		return o, fmt.Errorf("--lock is %d, and must be 1 to 20", f.lock)
	}
	if f.fold != 0 && (f.fold < time.Second || f.fold > 5*time.Minute || f.fold%time.Second != 0 || time.Hour%f.fold != 0) {
		return o, fmt.Errorf("--fold is %v, and must be 1s to 5m, whole seconds that divide the hour", f.fold)
	}
	if f.marketplace != "" {
		if u, err := url.Parse(f.marketplace); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return o, fmt.Errorf("--marketplace-endpoint is %q, and must be an address like http://127.0.0.1:9000", f.marketplace)
		}
	}
	o = dev.Options{MarketplaceEndpoint: f.marketplace, ProductCode: f.product, LockHours: f.lock, Fold: f.fold}
	o.Registration.Seller = f.seller
	if o.Registration.Fields, err = registration.ParseFields(f.fields); err != nil {
		return o, fmt.Errorf("--registration-fields: %w", err)
	}
	for _, v := range []struct {
		flag string
		registration.Seller
	}{
		{"seller", registration.Seller{Name: f.seller.Name}}, {"product-name", registration.Seller{Product: f.seller.Product}},
		{"support", registration.Seller{Support: f.seller.Support}}, {"continue-url", registration.Seller{Continue: f.seller.Continue}},
	} {
		if err := dev.CheckRegistration(dev.Options{Registration: registration.Settings{Seller: v.Seller}}); err != nil {
			return o, fmt.Errorf("--%s: %w", v.flag, err)
		}
	}
	if f.at != "" {
		if o.At, err = parseInstant(f.at); err != nil {
			return o, fmt.Errorf("--at: %w", err)
		}
		if year := o.At.Year(); year < 1970 || year > 2200 {
			return o, fmt.Errorf("--at is in the year %d, and must be in 1970 to 2200", year)
		}
	}
	return o, nil
}

// parseInstant reads a time as a person writes one: UTC unless it says otherwise.
func parseInstant(s string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time; write it as 2026-03-31T18:00:00Z", s)
}

func runDev(ctx context.Context, out, errs io.Writer, f devFlags, o dev.Options) (err error) {
	if err := makeFolder(f.data); err != nil {
		return err
	}
	data, err := dev.OpenFolder(ctx, f.data)
	if err != nil {
		return taken(err, f)
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	log := &devLog{out: out}
	o.Store, o.StorePath, o.Journal, o.Observe = data.Store, data.StorePath(), data.Journal(), log.event
	o.Log = slog.New(slog.NewTextHandler(errs, &slog.HandlerOptions{Level: slog.LevelWarn}))
	// The address first: a start that fails for it must not have moved the clock.
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", f.addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return &failure{exitError, fmt.Errorf("%s is taken by another program", f.addr), "awsmp dev --addr 127.0.0.1:0" + dataFlag(f.data)}
	}
	if err != nil {
		return &failure{exitError, fmt.Errorf("listen on %s: %w", f.addr, err), "awsmp dev --addr 127.0.0.1:8787" + dataFlag(f.data)}
	}
	machine, err := dev.New(ctx, o)
	if err != nil {
		return taken(errors.Join(err, listener.Close()), f)
	}
	defer func() { err = errors.Join(err, machine.Close(context.WithoutCancel(ctx))) }()
	if err := folder.KeepStart(ctx, data.Store, f.start); err != nil {
		return errors.Join(stored(err), listener.Close())
	}
	endpoint, exposed := addressOf(listener.Addr())
	if exposed {
		fmt.Fprintf(errs, "awsmp: anybody who reaches %s from elsewhere can read and write usage, move the clock and play events: there is no access control\n", f.addr)
	}
	if err := data.Announce(endpoint); err != nil {
		return errors.Join(err, listener.Close())
	}
	introduceDev(out, endpoint, f, machine)
	if err := machine.Serve(ctx, listener); err != nil {
		return err
	}
	return summarizeDev(context.WithoutCancel(ctx), out, machine)
}

// addressOf is where programs on this machine find what listens on an address, and whether others may reach it too.
func addressOf(a net.Addr) (endpoint string, exposed bool) {
	tcp, ok := a.(*net.TCPAddr)
	if !ok || tcp.IP.IsLoopback() {
		return "http://" + a.String(), false
	}
	if tcp.IP.IsUnspecified() {
		return fmt.Sprintf("http://127.0.0.1:%d", tcp.Port), true
	}
	return "http://" + a.String(), true
}

// taken is why a node did not start.
func taken(err error, f devFlags) error {
	var inUse *dev.InUseError
	var clock *dev.ClockError
	var fold *dev.FoldError
	var product *dev.ProductError
	switch {
	case errors.As(err, &inUse):
		return &failure{exitError, err, "awsmp status" + dataFlag(f.data) + ", or another folder: awsmp dev --data other-data"}
	case errors.As(err, &fold):
		return &failure{exitError, err, "leave --fold out, or begin anew: awsmp dev --data other-data --fold " + f.fold.String()}
	case errors.As(err, &product):
		return &failure{exitError, err, "leave --product-code out, or begin anew: awsmp dev --data other-data --product-code " + desk.Word(f.product)}
	case errors.As(err, &clock):
		return &failure{exitError, err, "leave --at out to go on from there, or begin anew: awsmp dev --data other-data --at " + f.at}
	}
	return stored(err)
}

// dataFlag is what other commands need to find a folder.
func dataFlag(data string) string {
	if data == folder.Default {
		return ""
	}
	return " --data " + desk.Word(data)
}

const exampleLicense = "arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef"

func introduceDev(out io.Writer, endpoint string, f devFlags, m *dev.Machine) {
	fmt.Fprintf(out, "Node: %s\n", endpoint)
	if f.marketplace == "" {
		fmt.Fprintf(out, "Marketplace: %s, simulated: point any AWS SDK's endpoint here. Nothing is billed.\n", endpoint)
	} else {
		fmt.Fprintf(out, "Marketplace: %s\n", f.marketplace)
	}
	fmt.Fprintf(out, "Data: %s\nClock: %s\n", f.data, clockText(m.Now(), m.Offset()))
	writeGoesBy(out, f, m)
	if f.marketplace != "" && m.Offset().Abs() > time.Minute {
		fmt.Fprint(out, "The Marketplace has a clock of its own, and refuses usage that is too old or too far ahead by it.\n")
	}
	now := metering.Second(m.Now().Unix())
	fmt.Fprintf(out, "\nWrite usage:\n  curl -sS -H 'Content-Type: application/json' -H 'Idempotency-Key: first-%s' %s/v1/usage -d '{\"licenseArn\": %q, \"customerAWSAccountId\": \"111122223333\", \"dimension\": \"api_calls\", \"timestamp\": %q, \"quantity\": 3}'\n",
		now, endpoint, exampleLicense, now) // a key stands for one body, and the next start prints another
	fmt.Fprintf(out, "  awsmp import usage.csv%s\n", dataFlag(f.data))
	fmt.Fprintf(out, "Move the clock:\n  awsmp clock advance 2h%s\n", dataFlag(f.data))
	fmt.Fprintf(out, "Let a buyer leave:\n  awsmp events send license-deprovisioned%s\n", dataFlag(f.data))
	if f.marketplace == "" {
		fmt.Fprintf(out, "Play a buyer's first click:\n  %s/_simulator/first-click?to=%s\n", endpoint, url.QueryEscape(endpoint+"/register"))
	}
	fmt.Fprintf(out, "Look on:\n  awsmp status%s\n  curl %s/v1/ledger\n\n", dataFlag(f.data), endpoint)
}

// writeGoesBy says what the folder has kept for the node, where that is not what a new folder would have, and what it keeps from now on.
func writeGoesBy(out io.Writer, f devFlags, m *dev.Machine) {
	is, was := m.GoesBy(), m.Before()
	if f.product == "" && is.ProductCode != simulator.DefaultProductCode {
		fmt.Fprintf(out, "Product: %s, as before in this folder\n", is.ProductCode)
	}
	switch {
	case was.ProductCode != "" && is.LockHours != was.LockHours:
		fmt.Fprintf(out, "Lock: an hour stays open for %s from now on, and no longer for %s as before in this folder\n",
			ledger.Counted(int64(is.LockHours), "hour"), ledger.Counted(int64(was.LockHours), "hour"))
	case f.lock == 0 && is.LockHours != 1:
		fmt.Fprintf(out, "Lock: an hour stays open for %s, as before in this folder\n", ledger.Counted(int64(is.LockHours), "hour"))
	}
}

// clockText is a time of a node's clock and how it stands to real time.
func clockText(now time.Time, offset time.Duration) string {
	text := now.Format("2006-01-02 15:04:05") + " UTC, "
	switch offset = offset.Round(time.Second); {
	case offset > 0:
		return text + daysText(offset) + " ahead of real time"
	case offset < 0:
		return text + daysText(-offset) + " behind real time"
	}
	return text + "real time"
}

// daysText is a duration as a person says it: whole days from two on.
func daysText(d time.Duration) string {
	if days := int64(d / (24 * time.Hour)); days >= 2 {
		return ledger.Counted(days, "day")
	}
	return d.String()
}

// devLog writes a line for each run of a stage that did something.
type devLog struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *devLog) event(e node.Event, text string) {
	if e.Err != nil {
		if text != "" {
			text += "; "
		}
		if errors.Is(e.Err, context.Canceled) {
			text += "stopped before its end"
		} else {
			text += "failed, and is tried again: " + e.Err.Error()
		}
	}
	if text == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.out, "%s  %-9s  %s\n", e.At.Format("01-02 15:04:05"), shortStage(e.Stage), text)
}

// shortStage is a stage's name as it fits in a column.
func shortStage(name string) string {
	if name == metering.FlushSchedule.Name {
		return "flush"
	}
	return name
}

func summarizeDev(ctx context.Context, out io.Writer, m *dev.Machine) error {
	s, err := m.Status(ctx)
	if err != nil {
		return err
	}
	var billed dev.Metric
	for _, metric := range s.Metrics {
		if metric.Name == string(metering.MetricBilled) {
			billed = metric
		}
	}
	var rows, records int64
	for _, w := range s.Waiting {
		rows, records = rows+int64(w.Rows), records+int64(w.Records)
	}
	fmt.Fprintf(out, "Stopped at %s UTC. Billed since the start: %s, %s. Waiting: %s, %s.\n", s.Now.Format("2006-01-02 15:04:05"),
		ledger.Counted(billed.Items, "record"), ledger.Counted(billed.Units, "unit"), ledger.Counted(rows, "row"), ledger.Counted(records, "record"))
	return nil
}
