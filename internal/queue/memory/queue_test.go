package memory_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/internal/queue"
	"github.com/awsmp/metering/internal/queue/memory"
	"github.com/awsmp/metering/internal/queue/queuetest"
)

var _ pipeline.Queue = (*memory.Queue)(nil)

// clock stands still until it is moved.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 3, 10, 15, 20, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func TestContract(t *testing.T) {
	t.Parallel()
	queuetest.Run(t, func(_ *testing.T, o queuetest.Options) queuetest.Setup {
		c := newClock()
		s := queuetest.Setup{Advance: c.Advance}
		options := memory.Options{Visibility: o.Visibility, MaxReceive: o.MaxReceive, Now: c.Now}
		if o.MaxReceive > 0 {
			options.DeadLetters = memory.New(memory.Options{Visibility: o.Visibility, Now: c.Now})
			s.DeadLetters = options.DeadLetters
		}
		s.Queue = memory.New(options)
		return s
	})
}

type fixture struct {
	*clock
	queue, dead *memory.Queue
}

const visibility = time.Minute

func open(o memory.Options) fixture {
	f := fixture{clock: newClock()}
	f.dead = memory.New(memory.Options{Visibility: visibility, Now: f.Now})
	o.Visibility, o.Now, o.DeadLetters = visibility, f.Now, f.dead
	f.queue = memory.New(o)
	return f
}

func (f fixture) send(t *testing.T, bodies ...string) {
	t.Helper()
	for part := range slices.Chunk(bodies, metering.MaxBatch) {
		if refused, err := f.queue.Send(t.Context(), part); err != nil || len(refused) != 0 {
			t.Fatalf("Send: %v refused, %v", refused, err)
		}
	}
}

func (f fixture) lens(t *testing.T, visible, inFlight, dead int) {
	t.Helper()
	v, i := f.queue.Len()
	d, _ := f.dead.Len()
	if v != visible || i != inFlight || d != dead {
		t.Errorf("%d visible, %d in flight, %d dead; want %d, %d, %d", v, i, d, visible, inFlight, dead)
	}
}

func names(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("message-%02d", i)
	}
	return list
}

// failing is a handler that fails the named bodies and keeps what it was given.
func failing(got *[]string, failed ...string) func(context.Context, []queue.Delivery) []string {
	return func(_ context.Context, batch []queue.Delivery) (ids []string) {
		for _, d := range batch {
			*got = append(*got, d.Body)
			if slices.Contains(failed, d.Body) {
				ids = append(ids, d.ID)
			}
		}
		return ids
	}
}

// Case 44: one entry of ten is refused, the call itself succeeds.
func TestRefusedEntries(t *testing.T) {
	t.Parallel()
	f := open(memory.Options{Refuse: func(body string) bool { return body == "message-06" || body == "message-09" }})
	refused, err := f.queue.Send(t.Context(), names(10))
	if diff := cmp.Diff([]int{6, 9}, refused); err != nil || diff != "" {
		t.Errorf("%v, refused (-want +got):\n%s", err, diff)
	}
	var got []string
	f.queue.Poll(t.Context(), 100, failing(&got))
	if diff := cmp.Diff(slices.Delete(names(9), 6, 7), got); diff != "" {
		t.Errorf("taken (-want +got):\n%s", diff)
	}
}

// SQS takes no empty body; nothing of such a batch may be taken.
func TestEmptyBody(t *testing.T) {
	t.Parallel()
	f := open(memory.Options{})
	if refused, err := f.queue.Send(t.Context(), []string{"a", ""}); err == nil {
		t.Errorf("%v refused and no error", refused)
	}
	f.lens(t, 0, 0, 0)
}

func TestReceiveLimits(t *testing.T) {
	t.Parallel()
	f := open(memory.Options{})
	f.send(t, names(25)...)
	for _, tt := range []struct{ limit, want int }{{0, 0}, {-1, 0}, {3, 3}, {100, metering.MaxBatch}} {
		if got, err := f.queue.Receive(t.Context(), tt.limit); err != nil || len(got) != tt.want {
			t.Errorf("Receive(%d): %d deliveries, %v; want %d", tt.limit, len(got), err, tt.want)
		}
	}
}

