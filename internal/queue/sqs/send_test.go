package sqs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/queue/sqs"
	"github.com/awsmp/metering/internal/standin"
)

// round is how one SendMessageBatch goes: some entries fail, some are not spoken of, the others are really sent.
type round struct {
	fail   map[string]bool // by id: whether the sender is at fault
	silent []string        // ids
	lose   []string        // ids that are not spoken of although they are sent
	extra  []string        // ids that are spoken of although they were not sent
	status int             // instead of all this
}

// scripted is a queue whose calls go as the rounds say, and pass after them.
type scripted struct {
	queue  *sqs.Queue
	direct *sqs.Queue // past the rounds
	proxy  *standin.Proxy
	log    bytes.Buffer

	mu     sync.Mutex
	slept  []time.Duration
	cancel context.CancelFunc // where set, the context ends instead of a wait
}

func script(t *testing.T, rounds ...round) *scripted {
	t.Helper()
	address := standin.Fauxqs(t)
	client := awssqs.NewFromConfig(standin.Config(address))
	url := create(t, client, nil)
	s := &scripted{direct: sqs.New(client, url), proxy: standin.NewProxy(t, address)}
	cfg := standin.Config(s.proxy.URL)
	cfg.RetryMaxAttempts = 1
	s.queue = sqs.New(awssqs.NewFromConfig(cfg), url)
	s.queue.Log = slog.New(slog.NewTextHandler(&s.log, nil))
	s.queue.Sleep = func(ctx context.Context, d time.Duration) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.slept = append(s.slept, d)
		if s.cancel != nil {
			s.cancel()
		}
		return ctx.Err()
	}
	s.proxy.Intercept(func(c standin.Call) standin.Action {
		if len(rounds) == 0 || c.Operation != "SendMessageBatch" {
			return standin.Action{}
		}
		r := rounds[0]
		rounds = rounds[1:]
		return r.play(t, client, c.Body)
	})
	return s
}

func (r round) play(t *testing.T, client *awssqs.Client, body []byte) standin.Action {
	if r.status != 0 {
		return standin.Exception(r.status, "InternalFailure", "try again")
	}
	var in awssqs.SendMessageBatchInput
	if err := json.Unmarshal(body, &in); err != nil {
		t.Error(err)
	}
	type failure struct {
		ID          string `json:"Id"`
		SenderFault bool
		Code        string
		Message     string
	}
	type success struct {
		ID        string `json:"Id"`
		MessageID string `json:"MessageId"`
		MD5       string `json:"MD5OfMessageBody,omitempty"`
	}
	answer := struct {
		Successful []success `json:",omitempty"`
		Failed     []failure `json:",omitempty"`
	}{}
	var passed []types.SendMessageBatchRequestEntry
	for _, e := range in.Entries {
		sender, fails := r.fail[*e.Id]
		switch {
		case fails:
			answer.Failed = append(answer.Failed, failure{*e.Id, sender, "Code" + *e.Id, "entry " + *e.Id})
		case !slices.Contains(r.silent, *e.Id):
			passed = append(passed, e)
		}
	}
	if len(passed) > 0 {
		in.Entries = passed
		out, err := client.SendMessageBatch(context.Background(), &in)
		if err != nil {
			t.Error(err)
			return standin.Action{}
		}
		for _, s := range out.Successful {
			if !slices.Contains(r.lose, *s.Id) {
				answer.Successful = append(answer.Successful, success{*s.Id, *s.MessageId, aws.ToString(s.MD5OfMessageBody)})
			}
		}
	}
	for _, id := range r.extra {
		answer.Successful = append(answer.Successful, success{ID: id, MessageID: "m" + id})
		answer.Failed = append(answer.Failed, failure{ID: id, SenderFault: true})
	}
	text, err := json.Marshal(answer)
	if err != nil {
		t.Error(err)
	}
	return standin.Action{Status: 200, Body: string(text)}
}

// sizes are the numbers of entries of the calls.
func (s *scripted) sizes() (list []int) {
	for _, c := range s.proxy.Calls() {
		if c.Operation == "SendMessageBatch" {
			list = append(list, c.Entries)
		}
	}
	return list
}

