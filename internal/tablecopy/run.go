package tablecopy

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/dynamodb"
)

// part is one segment of one table. After every page it is kept with it.
type part struct {
	name    string // the setting that keeps it
	segment int
	records bool

	After string  `json:"after,omitempty"`
	Done  bool    `json:"done,omitempty"`
	Items int64   `json:"items"`
	Units float64 `json:"units"`
}

// readParts brings back how far each segment was read.
func (c *Copy) readParts(ctx context.Context) error {
	c.parts = nil
	for _, table := range []string{"rows", "records"} {
		for segment := range c.plan.Segments {
			p := &part{name: fmt.Sprintf("%s/%s/%d", planSetting, table, segment), segment: segment, records: table == "records"}
			text, err := c.store.Setting(ctx, p.name)
			if err == nil && text != "" {
				err = json.Unmarshal([]byte(text), p)
			}
			if err != nil {
				return fmt.Errorf("read how far the copy is: %w", err)
			}
			c.parts = append(c.parts, p)
		}
	}
	return nil
}

// Progress is how far a copy is, all commands that worked on it together.
type Progress struct {
	Rows, Records int64
	Units         float64 // read units
}

// Progress is how far the copy is. It must not be called while Run runs.
func (c *Copy) Progress() (sum Progress) {
	for _, p := range c.parts {
		sum.add(p)
	}
	return sum
}

func (s *Progress) add(p *part) {
	if p.records {
		s.Records += p.Items
	} else {
		s.Rows += p.Items
	}
	s.Units += p.Units
}

// Run reads what is left of both tables, with pace read units a second taken by all segments together, and tells observe after each page
// how far the copy is. It returns nil when both tables are copied; then and after any error what was read is kept.
func (c *Copy) Run(ctx context.Context, source Source, pace *rate.Limiter, observe func(Progress)) error {
	if c.Finished() {
		return nil
	}
	var mu sync.Mutex
	sum := c.Progress()
	read := func(p *part, items int, units float64) {
		mu.Lock()
		defer mu.Unlock()
		sum.add(&part{records: p.records, Items: int64(items), Units: units})
		if observe != nil {
			observe(sum)
		}
	}
	all, ctx := errgroup.WithContext(ctx)
	for _, p := range c.parts {
		all.Go(func() error {
			for !p.Done {
				items, units, err := c.page(ctx, source, p)
				if err != nil {
					return err
				}
				read(p, items, units)
				if p.Done {
					break
				}
				if err := take(ctx, pace, units); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	c.plan.FinishedAt = c.now().UTC()
	return c.keepPlan(context.WithoutCancel(ctx))
}

// page reads one page of a segment and keeps it together with the place where it ends.
func (c *Copy) page(ctx context.Context, source Source, p *part) (items int, units float64, err error) {
	var rows dynamodb.Part[metering.Row]
	var records dynamodb.Part[metering.Record]
	next := *p
	err = patiently(ctx, func() (err error) {
		if p.records {
			records, err = source.ScanRecords(ctx, p.segment, c.plan.Segments, p.After)
			next.After, units = records.Next, records.Units
		} else {
			rows, err = source.ScanRows(ctx, p.segment, c.plan.Segments, p.After)
			next.After, units = rows.Next, rows.Units
		}
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	items = len(rows.Items) + len(records.Items)
	next.Done, next.Items, next.Units = next.After == "", p.Items+int64(items), p.Units+units
	text, err := json.Marshal(next)
	if err == nil {
		err = c.store.PutCopied(ctx, rows.Items, records.Items, p.name, string(text))
	}
	if err != nil {
		return 0, 0, fmt.Errorf("keep a page of the copy: %w", err)
	}
	*p = next
	return items, units, nil
}

// patiently tries a read again that was throttled or did not get through: the SDK's own tries are short ones.
func patiently(ctx context.Context, read func() error) error {
	const tries, first = 6, time.Second
	for n := 1; ; n++ {
		err := read()
		if err == nil || n == tries {
			return err
		}
		if class := awsapi.ClassOf(err); class != awsapi.Throttled && class != awsapi.Unavailable {
			return err
		}
		if awsapi.Sleep(ctx, first<<(n-1)) != nil {
			return err
		}
	}
}

// take waits until units may be read. A page may take more of them than the pace gives in a second.
func take(ctx context.Context, pace *rate.Limiter, units float64) error {
	if pace == nil {
		return nil
	}
	for left := int(math.Ceil(units)); left > 0; {
		n := min(left, pace.Burst())
		if err := pace.WaitN(ctx, n); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("wait for a page's turn: %w", err)
		}
		left -= n
	}
	return nil
}

// NewPace is a pace of so many read units a second; 0 means dynamodb.DefaultScanUnits.
func NewPace(units int) *rate.Limiter {
	if units <= 0 {
		units = dynamodb.DefaultScanUnits
	}
	return rate.NewLimiter(rate.Limit(units), units)
}
