package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/awsmp/metering/simulator"
)

const simulatorLong = `Serve a local AWS Marketplace Metering Service that any AWS SDK can be pointed at.

It answers BatchMeterUsage and ResolveCustomer with the rules of the real service: the time window, the month end,
first write wins, licenses, tags, the rate limit. Nothing leaves this machine and nothing is billed. What it holds is
in memory and gone when it stops, unless --journal names a file that keeps it. GET /_simulator/ on its address lists
what can be read and changed while it runs.`

const simulatorExample = `  # A first try: everything that is well-formed is accepted.
  awsmp simulator

  # As strict as the real service: only these dimensions, only licenses that were put.
  awsmp simulator --open=false --dimension api_calls --dimension storage_gb

  # Keep the ledger and everything that was put over restarts.
  awsmp simulator --journal marketplace.ndjson`

func newSimulatorCommand() *cobra.Command {
	var addr string
	options := simulator.Options{}
	cmd := &cobra.Command{
		Use:     "simulator",
		Short:   "Serve a local AWS Marketplace Metering Service",
		Long:    simulatorLong,
		Example: simulatorExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return serveSimulator(ctx, cmd.OutOrStdout(), addr, options)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&addr, "addr", "127.0.0.1:8787", "address to listen on; port 0 takes a free one")
	flags.StringVar(&options.Journal, "journal", "", "file that keeps what the simulator holds over restarts (default: in memory only)")
	simulatorFlags(flags, &options)
	return cmd
}

// simulatorFlags binds the simulator's options, whose defaults on the command line are those of the real service but for open doors.
func simulatorFlags(flags *pflag.FlagSet, o *simulator.Options) {
	flags.StringVar(&o.ProductCode, "product-code", simulator.DefaultProductCode, "product code of legacy calls")
	flags.StringArrayVar(&o.Dimensions, "dimension", nil, "a defined dimension, case-sensitive; repeat it (default: every dimension)")
	flags.BoolVar(&o.OpenDoors, "open", true, "accept every well-formed license, account and identifier as active")
	flags.Float64Var(&o.CallsPerSecond, "calls-per-second", simulator.DefaultCallsPerSecond, "rate limit of BatchMeterUsage; 0 is none")
	flags.DurationVar(&o.Window, "window", simulator.DefaultWindow, "how old usage may be; exactly this old is too old")
	flags.DurationVar(&o.FutureTolerance, "future-tolerance", simulator.DefaultFutureTolerance, "how far ahead of the clock usage may be")
	flags.Int64Var(&o.MaxRequestBytes, "max-request-bytes", simulator.DefaultMaxRequestBytes, "size that a request must stay under")
	flags.DurationVar(&o.TokenTTL, "token-ttl", simulator.DefaultTokenTTL, "life of a registration token")
	flags.StringVar((*string)(&o.UnknownCustomer), "unknown-customer", string(simulator.ByException), "refuse customers that do not exist by: exception, status")
	flags.StringVar((*string)(&o.AfterWindow), "after-window", string(simulator.ByStatus), "refuse closed licenses by: status, exception")
	flags.StringVar((*string)(&o.BeforeActivation), "before-activation", string(simulator.ActivationInvalidLicense),
		"refuse usage from before the activation by: InvalidLicenseException, TimestampOutOfBoundsException")
	flags.StringVar((*string)(&o.ClosingAnchor), "closing-anchor", string(simulator.AnchorDeprovisioned), "what opens the closing hour: deprovisioned, ended")
	flags.BoolVar(&o.HourGranularWindow, "hour-granular-window", false, "measure the window from the start of the current hour")
	flags.BoolVar(&o.GraceExtendsWindow, "grace-extends-window", false, "until 06:00 on the 1st, accept all of last month's last window")
	flags.BoolVar(&o.ProseTagCharacters, "prose-tag-characters", false, "allow in tags only the characters that the seller guide lists")
	flags.BoolVar(&o.RecordTagKeyLimit, "record-tag-key-limit", false, "allow five distinct tag keys a record, not five an allocation")
	flags.BoolVar(&o.AllocationsDistinguish, "allocations-distinguish", false, "answer DuplicateRecord if only the allocations differ")
	flags.BoolVar(&o.ResendNeedsSubscription, "resend-needs-subscription", false, "refuse the resend of billed usage once the license is closed")
	flags.BoolVar(&o.ShuffleResults, "shuffle-results", false, "answer the results in random order")
	flags.BoolVar(&o.Disabled, "disabled", false, "refuse every call with DisabledApiException")
}

func serveSimulator(ctx context.Context, out io.Writer, addr string, options simulator.Options) (err error) {
	sim, err := simulator.New(options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sim.Close()) }()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s is taken by another program, perhaps a simulator that still runs\nTry: awsmp simulator --addr 127.0.0.1:0", addr)
	}
	if err != nil {
		return fmt.Errorf("listen on %s: %w\nTry: awsmp simulator --addr 127.0.0.1:8787", addr, err)
	}
	server := &http.Server{Handler: sim, ReadHeaderTimeout: 10 * time.Second}
	writeSimulatorIntroduction(out, "http://"+listener.Addr().String(), options, len(sim.Ledger()))

	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve the simulator: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		_ = server.Close() // a call held by a latency fault is not waited for
	}
	fmt.Fprintf(out, "Stopped. Calls: %d, hours billed: %d.\n", sim.Stats().Calls, len(sim.Ledger()))
	return nil
}

func writeSimulatorIntroduction(out io.Writer, endpoint string, options simulator.Options, billed int) {
	const account = "111122223333"
	const license = "arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef"
	dimension := "api_calls"
	if len(options.Dimensions) > 0 {
		dimension = options.Dimensions[0]
	}
	fmt.Fprintf(out, "AWS Marketplace Metering Service (simulated) on %s\n", endpoint)
	if options.OpenDoors {
		fmt.Fprint(out, "Open: every well-formed license, account and identifier counts as an active customer. --open=false accepts only those that you put.\n")
	} else {
		fmt.Fprintf(out, "Closed: put a license before you meter it.\n\n  curl -X PUT %s/_simulator/licenses -d '{\"licenseArn\": %q, \"accountId\": %q}'\n", endpoint, license, account)
	}
	if options.Journal != "" {
		fmt.Fprintf(out, "Journal: %s. Hours billed before: %d.\n", options.Journal, billed)
	}
	fmt.Fprintf(out, "\nAWS CLI:\n  AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_DEFAULT_REGION=us-east-1 aws meteringmarketplace batch-meter-usage --endpoint-url %s --usage-records Timestamp=$(date -u +%%Y-%%m-%%dT%%H:00:00Z),Dimension=%s,Quantity=1,CustomerAWSAccountId=%s,LicenseArn=%s\n", endpoint, dimension, account, license)
	fmt.Fprintf(out, "\nPython:\n  client = boto3.client(\"meteringmarketplace\", region_name=\"us-east-1\", endpoint_url=\"%s\", aws_access_key_id=\"test\", aws_secret_access_key=\"test\")\n", endpoint)
	fmt.Fprintf(out, "\nGo:\n  client := marketplacemetering.New(marketplacemetering.Options{Region: \"us-east-1\", BaseEndpoint: aws.String(\"%s\"), Credentials: credentials.NewStaticCredentialsProvider(\"test\", \"test\", \"\")})\n", endpoint)
	fmt.Fprintf(out, "\nWhat was billed: curl %s/_simulator/ledger\nEverything else: curl %s/_simulator/\n", endpoint, endpoint)
}
