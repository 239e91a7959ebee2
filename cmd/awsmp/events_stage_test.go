package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/awsmp/metering/internal/eventbus/eventbustest"
	"github.com/awsmp/metering/internal/standin"
)

// TestEventsOnAWS runs the scripts of events for stages on AWS, against moto.
func TestEventsOnAWS(t *testing.T) {
	t.Parallel()
	moto := standin.Moto(t)
	dryRun := map[string]string{"METERING_MODE": "dry-run", "TEST_STAGE": "qa", "TEST_ACCOUNTS": "111122223333,444455556666", "SUBSCRIBERS_TABLE": "awsmp-subscribers-test-qa"}
	eventbustest.Deploy(t, "awsmp-subscription-test-qa", dryRun)
	eventbustest.Deploy(t, "awsmp-subscription", map[string]string{"METERING_MODE": "live", "TEST_STAGE": "none", "TEST_ACCOUNTS": "none"})
	arrived := eventbustest.Listen(t, "awsmp-qa-subscription-events", "awsmp.test.qa")
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/events",
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("AWS_ENDPOINT_URL", moto)
			env.Setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
			env.Setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
			// arrived N writes the N events that have arrived on the stage's queue to standard output.
			"arrived": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) != 1 {
					ts.Fatalf("usage: arrived N")
				}
				events := arrived.Receive(t)
				if got := fmt.Sprint(len(events)); got != args[0] {
					ts.Fatalf("%s events have arrived, want %s: %s", got, args[0], events)
				}
				for _, e := range events {
					fmt.Fprintln(ts.Stdout(), e)
				}
			},
		},
	})
}
