package node

import (
	"context"
	"fmt"

	"github.com/awsmp/metering/internal/queue"
	"github.com/awsmp/metering/internal/queue/memory"
)

// namedInbox is a queue as State calls it.
type namedInbox struct {
	name string
	*inbox
	queue *memory.Queue
}

func (n *Node) inboxes() []namedInbox {
	return []namedInbox{{"work", n.work, n.Work}, {"deprovision", n.deprovision, n.Deprovision}, {"cleanup", n.cleanup, n.Cleanup}}
}

func (n *Node) inbox(name string) (namedInbox, error) {
	for _, q := range n.inboxes() {
		if q.name == name {
			return q, nil
		}
	}
	return namedInbox{}, fmt.Errorf("look for dead letters: there is no queue %q", name)
}

// Letters are up to limit of the dead letters of a queue, which State names. They stay where they are.
func (n *Node) Letters(name string, limit int) ([]queue.Delivery, error) {
	q, err := n.inbox(name)
	if err != nil {
		return nil, err
	}
	letters, _ := q.queue.Letters(limit)
	return letters, nil
}

// Redrive brings the dead letters of a queue back into it, as new messages, and says how many.
func (n *Node) Redrive(ctx context.Context, name string) (int, error) {
	q, err := n.inbox(name)
	if err != nil {
		return 0, err
	}
	moved, err := q.queue.Redrive(ctx)
	if moved > 0 {
		q.filled()
	}
	return moved, err
}