// arrived are the bodies that are in the queue.
func (s *scripted) arrived(t *testing.T) (list []string) {
	t.Helper()
	for {
		got, err := s.direct.Receive(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 {
			slices.Sort(list)
			return list
		}
		for _, d := range got {
			list = append(list, d.Body)
		}
	}
}

func named(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprint("message ", i))
	}
	return list
}

func without(list []string, bodies ...string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(bodies, s) })
}

// Case 44: an answer with status 200 that speaks of failed entries, or of fewer entries than were sent.
func TestSendPartly(t *testing.T) {
	t.Parallel()
	ten := named(10)
	for name, tt := range map[string]struct {
		rounds  []round
		refused []int
		arrived []string
		sizes   []int // of the calls
		log     string
	}{
		"one fails, then goes":                     {[]round{{fail: map[string]bool{"7": false}}}, nil, ten, []int{10, 1}, ""},
		"one fails twice":                          {[]round{{fail: map[string]bool{"7": false}}, {fail: map[string]bool{"7": false}}}, []int{7}, without(ten, "message 7"), []int{10, 1}, `entry=7 code=Code7 reason="entry 7"`},
		"one fails by the sender's fault":          {[]round{{fail: map[string]bool{"7": true}}}, []int{7}, without(ten, "message 7"), []int{10}, `entry=7 code=Code7`},
		"of two faults one is resent":              {[]round{{fail: map[string]bool{"2": true, "9": false}}}, []int{2}, without(ten, "message 2"), []int{10, 1}, `entry=2`},
		"the second time it is the sender's fault": {[]round{{fail: map[string]bool{"9": false}}, {fail: map[string]bool{"9": true}}}, []int{9}, without(ten, "message 9"), []int{10, 1}, `code=Code9`},
		"nine are named, then the tenth goes":      {[]round{{silent: []string{"3"}}}, nil, ten, []int{10, 1}, ""},
		"nine are named, and none after it":        {[]round{{silent: []string{"3"}}, {silent: []string{"3"}}}, []int{3}, without(ten, "message 3"), []int{10, 1}, `entry=3 code=NotNamed`},
		"one arrives without being named: twice":   {[]round{{lose: []string{"3"}}}, nil, slices.Insert(slices.Clone(ten), 3, "message 3"), []int{10, 1}, ""},
		"unknown ids are passed over":              {[]round{{extra: []string{"10", "-1", "07", "x", ""}}}, nil, ten, []int{10}, ""},
		"an id named as both is not taken":         {[]round{{extra: []string{"4"}}}, []int{4}, ten, []int{10}, `entry=4`},
		"all fail, and all go":                     {[]round{{fail: allOf(10, false)}}, nil, ten, []int{10, 10}, ""},
		"all fail by the sender's fault":           {[]round{{fail: allOf(10, true)}}, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, nil, []int{10}, `entry=0`},
		"an empty answer, twice":                   {[]round{{silent: ids(10)}, {silent: ids(10)}}, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, nil, []int{10, 10}, `entry=0`},
		"the second call fails as a whole":         {[]round{{fail: map[string]bool{"7": false}}, {status: 500}}, []int{7}, without(ten, "message 7"), []int{10, 1}, `were not sent a second time`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := script(t, tt.rounds...)
			refused, err := s.queue.Send(t.Context(), ten)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.refused, refused); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.arrived, s.arrived(t), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("arrived (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.sizes, s.sizes()); diff != "" {
				t.Errorf("entries of the calls (-want +got):\n%s", diff)
			}
			if len(s.slept) != len(tt.sizes)-1 || len(s.slept) == 1 && (s.slept[0] < 50*time.Millisecond || s.slept[0] >= 250*time.Millisecond) {
				t.Errorf("waits %v between %d calls, want one of 50 to 250 ms before a second call", s.slept, len(tt.sizes))
			}
			if log := s.log.String(); !strings.Contains(log, tt.log) || tt.log == "" && log != "" {
				t.Errorf("log %q, want %q", log, tt.log)
			}
		})
	}
}

