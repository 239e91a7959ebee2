package simulation

import (
	"context"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// How long what waits past its deadline may be on its way to an end: it is looked at every quarter of an hour, and once a day where it
// is older than three days. Both leave room for visits that fail.
const (
	patienceRecent = 8 * time.Hour
	patienceOld    = 82 * time.Hour
	recent         = 72 * time.Hour
)

// overdue looks for what waits though its hour is long over.
func (c *checker) overdue() {
	ctx, now := context.Background(), c.now()
	list, err := c.store.Waiting(ctx)
	if err != nil {
		c.fail(RuleDeadline, metering.Group{}, "%v", err)
	}
	for _, w := range list {
		bucket, err := metering.ParseHour(w.Bucket)
		if err != nil || now.Sub(c.rules.Deadline(bucket)) < patienceRecent {
			continue
		}
		for r := range c.store.PendingRows(ctx, bucket, "") {
			since := c.rules.Deadline(bucket)
			if key, reason := metering.ParseRowKey(r.SortKey); reason == "" { // a zero that is misfiled waits for the end of its own hour
				since = latest(since, c.rules.Deadline(key.Second.Hour()))
			}
			if w := c.rows[rowID(r.License, r.SortKey)]; w != nil && impatient(bucket, latest(since, w.at), now) {
				c.overdueItem(r.License, r.SortKey, "row")
			}
		}
		for r := range c.store.PendingRecords(ctx, bucket, "") {
			if since := c.records[rowID(r.License, r.SortKey)]; impatient(bucket, latest(since, c.rules.Deadline(bucket)), now) {
				c.overdueItem(r.License, r.SortKey, "record")
			}
		}
	}
}

// impatient reports whether what waits under a bucket since an instant has waited too long.
func impatient(bucket metering.Hour, since, now time.Time) bool {
	if now.Sub(bucket.Start()) > recent {
		return now.Sub(since) > patienceOld
	}
	return now.Sub(since) > patienceRecent
}

func (c *checker) overdueItem(license, sortKey, what string) {
	var g metering.Group
	if key, reason := metering.ParseRowKey(sortKey); reason == "" {
		g = key.Group(license)
	} else if of, reason := metering.ParseRecordKey(license, sortKey); reason == "" {
		g = of
	}
	c.fail(RuleDeadline, g, "%s %s still waits", what, sortKey)
}
