package endtoend_test

import (
	"testing"

	"github.com/awsmp/metering/internal/functions"
	"github.com/awsmp/metering/internal/lambdahost"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/simulator"
)

// aggregatorDiesAfterItsCommit: the record is there and nothing asks for its rows' labels. The message comes again, and the
// record's manifest says which rows it covers.
func aggregatorDiesAfterItsCommit(t *testing.T, s suite) {
	w := newWorld(t, s)
	g := w.group(w.license(), "seats")
	w.put(rows(g, 5)...)
	a := w.function(functions.Aggregator)
	held := holdFrom(a.aws, 1, func(c standin.Call) bool { return c.Operation == "SendMessageBatch" })
	mapping := w.connect(functions.Aggregator, workQueue)
	if found := w.meter(); found.Enqueued != 1 {
		t.Fatalf("%+v, want one group enqueued", found)
	}
	w.reached("the aggregator sends its cleanup message", held)
	a.Kill()
	a.aws.Intercept(nil)

	record, err := w.store.Record(t.Context(), g)
	fatal(t, err)
	if record == nil || record.Quantity != metering.Units(15) {
		t.Errorf("after the death: record %+v, want one of 15", record)
	}
	if n := w.held(w.urls[cleanupQueue]); n != 0 {
		t.Errorf("after the death: %d cleanup messages, want none", n)
	}
	w.books(waiting(5, 15))

	w.connect(functions.Cleanup, cleanupQueue)
	w.drained()
	if got := mapping.Tally(); got.Failures != 1 || got.Deleted != 1 || !lambdahost.Failed(got.LastFailure, lambdahost.Died) {
		t.Errorf("%+v, want the message failed with its process, and done the second time", got)
	}
	if n := succeeded(a.aws, "PutItem"); n != 1 {
		t.Errorf("%d commits, want 1", n)
	}
	w.labelled(g, 5, metering.Aggregated)
	w.submit()
	w.books(billed(5, 15))
}

// answerToACommitIsLost: the retry finds our own record, and coverage goes on from there.
func answerToACommitIsLost(t *testing.T, s suite) {
	w := newWorld(t, s)
	dropped := 0
	w.function(functions.Aggregator).aws.Intercept(func(c standin.Call) standin.Action {
		if c.Operation != "PutItem" || dropped > 0 {
			return standin.Action{}
		}
		dropped++
		return standin.Action{Drop: true}
	})
	g := w.committed("seats", 3)
	if n := succeeded(w.function(functions.Aggregator).aws, "PutItem"); dropped != 1 || n != 1 {
		t.Errorf("%d answers lost, %d commits; want one of each", dropped, n)
	}
	w.labelled(g, 3, metering.Aggregated)
	w.submit()
	w.books(billed(3, 6))
}

// cleanerDiesHalfWay: some of a message's rows are labelled and some are not. The whole message comes again.
func cleanerDiesHalfWay(t *testing.T, s suite) {
	w := newWorld(t, s)
	g := w.group(w.license(), "seats")
	w.put(rows(g, 12)...)
	c := w.function(functions.Cleanup)
	held := holdFrom(c.aws, 6, func(c standin.Call) bool { return c.Operation == "UpdateItem" })
	w.connect(functions.Aggregator, workQueue)
	mapping := w.connect(functions.Cleanup, cleanupQueue)
	w.meter()
	w.reached("the cleaner has begun its sixth label", held)
	eventually(t, "the end of the first five labels", func() string {
		return problemf(succeeded(c.aws, "UpdateItem") == 5, "%d are written", succeeded(c.aws, "UpdateItem"))
	})
	c.Kill()
	c.aws.Intercept(nil)

	waits := 0
	for row, err := range w.store.GroupRows(t.Context(), g) {
		fatal(t, err)
		if row.Pending != "" {
			waits++
		}
	}
	if waits != 7 {
		t.Errorf("after the death %d rows wait, want 7", waits)
	}
	w.books(waiting(12, 78))

	w.drained()
	if got := mapping.Tally(); got.Failures != 1 || got.Deleted != 1 || !lambdahost.Failed(got.LastFailure, lambdahost.Died) {
		t.Errorf("%+v, want the message failed with its process, and done the second time", got)
	}
	w.labelled(g, 12, metering.Aggregated)
	w.submit()
	w.books(billed(12, 78))
}

