package desk

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/awsmp/metering/internal/metering"
)

// maxBuyers bounds the buyers of licenses that are asked about one by one. Of those beyond it, the licenses in their last hour are known all the same.
const maxBuyers = 100

// buyer is a license and the account that holds it.
type buyer struct{ license, account string }

// held is what waits of a buyer under an hour.
type held struct{ rows, records int }

// ending is how long usage of a license is accepted, whatever its hour: until its last hour is over, and not at all afterwards. The zero value sets no end.
type ending struct {
	at   time.Time // of the last hour; zero where none runs
	over bool      // what is sent is refused
}

// endOf is the ending of a license as its subscriber tells it; nil tells nothing.
func endOf(s *metering.Subscriber, now time.Time) ending {
	switch {
	case s == nil:
		return ending{}
	case s.Status == metering.LifecycleInactive:
		return ending{over: true}
	case s.Status == metering.LifecycleDeprovisioning && !s.Expiry.IsZero():
		return ending{at: s.Expiry.UTC(), over: !now.Before(s.Expiry)}
	}
	return ending{}
}

// cut is a deadline, or the end of the license's last hour where that is sooner.
func (e ending) cut(deadline time.Time) time.Time {
	if !e.at.IsZero() && e.at.Before(deadline) {
		return e.at
	}
	return deadline
}

// ends are the endings of licenses, each asked for once.
type ends struct {
	desk  *Desk
	known map[buyer]ending
}

func newEnds(d *Desk) ends { return ends{d, make(map[buyer]ending)} }

// of is the ending of a license; where the subscribers cannot be read it sets no end.
func (e ends) of(ctx context.Context, license, account string) ending {
	h := buyer{license, account}
	if _, known := e.known[h]; !known {
		s, err := e.desk.Tables.Subscriber(ctx, license, account)
		if err != nil {
			s = nil
		}
		e.known[h] = endOf(s, e.desk.Now())
	}
	return e.known[h]
}

// note counts what waits of a buyer.
func (w *Waiting) note(license, account string, rows, records int) {
	if w.of == nil {
		w.of = make(map[buyer]held)
	}
	h := buyer{license, account}
	w.of[h] = held{w.of[h].rows + rows, w.of[h].records + records}
}

// whose finds whose it is what waits under an hour, up to the bound of what is counted, and of a limit that it takes what it reads from.
func (l *look) whose(ctx context.Context, h metering.Hour, w *Waiting, limit *int) error {
	most := min(l.most(), *limit)
	n := 0
	if !l.desk.Direct {
		for r, err := range l.desk.Tables.PendingRows(ctx, h, "") {
			if err != nil {
				return err
			}
			if n == most {
				break
			}
			n++
			w.note(r.License, r.Account, 1, 0)
		}
	}
	*limit -= n
	most, n = min(l.most(), *limit), 0
	for r, err := range l.desk.Tables.PendingRecords(ctx, h, "") {
		if err != nil {
			return err
		}
		if n == most {
			break
		}
		n++
		w.note(r.License, r.Account, 0, 1)
	}
	*limit -= n
	return nil
}

// shorten takes the ends of licenses into the times that what waits can still be billed for.
func (l *look) shorten(ctx context.Context) {
	ends := l.endings(ctx)
	for i := range l.status.Waiting {
		w := &l.status.Waiting[i]
		hours, seen := w.LostAt, held{}
		for h, n := range w.of {
			e := ends[h]
			seen = held{seen.rows + n.rows, seen.records + n.records}
			if e.over {
				w.Ended += n.rows + n.records
				continue
			}
			at := e.cut(w.LostAt)
			w.rowsLost, w.recordsLost = sooner(w.rowsLost, at, n.rows > 0), sooner(w.recordsLost, at, n.records > 0)
		}
		if !hours.IsZero() { // what was not looked at goes by its hour alone
			w.rowsLost, w.recordsLost = sooner(w.rowsLost, hours, w.Over || w.Rows > seen.rows), sooner(w.recordsLost, hours, w.Over || w.Records > seen.records)
		}
		for _, at := range []time.Time{w.rowsLost, w.recordsLost} {
			if !at.IsZero() && at.Before(w.LostAt) {
				w.LostAt, w.LostIn, w.LastHour = at, l.left(at), true
			}
		}
	}
}

func sooner(first, at time.Time, there bool) time.Time {
	if there && (first.IsZero() || at.Before(first)) {
		return at
	}
	return first
}

// endings are those of the buyers of what waits. A table of subscribers that cannot be read ends nothing: the part that lists last hours says so.
func (l *look) endings(ctx context.Context) map[buyer]ending {
	ends := make(map[buyer]ending)
	last := make(map[string]time.Time)
	for _, w := range l.status.Windows {
		last[w.License] = w.Expiry
	}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(hoursAtOnce)
	asked := 0
	for _, w := range l.status.Waiting {
		for h := range w.of {
			if at, leaves := last[h.license]; leaves {
				mu.Lock()
				ends[h] = ending{at, !l.now.Before(at)}
				mu.Unlock()
				continue
			}
			mu.Lock()
			_, known := ends[h]
			if !known {
				ends[h] = ending{}
			}
			mu.Unlock()
			if known || asked == maxBuyers {
				continue
			}
			asked++
			group.Go(func() error {
				s, err := l.desk.Tables.Subscriber(ctx, h.license, h.account)
				if err == nil {
					mu.Lock()
					ends[h] = endOf(s, l.now)
					mu.Unlock()
				}
				return nil
			})
		}
	}
	_ = group.Wait() // none fails
	return ends
}
