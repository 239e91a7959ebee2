package simulation

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aws/smithy-go"

	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

func variants() []variant {
	return append(losses(), []variant{
		{name: "F2 lost cleanup never heals", does: "a visit of a group that has its record does nothing, and age-out ends what waits, billed or not",
			change: func(w *world) {
				w.node.Aggregate.Rows = rowsBy{tables: w.tables, reads: w.onlyUncommitted}
				w.node.Discover.Records = recordsBy{tables: w.tables, reads: none}
			}, rules: []string{RuleLate, RuleStale}, slow: true},
		{name: "F3 late row loses its marker", does: "a visit of a group that has its record takes the marker off whatever waits",
			change: func(w *world) {
				w.node.Clean.Rows = rowsBy{tables: w.tables, labels: func(l metering.Label, old *metering.Row) (metering.Row, bool) {
					r, ok := carefully(l, old)
					if ok && l.Status == metering.LateUsage {
						r = *old
						r.Pending = ""
					}
					return r, ok
				}}
			}, rules: []string{RuleBalance}},
		{name: "F7 unconditional cleanup", does: "cleanup labels a covered row whatever it holds by now",
			change: func(w *world) {
				w.node.Clean.Rows = rowsBy{tables: w.tables, labels: func(l metering.Label, old *metering.Row) (metering.Row, bool) {
					if old != nil && l.Status == metering.Aggregated {
						return l.Apply(*old), true
					}
					return carefully(l, old)
				}}
			}, rules: []string{RuleBalance}},
		{name: "F8 F9 only waiting rows are folded", does: "rows that were rejected take no part in their group's sum any more",
			change: func(w *world) {
				w.node.Aggregate.Rows = rowsBy{tables: w.tables, reads: func(_ metering.Group, r metering.Row) (metering.Row, bool) { return r, r.Pending != "" }}
			}, rules: []string{RuleRejected}, slow: true},
		{name: "F10 missing quantity is 0", does: "a row without a quantity is folded as 0",
			change: func(w *world) {
				w.node.Aggregate.Rows = rowsBy{tables: w.tables, reads: func(_ metering.Group, r metering.Row) (metering.Row, bool) {
					if _, wrong := r.Other[metering.AttrQuantity]; !wrong && !r.Quantity.Whole {
						r.Quantity = metering.Units(0)
					}
					return r, true
				}}
			}, rules: []string{RuleManifest}, beside: withoutQuantity},
		{name: "F11 wrong bucket never found", does: "a row whose bucket is not the hour of its key is looked for under a prefix that it has not",
			change: func(w *world) {
				w.node.Discover.Rows = rowsBy{tables: w.tables, finds: func(r metering.PendingRow) bool {
					key, reason := metering.ParseRowKey(r.SortKey)
					return reason == "" && key.Second.Hour().String() == r.Bucket
				}}
			}, rules: []string{RuleDeadline, RuleProgress}},
		{name: "F12 sweeps stop at quiet hours", does: "age-out goes no further than six hours in a row under which nothing waits",
			change: func(w *world) {
				w.stages.discover = func(ctx context.Context, s pipeline.Slice) error {
					d := *w.node.Discover
					if s.Mode == pipeline.ModeAgeout {
						d.Rows = &untilQuiet{tables: w.tables}
					}
					_, err := d.Run(ctx, s)
					return err
				}
			}, rules: []string{RuleDeadline, RuleProgress}, slow: true},
		{name: "F13 verdicts at the end of the run", does: "what the Marketplace answered is written back when the run is over, and not at all when it failed; nothing is marked as sent",
			change: (*world).atTheEnd,
			rules:  []string{RuleBilled, RuleChance}, slow: true},
		{name: "F14 every error is poison", does: "a fault of the service or the network is taken for the record's",
			change: func(w *world) {
				w.node.Submit.Marketplace = w.sends(marketplace.Settings{}, func(_ metering.Call, a metering.Answer, err error) (metering.Answer, error) {
					if kind, _ := marketplace.Classify(err); kind == marketplace.Fatal {
						err = &smithy.GenericAPIError{Code: metering.ExceptionValidation, Message: err.Error()}
					}
					return a, err
				})
			}, rules: []string{RuleBilled}, slow: true},
		{name: "F17 no pace", does: "calls follow each other as fast as they can",
			change: func(w *world) { w.node.Submit.Marketplace = w.sends(marketplace.Settings{CallsPerSecond: 1e6}, nil) },
			rules:  []string{RuleQuota}, beside: throttled, slow: true},
		{name: "F19 verdict without the quantity", does: "Success is written on a record whatever it holds by now",
			change: func(w *world) {
				w.node.Submit.Records = recordsBy{tables: w.tables, finishes: func(f metering.Finish, old metering.Record) bool {
					return f.Status == metering.Success || f.Holds(old)
				}}
			}, rules: []string{RuleBilled}, beside: overwritesRecords, slow: true},
		{name: "F22 no month in the submitter", does: "the submitter knows 24 hours and no month",
			change: func(w *world) {
				w.stages.submit = func(ctx context.Context) error {
					_, err := w.node.Submit.Run(ctx)
					if at := w.beforeClosing(); err == nil && at != nil {
						s := *w.node.Submit
						s.Now, s.Records = at, recordsBy{tables: w.tables, finds: func(r metering.Record) bool { return w.young(r.HourBucket) }}
						_, err = s.Run(ctx)
					}
					return err
				}
			}, rules: []string{RuleBillable}, when: monthEnds, slow: true},
		{name: "F22 no month in the aggregator", does: "discoverer and aggregator know 24 hours and no month",
			change: (*world).meterLate, rules: []string{RuleBillable}, when: monthEnds, slow: true},
		{name: "F25 billed rows relabelled", does: "the aggregator does not look for a record before it rejects a group",
			change: func(w *world) { w.node.Aggregate.Records = recordsBy{tables: w.tables, reads: none} },
			rules:  []string{RuleStale, RuleRejected}, beside: spoiledAfterwards, slow: true},
		{name: "F26 unconditional expiry", does: "what a stale index shows as waiting is written SubmissionExpired whatever it says by now",
			change: func(w *world) {
				w.node.Expire.Records = recordsBy{tables: w.tables, finishes: func(metering.Finish, metering.Record) bool { return true }}
			}, rules: []string{RuleTerminal, RuleBilled}, beside: lastMinuteRecords, slow: true},
		{name: "F26 unconditional rejection", does: "a rejection is written on a row whatever it holds by now",
			change: func(w *world) {
				w.node.Clean.Rows = rowsBy{tables: w.tables, labels: func(l metering.Label, old *metering.Row) (metering.Row, bool) {
					if old != nil && l.Status == metering.RejectedClientSide {
						return l.Apply(*old), true
					}
					return carefully(l, old)
				}}
			}, rules: []string{RuleRejected}, beside: mendedAtOnce},
		{name: "F27 ghosts", does: "a label makes the row where it is gone",
			change: func(w *world) {
				w.node.Clean.Rows = rowsBy{tables: w.tables, labels: func(l metering.Label, old *metering.Row) (metering.Row, bool) {
					if old == nil {
						return l.Apply(metering.Row{License: l.License, SortKey: l.SortKey}), true
					}
					return carefully(l, old)
				}}
			}, rules: []string{RuleGhost}, beside: deletedAtOnce},
		{name: "F29 events dropped as success", does: "an event that could not be applied is not delivered again",
			change: func(w *world) {
				w.events.handle = func(ctx context.Context, batch []pipeline.Message) []string {
					w.node.Lifecycle.Handle(ctx, batch)
					return nil
				}
			}, rules: []string{RuleEvents}, when: stormy, slow: true},
		{name: "F30 an older event wins", does: "an event counts as of when it came",
			change: func(w *world) {
				w.events.handle = func(ctx context.Context, batch []pipeline.Message) []string {
					for i := range batch {
						batch[i].Body = stampedAt(batch[i].Body, w.Now())
					}
					return w.node.Lifecycle.Handle(ctx, batch)
				}
			}, rules: []string{RuleEvents}, beside: returnsAtOnce},
		{name: "F33 matched by position", does: "the nth result is taken for the nth record's",
			change: func(w *world) {
				w.node.Submit.Marketplace = w.sends(marketplace.Settings{}, func(c metering.Call, a metering.Answer, err error) (metering.Answer, error) {
					for i := range a.Results {
						a.Results[i].Usage = c.Records[i]
					}
					return a, err
				})
			}, rules: []string{RuleBilled}, beside: suspended, slow: true},
		{name: "F50 no metric of late rows", does: "nothing tells that usage came late",
			change: func(w *world) { w.node.Clean.Metrics = deafTo{w, metering.MetricRowLate} },
			rules:  []string{RuleMetric}},
	}...)
}

