// Package queuetest is the contract of a queue. Every adapter passes the same suite, so it asks for no more than a standard
// SQS queue gives: no order, at least once.
package queuetest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/queue"
)

// Queue is what the suite asks of an adapter.
type Queue interface {
	Send(ctx context.Context, bodies []string) (refused []int, err error)
	Receive(ctx context.Context, limit int) ([]queue.Delivery, error)
	Delete(ctx context.Context, receipt string) error
	Extend(ctx context.Context, receipt string, d time.Duration) error
	Release(ctx context.Context, receipt string) error
}

// Options are the settings of the queue that a test asks for.
type Options struct {
	Visibility time.Duration // whole seconds
	MaxReceive int           // 0 means without a dead-letter queue
}

// Setup is an open queue. Advance moves its clock: an adapter on a real clock waits.
type Setup struct {
	Queue       Queue
	DeadLetters Queue // nil without MaxReceive
	Advance     func(d time.Duration)
}

// Run holds a queue against the contract. Each test opens one of its own, empty, and runs beside the others: all at once, and
// not as few as there are processors, because on a real clock most of them only wait.
func Run(t *testing.T, open func(t *testing.T, o Options) Setup) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, c := range []struct {
		name    string
		options Options
		test    func(t *testing.T, s Setup)
	}{
		{"what is sent is delivered", Options{Visibility: visibility}, delivers},
		{"many batches are delivered", Options{Visibility: visibility}, deliversMany},
		{"batches out of bounds are refused as a whole", Options{Visibility: visibility}, refusesBatches},
		{"a delivery hides its message until its timeout", Options{Visibility: visibility}, hides},
		{"what is deleted is gone", Options{Visibility: visibility}, deletes},
		{"an old receipt does not touch a newer delivery's timeout", Options{Visibility: visibility}, ignoresOldReceipts},
		{"a delivery can be extended and released", Options{Visibility: visibility}, extends},
		{"after its last delivery a message is a dead letter", Options{Visibility: visibility, MaxReceive: 2}, buries},
		{"a context that is done ends everything", Options{Visibility: visibility}, contextEnds},
	} {
		all.Go(func() {
			t.Run(c.name, func(t *testing.T) { c.test(t, open(t, c.options)) })
		})
	}
}

const (
	visibility = 4 * time.Second
	// past is added where a timeout has to be over: clocks of a service and of a test differ.
	past = time.Second
	// patience is how often an empty answer is asked again: SQS may overlook messages (short polling).
	patience = 5
)

func send(t *testing.T, q Queue, bodies ...string) {
	t.Helper()
	refused, err := q.Send(t.Context(), bodies)
	if err != nil || len(refused) != 0 {
		t.Fatalf("Send: %v refused, %v", refused, err)
	}
}

// receive collects deliveries until one of each of want messages is there, and fails where fewer come.
func receive(t *testing.T, q Queue, want int) map[string]queue.Delivery {
	t.Helper()
	got := receiveUpTo(t, q, want)
	if len(got) != want {
		t.Fatalf("%d messages were delivered, want %d", len(got), want)
	}
	return got
}

func receiveUpTo(t *testing.T, q Queue, most int) map[string]queue.Delivery {
	t.Helper()
	got := make(map[string]queue.Delivery)
	for idle := 0; idle < patience && len(got) < most; {
		list, err := q.Receive(t.Context(), metering.MaxBatch)
		if err != nil {
			t.Fatalf("Receive: %v", err)
		}
		if len(list) > metering.MaxBatch {
			t.Fatalf("%d deliveries at once, want %d at most", len(list), metering.MaxBatch)
		}
		if len(list) == 0 {
			idle++
		}
		for _, d := range list {
			got[d.Body] = d
		}
	}
	return got
}

// hidden fails where a message is delivered that should not be.
func hidden(t *testing.T, q Queue, when string) {
	t.Helper()
	if got := receiveUpTo(t, q, 1); len(got) != 0 {
		t.Errorf("%s: %v was delivered", when, got)
	}
}

func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func bodies(got map[string]queue.Delivery) []string {
	var list []string
	for body := range got {
		list = append(list, body)
	}
	slices.Sort(list)
	return list
}

func delivers(t *testing.T, s Setup) {
	hidden(t, s.Queue, "an empty queue")
	large := repeat('x', metering.MaxBatchBytes)
	send(t, s.Queue, `{"licenseArn":"l","n":1}`, "Grüße\n\t\"<&>")
	send(t, s.Queue, large)
	got := receive(t, s.Queue, 3)
	if diff := cmp.Diff([]string{"Grüße\n\t\"<&>", large, `{"licenseArn":"l","n":1}`}, bodies(got)); diff != "" {
		t.Errorf("bodies (-want +got):\n%s", diff)
	}
	ids, receipts := make(map[string]bool), make(map[string]bool)
	for _, d := range got {
		ids[d.ID], receipts[d.Receipt] = true, true
		if d.ID == "" || d.Receipt == "" || d.Receives != 1 || d.SentAt.IsZero() {
			t.Errorf("delivery %q, %q: receives %d, sent at %v", d.ID, d.Receipt, d.Receives, d.SentAt)
		}
	}
	if len(ids) != 3 || len(receipts) != 3 {
		t.Errorf("%d ids and %d receipts, want 3 of each", len(ids), len(receipts))
	}
}

