package pipeline

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/awsmp/metering/internal/concurrency"
	"github.com/awsmp/metering/internal/metering"
)

// lastHours are the licenses in their last hour at now, the one that ends first at the head; one that goes by several accounts ends
// with the first of them, and takes the usage of all with it: it is the license that the Marketplace closes. One whose hour is over is not
// among them, although nobody may have ended it yet: it goes the ordinary way, or its hour in progress would be committed early should it
// come back at once (F31). Beside an error stand those that could be read.
func lastHours(ctx context.Context, subscribers Subscribers, now time.Time) ([]metering.Deprovisioning, error) {
	list, err := subscribers.Deprovisioning(ctx)
	if err != nil {
		err = fmt.Errorf("list deprovisioning licenses: %w", err)
	}
	var open []metering.Deprovisioning
	seen := make(map[string]bool, len(list))
	for _, l := range list {
		if l.Expiry.After(now) && !seen[l.License] {
			seen[l.License] = true
			open = append(open, l)
		}
	}
	return open, err
}

// lookupParallel bounds the index queries of the submitter that run at once.
const lookupParallel = 8

// lookup is one question: which records of a license wait under an hour?
type lookup struct {
	license string
	hour    metering.Hour
}

// asked is a question whose answer has not had its turn, or is having it.
type asked struct {
	lookup
	coming concurrency.Group // until the first of the answer is there, as are next and stop

	record metering.Record // the first of the answer
	err    error
	ok     bool // there is one
	next   func() (metering.Record, error, bool)
	stop   func()
}

// ask begins to read an answer beside the caller, as far as its first record.
func ask(ctx context.Context, run concurrency.Runner, records Records, q lookup) *asked {
	a := &asked{lookup: q, coming: run.Group(0)}
	a.coming.Go(func() {
		a.next, a.stop = iter.Pull2(records.PendingRecords(ctx, q.hour, q.license))
		a.record, a.err, a.ok = a.next()
	})
	return a
}

// answer yields the answer once, and reads on as it does.
func (a *asked) answer(yield func(metering.Record, error) bool) {
	a.coming.Wait()
	for r, err, ok := a.record, a.err, a.ok; ok && yield(r, err); r, err, ok = a.next() {
	}
}

// close waits for what is under way and gives the rest of the answer up.
func (a *asked) close() {
	a.coming.Wait()
	a.stop()
}

// lookUp asks for the waiting records of each license and hour, several questions at once, and yields the answers in the order of the
// questions: one after the other, 1,000 licenses would take minutes of a run (F43). It asks no further ahead than lookupParallel and holds
// the first page of each answer, and when the consumer stops it waits for the questions under way.
func lookUp(ctx context.Context, run concurrency.Runner, records Records, licenses []string, hours []metering.Hour) iter.Seq2[lookup, iter.Seq2[metering.Record, error]] {
	run = concurrency.Or(run)
	return func(yield func(lookup, iter.Seq2[metering.Record, error]) bool) {
		var questions []*asked
		defer func() {
			for _, a := range questions {
				a.close()
			}
		}()
		for next, all := 0, len(licenses)*len(hours); ; questions = questions[1:] {
			for ; next < all && len(questions) < lookupParallel; next++ {
				q := lookup{licenses[next/len(hours)], hours[next%len(hours)]}
				questions = append(questions, ask(ctx, run, records, q))
			}
			if len(questions) == 0 || !yield(questions[0].lookup, questions[0].answer) {
				return
			}
			questions[0].close()
		}
	}
}