func none(*metering.Record) *metering.Record { return nil }

// committed is a group's record, past the seam.
func (w *world) committed(g metering.Group) *metering.Record {
	r, err := w.tables.Store.Record(context.Background(), g)
	w.must(err)
	return r
}

func (w *world) onlyUncommitted(g metering.Group, r metering.Row) (metering.Row, bool) {
	return r, w.committed(g) == nil
}

// atTheEnd keeps the verdicts of a run until it is over.
func (w *world) atTheEnd() {
	w.stages.submit = func(ctx context.Context) error {
		var verdicts []metering.Finish
		s := *w.node.Submit
		s.Records = recordsBy{tables: w.tables, marks: func(metering.Send) bool { return false }, later: &verdicts}
		if _, err := s.Run(ctx); err != nil {
			return err
		}
		for _, f := range verdicts {
			if _, err := w.tables.FinishRecord(ctx, f); err != nil {
				return err
			}
		}
		return nil
	}
}

// beforeClosing is a clock that stands before the last month closed, where that was today; else nil.
func (w *world) beforeClosing() func() time.Time {
	now := w.Now()
	if now.Day() != 1 || now.Hour() < 6 {
		return nil
	}
	return func() time.Time { return time.Date(now.Year(), now.Month(), 1, 5, 59, 0, 0, time.UTC) }
}

