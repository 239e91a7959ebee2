package dev

import (
	"cmp"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// CountedHours is the answer of GET /v1/counted: what was counted since the start, by the hour of the node's clock in which it was.
type CountedHours struct {
	Counted []CountedHour `json:"counted"` // in the order of the hours
}

// CountedHour is what was counted of a metric in an hour.
type CountedHour struct {
	Hour   string `json:"hour"` // as 2026-03-10T14
	Metric string `json:"metric"`
	Items  int64  `json:"items"`
	Units  int64  `json:"units"`
}

// hourly passes observations on, and keeps their sums by the hour for a little more than a month.
type hourly struct {
	next interface{ Emit(metering.Measure) }
	now  func() time.Time

	mu   sync.Mutex
	sums map[metering.Hour]map[metering.Metric]CountedHour
}

const hoursKept = 32 * 24

// Emit takes an observation in.
func (c *hourly) Emit(m metering.Measure) {
	c.next.Emit(m)
	hour := metering.HourOf(c.now())
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.sums[hour]
	if of == nil {
		if c.sums == nil {
			c.sums = make(map[metering.Hour]map[metering.Metric]CountedHour)
		}
		for old := range c.sums {
			if old+hoursKept < hour {
				delete(c.sums, old)
			}
		}
		of = make(map[metering.Metric]CountedHour)
		c.sums[hour] = of
	}
	sum := of[m.Metric]
	of[m.Metric] = CountedHour{hour.String(), string(m.Metric), sum.Items + m.Items, sum.Units + m.Units}
}

func (c *hourly) list() []CountedHour {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := []CountedHour{}
	for _, of := range c.sums {
		for _, sum := range of {
			list = append(list, sum)
		}
	}
	slices.SortFunc(list, func(a, b CountedHour) int {
		return cmp.Or(cmp.Compare(a.Hour, b.Hour), cmp.Compare(a.Metric, b.Metric))
	})
	return list
}

func (m *Machine) getCounted(w http.ResponseWriter, r *http.Request) {
	if _, err := queryOf(r); err != nil {
		fail(w, http.StatusBadRequest, err.Error(), "as in /v1/counted: it has no parameters")
		return
	}
	answer(w, http.StatusOK, CountedHours{m.counted.list()})
}
