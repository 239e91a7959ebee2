package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/awsmp/metering/internal/desk"
)

// deadPlant has dead letters, of which some come back as they are moved.
type deadPlant struct {
	desk.Plant
	dead   map[string]int
	stays  int    // of work-dlq
	cancel func() // called when two of work-dlq are moved
}

func (p *deadPlant) Queues(context.Context) ([]desk.Queue, error) {
	return []desk.Queue{
		{Name: "work-dlq", Dead: true, Visible: p.dead["work-dlq"], Oldest: "3h10m0s"}, {Name: "cleanup-dlq", Dead: true}, {Name: "events-dlq", Dead: true, Visible: p.dead["events-dlq"]},
	}, nil
}

func (p *deadPlant) Redrive(ctx context.Context, queue string, moved func(int)) (n int, err error) {
	for p.dead[queue] > 0 && (queue != "work-dlq" || p.dead[queue] > p.stays) {
		if ctx.Err() != nil {
			return n, ctx.Err()
		}
		p.dead[queue]--
		n++
		moved(n)
		if p.cancel != nil && n == 2 {
			p.cancel()
		}
	}
	return n, nil
}

func TestRedriveSaysWhatIsMovedAndWhatStays(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		stays     int
		interrupt bool
		agreed    consent
		out       string
		code      int
		left      int
	}{
		{"all", 0, false, consent{yes: true}, "Put back: 4 dead letters.\n  work-dlq: 3\n  events-dlq: 1\n", 0, 0},
		{"one is looked at elsewhere", 1, false, consent{yes: true},
			"Put back: 3 dead letters.\n  work-dlq: 2, and 1 stay there: looked at elsewhere, or come since; ask again in a minute\n  events-dlq: 1\n", exitRefused, 1},
		{"interrupted", 0, true, consent{yes: true}, "Put back: 2 dead letters.\n  work-dlq: 2, and 1 stay there: interrupted\n  events-dlq: 0, and 1 stay there: interrupted\n", exitInterrupted, 2},
		{"a dry run", 0, false, consent{dryRun: true}, "Dry run: 4 dead letters would be put back. Nothing is changed.\n  work-dlq: 3\n  events-dlq: 1\n", 0, 4},
		{"nobody can be asked", 0, false, consent{}, "", exitUsage, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			p := &deadPlant{dead: map[string]int{"work-dlq": 3, "events-dlq": 1}, stays: tt.stays}
			if tt.interrupt {
				p.cancel = cancel
			}
			d := &desk.Desk{Plant: p}
			queues, err := d.DeadQueues(ctx)
			if err != nil {
				t.Fatal(err)
			}
			var out, errs bytes.Buffer
			cmd := &cobra.Command{Use: "redrive", SilenceErrors: true, SilenceUsage: true, RunE: func(cmd *cobra.Command, _ []string) error { return redriveAll(cmd, d, queues, tt.agreed, false) }}
			cmd.SetArgs(nil)
			cmd.SetIn(strings.NewReader(""))
			cmd.SetOut(&out)
			cmd.SetErr(&errs)
			err = cmd.ExecuteContext(ctx)
			var f *failure
			if errors.As(err, &f) != (tt.code != 0) || f != nil && f.code != tt.code {
				t.Errorf("ended with %v", err)
			}
			if out.String() != tt.out || errs.Len() > 0 || p.dead["work-dlq"]+p.dead["events-dlq"] != tt.left {
				t.Errorf("printed %q and %q, left %v", out.String(), errs.String(), p.dead)
			}
		})
	}
}

func TestLettersAreShownInWords(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 10, 15, 20, 0, 0, time.UTC)
	for _, tt := range []struct {
		name    string
		queue   desk.Queue
		letters []desk.Reading
		want    string
	}{
		{"none", desk.Queue{Name: "work-dlq"}, nil, "work-dlq shows no message.\n"},
		{"hidden", desk.Queue{Name: "work-dlq", InFlight: 2}, nil, "work-dlq shows no message.\n2 messages are being looked at elsewhere: try again in a minute.\n"},
		{"two of three", desk.Queue{Name: "work-dlq", Visible: 3}, []desk.Reading{{Letter: desk.Letter{SentAt: at}, Words: "sum it"}, {Words: "label it"}},
			"03-10 15:20:00  sum it\n-  label it\nand about 1 message more: --limit shows more\nWhen what failed is mended, they are put back by\n  awsmp dlq redrive work-dlq --stack s\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var b strings.Builder
			if err := writeLetters(&b, tt.queue, tt.letters, " --stack s"); err != nil {
				t.Fatal(err)
			}
			if b.String() != tt.want {
				t.Errorf("got  %q\nwant %q", b.String(), tt.want)
			}
		})
	}
}

// failingPlant fails to move the letters of work-dlq, after one of them.
type failingPlant struct{ *deadPlant }

func (p failingPlant) Redrive(ctx context.Context, queue string, moved func(int)) (int, error) {
	if queue != "work-dlq" {
		return p.deadPlant.Redrive(ctx, queue, moved)
	}
	p.dead[queue]--
	moved(1)
	return 1, errors.New("send message back: AccessDenied: kms:GenerateDataKey")
}

// A queue whose letters cannot be moved is told of with what stays in it, and the others are moved all the same.
func TestRedriveThatFails(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		asJSON bool
		want   []string
	}{
		"text": {false, []string{"Put back: 2 dead letters.\n  work-dlq: 1, and 2 stay there: it failed\n  events-dlq: 1\n"}},
		"json": {true, []string{`"moved": 2`, `"stay": 2`, `"queue": "cleanup-dlq"`, `"queue": "events-dlq"`, `"failed": "redrive work-dlq: send message back: AccessDenied`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &desk.Desk{Plant: failingPlant{&deadPlant{dead: map[string]int{"work-dlq": 3, "events-dlq": 1}}}}
			queues, err := d.DeadQueues(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var out, errs bytes.Buffer
			cmd := &cobra.Command{Use: "redrive"}
			cmd.SetOut(&out)
			cmd.SetErr(&errs)
			cmd.SetContext(t.Context())
			err = redriveAll(cmd, d, queues, consent{yes: true}, tt.asJSON)
			var f *failure
			if !errors.As(err, &f) || f.code != exitError || f.try == "" || !strings.Contains(f.Error(), "AccessDenied") {
				t.Errorf("it ends with %v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%s is missing in %s", want, out.String())
				}
			}
		})
	}
}