// submitterDiesAfterTheMark: the record says that it was sent, and nothing was. The next run sends it.
func submitterDiesAfterTheMark(t *testing.T, s suite) {
	w := newWorld(t, s)
	g := w.committed("seats", 4)
	f := w.function(functions.Submitter)
	w.dies(f, holdFrom(f.meter, 1, func(c standin.Call) bool { return c.Operation == "BatchMeterUsage" }))

	if record := w.record(g); record.SentQuantity != metering.Units(10) || record.Pending == "" || len(w.sim.Ledger()) != 0 {
		t.Errorf("after the death: %+v, billed %v; want it marked, waiting and not billed", record, w.sim.Ledger())
	}
	w.books(waiting(4, 10))
	w.billedByTheNextRun(g)
	w.books(billed(4, 10))
}

// submitterDiesAfterTheCall: it is billed, and its record still waits. The next run sends the same again, which bills nothing.
func submitterDiesAfterTheCall(t *testing.T, s suite) {
	w := newWorld(t, s)
	g := w.committed("seats", 4)
	f := w.function(functions.Submitter)
	w.dies(f, holdFrom(f.aws, 1, func(c standin.Call) bool {
		return c.Operation == "UpdateItem" && succeeded(f.meter, "BatchMeterUsage") > 0
	}))

	if record := w.record(g); record.Status != "" || record.Pending == "" || len(w.sim.Ledger()) != 1 {
		t.Errorf("after the death: %+v, billed %v; want it waiting and billed", record, w.sim.Ledger())
	}
	w.billedByTheNextRun(g)
	if n := w.sim.Stats().Statuses["Success"]; n != 2 {
		t.Errorf("%d times Success, want it to be asked and granted twice", n)
	}
	w.books(billed(4, 10))
}

// answerToACallIsLost: nobody dies, but the run cannot know whether the call was taken. It fails, and the next run sends again.
func answerToACallIsLost(t *testing.T, s suite) {
	w := newWorld(t, s)
	g := w.committed("seats", 4)
	w.sim.Inject(simulator.Fault{Kind: simulator.LoseReply, Times: 1})
	var none struct{}
	if err := w.run(functions.Submitter, `{}`, &none); !lambdahost.Failed(err, lambdahost.Errored) {
		t.Errorf("%v, want a run that fails", err)
	}
	if record := w.record(g); record.Status != "" || record.Pending == "" || len(w.sim.Ledger()) != 1 {
		t.Errorf("after the loss: %+v, billed %v; want it waiting and billed", record, w.sim.Ledger())
	}
	w.billedByTheNextRun(g)
	w.books(billed(4, 10))
}

// dies runs the submitter until a call is held, and kills it there.
func (w *world) dies(f *function, held <-chan struct{}) {
	w.t.Helper()
	died := make(chan error, 1)
	go func() {
		_, err := f.Invoke(w.t.Context(), []byte(`{}`))
		died <- err
	}()
	w.reached("the call that the submitter dies at", held)
	f.Kill()
	f.aws.Intercept(nil)
	f.meter.Intercept(nil)
	if err := <-died; !lambdahost.Failed(err, lambdahost.Died) {
		w.t.Fatalf("%v, want a process that died", err)
	}
}

func (w *world) billedByTheNextRun(g metering.Group) {
	w.t.Helper()
	if done := w.submit(); done.Settled != 1 {
		w.t.Errorf("the next run: %+v, want one record settled", done)
	}
	if record := w.record(g); record.Status != metering.Success || record.Pending != "" {
		w.t.Errorf("after the next run: %+v, want Success", record)
	}
}

func (w *world) record(g metering.Group) metering.Record {
	w.t.Helper()
	record, err := w.store.Record(w.t.Context(), g)
	fatal(w.t, err)
	if record == nil {
		w.t.Fatal("there is no record")
	}
	return *record
}
