package pipeline

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

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

// lookUp asks for the waiting records of each license and hour, several questions at once, and yields the answers in the order of the
// questions: one after the other, 1,000 licenses would take minutes of a run (F43). It asks no further ahead than lookupParallel and holds
// the first page of each answer, and when the consumer stops it waits for the questions under way.
func lookUp(ctx context.Context, records Records, licenses []string, hours []metering.Hour) iter.Seq2[lookup, iter.Seq2[metering.Record, error]] {
	type found struct {
		record metering.Record
		err    error
	}
	type asked struct {
		lookup
		answer <-chan found
	}
	return func(yield func(lookup, iter.Seq2[metering.Record, error]) bool) {
		var (
			underway  sync.WaitGroup
			stopped   = make(chan struct{})
			questions []asked // those whose answer has not had its turn
		)
		defer underway.Wait()
		defer close(stopped)
		for next, all := 0, len(licenses)*len(hours); ; questions = questions[1:] {
			for ; next < all && len(questions) < lookupParallel; next++ {
				q := lookup{licenses[next/len(hours)], hours[next%len(hours)]}
				answer := make(chan found)
				underway.Go(func() {
					defer close(answer)
					for r, err := range records.PendingRecords(ctx, q.hour, q.license) {
						select {
						case answer <- found{r, err}:
						case <-stopped:
							return
						}
					}
				})
				questions = append(questions, asked{q, answer})
			}
			if len(questions) == 0 {
				return
			}
			answer := func(yield func(metering.Record, error) bool) {
				for f := range questions[0].answer {
					if !yield(f.record, f.err) {
						return
					}
				}
			}
			if !yield(questions[0].lookup, answer) {
				return
			}
		}
	}
}
