package node

import "context"

// Drain handles messages until none is visible. The labels that a round of visits asks for are written while the next round
// visits, and no more than that: a visit asks for up to 36 messages of labels, and the queue would otherwise grow with the
// number of rows.
func (n *Node) Drain(ctx context.Context) {
	visits, labels := 0, n.label(ctx) // some may wait of an earlier run
	var under chan int                // the labels that are being written
	for {
		visited := 0
		if ctx.Err() == nil {
			visited = n.deprovision.poll(ctx, workBatch, n.Aggregate.Handle) + n.work.poll(ctx, workBatch, n.Aggregate.Handle)
		}
		if visits += visited; under != nil {
			labels += <-under
			under = nil
		}
		if visited == 0 {
			break
		}
		under = make(chan int, 1)
		go func(done chan<- int) { done <- n.label(ctx) }(under)
	}
	if visits > 0 {
		n.observe(AggregateStage, visits, nil)
	}
	if labels > 0 {
		n.observe(CleanupStage, labels, nil)
	}
}

// label writes labels until no message that asks for one is visible.
func (n *Node) label(ctx context.Context) (handled int) {
	for {
		n := n.cleanup.poll(ctx, cleanupBatch, n.Clean.Handle)
		if handled += n; n == 0 {
			return handled
		}
	}
}