// Case 45: message 4 of 10 fails, and it alone comes back.
func TestPollPartialFailure(t *testing.T) {
	t.Parallel()
	f := open(memory.Options{MaxReceive: 2})
	f.send(t, names(10)...)
	var first, second []string
	if n := f.queue.Poll(t.Context(), 10, failing(&first, "message-04")); n != 10 {
		t.Errorf("%d handed over, want 10", n)
	}
	f.lens(t, 0, 1, 0)
	if n := f.queue.Poll(t.Context(), 10, failing(&second)); n != 0 {
		t.Errorf("%d handed over before the timeout, want 0", n)
	}
	f.Advance(visibility)
	f.queue.Poll(t.Context(), 10, failing(&second, "message-04"))
	if diff := cmp.Diff([]string{"message-04"}, second); diff != "" {
		t.Errorf("second round (-want +got):\n%s", diff)
	}
	f.Advance(visibility)
	if n := f.queue.Poll(t.Context(), 10, failing(&second)); n != 0 {
		t.Errorf("%d handed over after the last delivery, want 0", n)
	}
	f.lens(t, 0, 0, 1)
}

// Case 46: an answer that names what was never given is no answer; all comes back, and in the end is parked.
func TestPollVoidAnswer(t *testing.T) {
	t.Parallel()
	for name, failed := range map[string][]string{"empty id": {""}, "unknown id": {"m999"}, "a good one first": {"m1", ""}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(memory.Options{MaxReceive: 2})
			f.send(t, names(3)...)
			for range 2 {
				if n := f.queue.Poll(t.Context(), 10, func(context.Context, []queue.Delivery) []string { return failed }); n != 3 {
					t.Fatalf("%d handed over, want 3", n)
				}
				f.lens(t, 0, 3, 0)
				f.Advance(visibility)
			}
			f.queue.Poll(t.Context(), 10, func(context.Context, []queue.Delivery) []string { return nil })
			f.lens(t, 0, 0, 3)
		})
	}
}