func deliversMany(t *testing.T, s Setup) {
	var want []string
	for batch := range 5 {
		var part []string
		for i := range metering.MaxBatch {
			part = append(part, string([]byte{'a' + byte(batch), '0' + byte(i)}))
		}
		send(t, s.Queue, part...)
		want = append(want, part...)
	}
	if diff := cmp.Diff(want, bodies(receive(t, s.Queue, len(want)))); diff != "" {
		t.Errorf("bodies (-want +got):\n%s", diff)
	}
}

func refusesBatches(t *testing.T, s Setup) {
	half := repeat('x', metering.MaxBatchBytes/2)
	for name, batch := range map[string][]string{
		"no entry":            nil,
		"eleven entries":      slices.Repeat([]string{"a"}, metering.MaxBatch+1),
		"an entry over 1 MiB": {"a", repeat('x', metering.MaxBatchBytes+1)},
		"together over 1 MiB": {half, half, "a"},
	} {
		if refused, err := s.Queue.Send(t.Context(), batch); err == nil {
			t.Errorf("%s: %v refused and no error", name, refused)
		}
	}
	hidden(t, s.Queue, "after batches that were refused")
}

func repeat(b byte, n int) string { return string(slices.Repeat([]byte{b}, n)) }

func hides(t *testing.T, s Setup) {
	send(t, s.Queue, "a", "b")
	first := receive(t, s.Queue, 2)
	hidden(t, s.Queue, "while it is being handled")
	s.Advance(visibility + past)
	again := receive(t, s.Queue, 2)
	for body, d := range again {
		if d.ID != first[body].ID || d.Receipt == first[body].Receipt || d.Receives != 2 {
			t.Errorf("%s: %+v after %+v, want the same message under a new receipt, received twice", body, d, first[body])
		}
	}
}

func deletes(t *testing.T, s Setup) {
	send(t, s.Queue, "a", "b")
	got := receive(t, s.Queue, 2)
	do(t, s.Queue.Delete(t.Context(), got["a"].Receipt))
	do(t, s.Queue.Delete(t.Context(), got["a"].Receipt)) // twice is no fault
	s.Advance(visibility + past)
	if diff := cmp.Diff([]string{"b"}, bodies(receiveUpTo(t, s.Queue, 2))); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
}

// Whether the receipt of an earlier delivery still deletes is for the queue to say. It must neither fail nor end the
// newer delivery's right to delete.
func ignoresOldReceipts(t *testing.T, s Setup) {
	send(t, s.Queue, "a")
	old := receive(t, s.Queue, 1)["a"]
	s.Advance(visibility + past)
	newer := receive(t, s.Queue, 1)["a"]
	do(t, s.Queue.Delete(t.Context(), old.Receipt))
	hidden(t, s.Queue, "under the newer delivery")
	do(t, s.Queue.Delete(t.Context(), newer.Receipt))
	s.Advance(visibility + past)
	hidden(t, s.Queue, "after the newer delivery deleted it")
}

func extends(t *testing.T, s Setup) {
	send(t, s.Queue, "a")
	d := receive(t, s.Queue, 1)["a"]
	do(t, s.Queue.Extend(t.Context(), d.Receipt, 3*visibility))
	s.Advance(visibility + past)
	hidden(t, s.Queue, "within the longer time")
	s.Advance(2*visibility + past)
	d = receive(t, s.Queue, 1)["a"]
	do(t, s.Queue.Release(t.Context(), d.Receipt))
	if again := receive(t, s.Queue, 1)["a"]; again.Receives != 3 {
		t.Errorf("after it was released: %d receives, want 3", again.Receives)
	}
}

func buries(t *testing.T, s Setup) {
	send(t, s.Queue, "poison", "good")
	for i := range 2 {
		got := receive(t, s.Queue, 2-i)
		if d := got["poison"]; d.Receives != i+1 {
			t.Fatalf("delivery %d: %+v", i+1, d)
		}
		if d, ok := got["good"]; ok {
			do(t, s.Queue.Delete(t.Context(), d.Receipt))
		}
		hidden(t, s.DeadLetters, "before the last timeout")
		s.Advance(visibility + past)
	}
	hidden(t, s.Queue, "after two deliveries")
	if diff := cmp.Diff([]string{"poison"}, bodies(receive(t, s.DeadLetters, 1))); diff != "" {
		t.Errorf("dead letters (-want +got):\n%s", diff)
	}
	s.Advance(visibility + past)
	hidden(t, s.Queue, "ever after")
}

func contextEnds(t *testing.T, s Setup) {
	send(t, s.Queue, "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, sent := s.Queue.Send(ctx, []string{"b"})
	_, received := s.Queue.Receive(ctx, 1)
	if sent == nil || received == nil {
		t.Errorf("Send: %v, Receive: %v, want errors", sent, received)
	}
	d := receive(t, s.Queue, 1)["a"]
	if d.Receives != 1 {
		t.Errorf("%d receives, want 1", d.Receives)
	}
	if s.Queue.Delete(ctx, d.Receipt) == nil || s.Queue.Extend(ctx, d.Receipt, 0) == nil || s.Queue.Release(ctx, d.Receipt) == nil {
		t.Error("Delete, Extend or Release did its work")
	}
	hidden(t, s.Queue, "a release that did not happen")
}
