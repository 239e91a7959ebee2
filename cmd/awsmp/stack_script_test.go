package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	dynamosdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/stack/stacktest"
	"github.com/awsmp/metering/internal/store/dynamodb"
)

// stacks are the deployments that scripts work on.
type stacks struct {
	t      *testing.T
	shared func() stacktest.Deployed

	mu sync.Mutex
	of map[string]stacktest.Deployed // by the endpoint that a script was given
}

func newStacks(t *testing.T) *stacks {
	return &stacks{
		t: t, of: make(map[string]stacktest.Deployed),
		shared: sync.OnceValue(func() stacktest.Deployed { return stacktest.Deploy(t, stacktest.Options{}) }),
	}
}

// deploy is the scripts' command stack [own [--no-events] [--no-metering] [Parameter=Value …]]: it sets the environment of a stack, with $STACK,
// $EVENTS_STACK, $PRODUCT and $REGION. All scripts share one stack and keep to licenses of their own in it; with own the script has one for
// itself, which takes its time.
func (s *stacks) deploy(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 && args[0] != "own" {
		ts.Fatalf("usage: stack [own [--no-events] [--no-metering] [Parameter=Value …]]")
	}
	deployed := stacktest.Deployed{}
	if len(args) == 0 {
		deployed = s.shared()
	} else {
		o := stacktest.Options{Parameters: map[string]string{}}
		for _, arg := range args[1:] {
			name, value, set := strings.Cut(arg, "=")
			switch {
			case arg == "--no-events":
				o.NoEvents = true
			case arg == "--no-metering":
				o.NoMetering = true
			case set:
				o.Parameters[name] = value
			default:
				ts.Fatalf("stack own: %q is not known", arg)
			}
		}
		deployed = stacktest.Deploy(s.t, o)
	}
	s.mu.Lock()
	s.of[deployed.Endpoint] = deployed
	s.mu.Unlock()
	for _, setting := range deployed.Env() {
		name, value, _ := strings.Cut(setting, "=")
		ts.Setenv(name, value)
	}
	ts.Setenv("STACK", deployed.StackName)
	ts.Setenv("EVENTS_STACK", deployed.EventsStack)
	ts.Setenv("PRODUCT", deployed.ProductCode)
	ts.Setenv("REGION", deployed.Region)
}

// put is the scripts' command put TABLE FILE: it writes items into usage or aggregated-usage of the script's stack. FILE holds one item a line, as JSON with the
// tables' own attribute names.
func (s *stacks) put(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: put usage|aggregated-usage FILE")
	}
	s.mu.Lock()
	deployed, there := s.of[ts.Getenv("AWS_ENDPOINT_URL")]
	s.mu.Unlock()
	if !there {
		ts.Fatalf("put: there is no stack yet: the command stack comes first")
	}
	ctx := context.Background()
	cfg, err := deployed.Config(ctx, "")
	ts.Check(err)
	client := dynamosdk.NewFromConfig(cfg)
	name := "awsmp-" + deployed.ProductCode + "-" + args[0]
	for line := range strings.Lines(ts.ReadFile(args[1])) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		var item metering.Item
		decoder := json.NewDecoder(bytes.NewReader([]byte(line)))
		decoder.UseNumber()
		ts.Check(decoder.Decode(&item))
		if args[0] == "usage" {
			ts.Check(dynamodb.NewRows(client, name, dynamodb.Options{}).PutRow(ctx, metering.RowFromItem(item)))
		} else {
			ts.Check(dynamodb.NewRecords(client, name, dynamodb.Options{}).PutRecord(ctx, metering.RecordFromItem(item)))
		}
	}
}

// hours is the scripts' command hours FILE…: in each file it puts the current hour and those before it, in UTC, in the place of <HOUR>, <HOUR-1>, <HOUR-2> and
// so on, and sets $HOUR, $HOUR1, $HOUR2 and so on, up to 48. The time is the real one: of the hours before it six can always be billed, also when a month
// has just turned, but none for a certain time. Just before the hour turns it waits: the commands that follow are to be of the same hour.
func hours(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: hours [FILE…]")
	}
	time.Sleep(time.Until(sameHour(time.Now())))
	now := metering.HourOf(time.Now())
	pairs := []string{"<HOUR>", now.String()}
	ts.Setenv("HOUR", now.String())
	for back := 1; back <= 48; back++ {
		hour, n := (now - metering.Hour(back)).String(), strconv.Itoa(back)
		pairs = append(pairs, "<HOUR-"+n+">", hour)
		ts.Setenv("HOUR"+n, hour)
	}
	replace := strings.NewReplacer(pairs...)
	for _, file := range args {
		ts.Check(os.WriteFile(ts.MkAbs(file), []byte(replace.Replace(ts.ReadFile(file))), 0o644))
	}
}

// sameHour is the first time from now on at which a script can begin and end within one hour, with a second of it gone by in which something may have
// happened.
func sameHour(now time.Time) time.Time {
	const begun, takes = 3 * time.Second, 2 * time.Minute
	hour := now.Truncate(time.Hour)
	if now.Add(takes).After(hour.Add(time.Hour)) {
		hour = hour.Add(time.Hour)
	}
	if first := hour.Add(begun); now.Before(first) {
		return first
	}
	return now
}

func TestSameHour(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"14:00:00": "14:00:03", "14:00:03": "14:00:03", "14:30:00": "14:30:00", "14:58:00": "14:58:00", "14:58:01": "15:00:03", "14:59:59": "15:00:03",
	} {
		now, err := time.Parse(time.TimeOnly, text)
		if err != nil {
			t.Fatal(err)
		}
		if got := sameHour(now).Format(time.TimeOnly); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