func ids(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprint(i))
	}
	return list
}

func allOf(n int, sender bool) map[string]bool {
	all := make(map[string]bool)
	for _, id := range ids(n) {
		all[id] = sender
	}
	return all
}

// What was taken before the time was up stays taken, and is not reported as an error of the whole.
func TestSendEndsWhileItWaits(t *testing.T) {
	t.Parallel()
	s := script(t, round{fail: map[string]bool{"1": false}})
	ctx, cancel := context.WithCancel(t.Context())
	s.cancel = cancel
	refused, err := s.queue.Send(ctx, named(3))
	if diff := cmp.Diff([]int{1}, refused); err != nil || diff != "" {
		t.Errorf("%v, refused (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff([]int{3}, s.sizes()); diff != "" {
		t.Errorf("entries of the calls (-want +got):\n%s", diff)
	}
}

// A body that SQS does not carry is refused alone, and not sent: it could fail the call for its neighbours.
func TestSendCharacters(t *testing.T) {
	t.Parallel()
	s := script(t)
	bodies := []string{"a\t\r\n\u007f\u0085\ud7ff\ue000\ufffd", "b\u0000", "c\u001f", "d\ufffe", "e\uffff", "f\xff", "g"}
	refused, err := s.queue.Send(t.Context(), bodies)
	if diff := cmp.Diff([]int{1, 2, 3, 4, 5}, refused); err != nil || diff != "" {
		t.Errorf("%v, refused (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff([]string{bodies[0], bodies[6]}, s.arrived(t)); diff != "" {
		t.Errorf("arrived (-want +got):\n%s", diff)
	}
	if refused, err := s.queue.Send(t.Context(), bodies[1:3]); err != nil || len(refused) != 2 {
		t.Errorf("nothing but such bodies: %v refused, %v", refused, err)
	}
	if diff := cmp.Diff([]int{2}, s.sizes()); diff != "" {
		t.Errorf("entries of the calls (-want +got):\n%s", diff)
	}
	if !strings.Contains(s.log.String(), "entry=4 code=InvalidMessageContents") {
		t.Errorf("log %s", s.log.String())
	}
}

// Beyond the basic plane fauxqs refuses what SQS carries; moto does not.
func TestSendBeyondTheBasicPlane(t *testing.T) {
	t.Parallel()
	client := awssqs.NewFromConfig(standin.Config(standin.Moto(t)))
	q := sqs.New(client, create(t, client, nil))
	const body = "\U00010000 😀 \U0010ffff"
	if refused, err := q.Send(t.Context(), []string{body}); err != nil || len(refused) != 0 {
		t.Fatalf("%v refused, %v", refused, err)
	}
	if got, err := q.Receive(t.Context(), 1); err != nil || len(got) != 1 || got[0].Body != body {
		t.Errorf("%+v, %v", got, err)
	}
}

// A batch that no call can carry causes none.
func TestSendOutOfBounds(t *testing.T) {
	t.Parallel()
	s := script(t)
	for name, bodies := range map[string][]string{
		"none": nil, "eleven": named(11), "an empty one": {"a", ""}, "too large": {strings.Repeat("x", 1<<20), "x"},
	} {
		if _, err := s.queue.Send(t.Context(), bodies); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if n := len(s.proxy.Calls()); n != 0 {
		t.Errorf("%d calls, want none", n)
	}
}

// A call that fails as a whole took nothing that is known.
func TestSendFailsAsAWhole(t *testing.T) {
	t.Parallel()
	s := script(t, round{status: 500})
	_, err := s.queue.Send(t.Context(), named(2))
	if got := awsapi.ClassOf(err); got != awsapi.Unavailable || !got.Retry() {
		t.Errorf("class %s of %v", got, err)
	}
	if len(s.slept) != 0 || len(s.sizes()) != 1 {
		t.Errorf("waits %v, calls %v: repeating a call is the SDK's part", s.slept, s.sizes())
	}
}