// young reports whether an hour is younger than 24 hours.
func (w *world) young(hour string) bool {
	h, err := metering.ParseHour(hour)
	return err == nil && w.Now().Sub(h.Start()) < 24*time.Hour
}

// meterLate visits and commits hours of last month after that has closed.
func (w *world) meterLate() {
	w.stages.discover = func(ctx context.Context, s pipeline.Slice) error {
		d, at := *w.node.Discover, w.beforeClosing()
		if at != nil && s.Mode == pipeline.ModeMeter && *s.HourOffset > w.Now().Hour() { // the same hour, as seen from that clock
			d.Now = at
			s = pipeline.MeterSlice(*s.HourOffset - w.Now().Hour() + at().Hour())
		}
		_, err := d.Run(ctx, s)
		return err
	}
	w.stages.aggregate = func(ctx context.Context, batch []pipeline.Message) (failed []string) {
		for _, m := range batch {
			a := *w.node.Aggregate
			message, err := metering.Decode[metering.WorkMessage](m.Body)
			w.must(err)
			if at := w.beforeClosing(); at != nil && message.Hour < w.Now().Format(time.DateOnly) {
				a.Now = at
			}
			failed = append(failed, a.Handle(ctx, []pipeline.Message{m})...)
		}
		return failed
	}
}

// stampedAt is an event that happens when it comes.
func stampedAt(body string, at time.Time) string {
	var event map[string]any
	if err := json.Unmarshal([]byte(body), &event); err != nil {
		panic(err)
	}
	event["time"] = at.UTC().Format(time.RFC3339)
	out, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	return string(out)
}