func TestPollBatches(t *testing.T) {
	t.Parallel()
	f := open(memory.Options{})
	f.send(t, names(25)...)
	var got []string
	var sizes []int
	for {
		n := f.queue.Poll(t.Context(), 20, failing(&got))
		if n == 0 {
			break
		}
		sizes = append(sizes, n)
	}
	if diff := cmp.Diff([]int{20, 5}, sizes); diff != "" {
		t.Errorf("batches (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(names(25), got); diff != "" {
		t.Errorf("handled (-want +got):\n%s", diff)
	}
	f.lens(t, 0, 0, 0)
}

// A handler that outlives the visibility timeout must not take the message from the one who has it now.
func TestOldReceiptIsNoOp(t *testing.T) {
	t.Parallel()
	f := open(memory.Options{})
	f.send(t, "a")
	var newer []queue.Delivery
	f.queue.Poll(t.Context(), 10, func(ctx context.Context, _ []queue.Delivery) []string {
		f.Advance(visibility)
		var err error
		if newer, err = f.queue.Receive(ctx, 10); err != nil || len(newer) != 1 {
			t.Errorf("the second delivery: %v, %v", newer, err)
		}
		return nil
	})
	f.lens(t, 0, 1, 0)
	if err := f.queue.Delete(t.Context(), newer[0].Receipt); err != nil {
		t.Fatal(err)
	}
	f.lens(t, 0, 0, 0)
}

// What is done when the time is up still counts as done.
func TestPollDeletesAfterCancel(t *testing.T) {
	t.Parallel()
	f := open(memory.Options{})
	f.send(t, "a")
	ctx, cancel := context.WithCancel(t.Context())
	f.queue.Poll(ctx, 10, func(context.Context, []queue.Delivery) []string {
		cancel()
		return nil
	})
	f.lens(t, 0, 0, 0)
	f.send(t, "b")
	if n := f.queue.Poll(ctx, 10, func(context.Context, []queue.Delivery) []string { return nil }); n != 0 {
		t.Errorf("%d handed over with a context that is done, want 0", n)
	}
	f.lens(t, 1, 0, 0)
}

func TestRedrive(t *testing.T) {
	t.Parallel()
	f := open(memory.Options{MaxReceive: 1})
	f.send(t, names(3)...)
	sentAt := f.Now()
	var stale []queue.Delivery
	f.queue.Poll(t.Context(), 10, func(_ context.Context, batch []queue.Delivery) (ids []string) {
		for _, d := range batch {
			stale, ids = append(stale, d), append(ids, d.ID)
		}
		return ids
	})
	f.Advance(visibility)
	f.queue.Poll(t.Context(), 10, failing(new([]string)))
	f.lens(t, 0, 0, 3)

	held, err := f.dead.Receive(t.Context(), 1) // an operator is looking at one
	if err != nil || len(held) != 1 || !held[0].SentAt.Equal(sentAt) {
		t.Fatalf("dead letter %+v, %v; want one sent at %v", held, err, sentAt)
	}
	if moved, err := f.queue.Redrive(t.Context()); moved != 2 || err != nil {
		t.Errorf("%d moved, %v; want 2", moved, err)
	}
	f.lens(t, 2, 0, 0)
	for _, d := range stale {
		if err := f.queue.Delete(t.Context(), d.Receipt); err != nil {
			t.Fatal(err)
		}
	}
	got, err := f.queue.Receive(t.Context(), 10)
	if err != nil || len(got) != 2 || got[0].Receives != 1 {
		t.Errorf("after the redrive: %+v, %v; want two messages, received once", got, err)
	}
	if _, err := f.dead.Redrive(t.Context()); err == nil {
		t.Error("a queue without dead letters was redriven")
	}
}

// Many consumers at once: every message is handled, none twice while its delivery lasts.
func TestConcurrentPolls(t *testing.T) {
	t.Parallel()
	f := open(memory.Options{})
	f.send(t, names(100)...)
	var (
		mu  sync.Mutex
		got []string
		wg  sync.WaitGroup
	)
	for range 4 {
		wg.Go(func() {
			for f.queue.Poll(t.Context(), 7, func(_ context.Context, batch []queue.Delivery) []string {
				mu.Lock()
				defer mu.Unlock()
				for _, d := range batch {
					got = append(got, d.Body)
				}
				return nil
			}) > 0 {
			}
		})
	}
	wg.Wait()
	slices.Sort(got)
	if diff := cmp.Diff(names(100), got); diff != "" {
		t.Errorf("handled (-want +got):\n%s", diff)
	}
}

func BenchmarkPoll(b *testing.B) {
	f := open(memory.Options{})
	for i := range b.N {
		if _, err := f.queue.Send(b.Context(), []string{fmt.Sprint(i)}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for f.queue.Poll(b.Context(), 10, func(context.Context, []queue.Delivery) []string { return nil }) > 0 {
	}
}

// Queues that share their dead letters each read and take back their own.
func TestDeadLettersByQueue(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 10, 15, 0, 0, 0, time.UTC)
	dead := memory.New(memory.Options{})
	one := memory.New(memory.Options{MaxReceive: 1, Visibility: time.Minute, DeadLetters: dead, Now: func() time.Time { return now }})
	two := memory.New(memory.Options{MaxReceive: 1, Visibility: time.Minute, DeadLetters: dead, Now: func() time.Time { return now }})
	for _, q := range []*memory.Queue{one, two} {
		if _, err := q.Send(t.Context(), []string{"a", "b"}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		for _, q := range []*memory.Queue{one, two} {
			if _, err := q.Receive(t.Context(), 10); err != nil {
				t.Fatal(err)
			}
		}
		now = now.Add(2 * time.Minute)
	}
	look := func(q *memory.Queue, want string) {
		t.Helper()
		letters, total := q.Letters(1)
		got := fmt.Sprint(total)
		for _, l := range letters {
			got += " " + l.Body
		}
		if got != want {
			t.Errorf("dead letters %q, want %q", got, want)
		}
	}
	look(one, "2 a")
	look(two, "2 a")
	if moved, err := one.Redrive(t.Context()); moved != 2 || err != nil {
		t.Errorf("%d moved, %v", moved, err)
	}
	look(one, "0")
	look(two, "2 a")
	if visible, _ := two.Len(); visible != 0 {
		t.Errorf("%d messages came to another queue", visible)
	}
	if letters, total := dead.Letters(1); len(letters)+total != 0 {
		t.Errorf("a queue without dead letters has %d", total)
	}
}
