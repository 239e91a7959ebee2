package main

import "slices"

// nodeSuite is the tests of the stages put together on one machine, without those that take half of their time.
func nodeSuite() suite {
	return quick("./internal/node", "TestAdvanceBillsWhatTimeWouldBill", "TestLastHourAtEveryMinute", "TestCase48WritersBesideACleanup",
		"TestRetriesNeverUnbalanceTheBooks")[0]
}

func pipelineSuites() []suite { return append(packages("./internal/pipeline"), nodeSuite()) }

// stages are the discoverer, the aggregator and the cleaner.
func stages() []mutation {
	suites := pipelineSuites()
	return slices.Concat(
		in("internal/pipeline/aggregate.go", suites,
			mutation{
				name:   "an hour is committed whatever its age",
				old:    "	now := a.Now()\n	if !a.Rules.Billable(g.Hour, now) {\n		return nil\n	}\n	created",
				new:    "	now := a.Now()\n	created",
				breaks: "An hour that lapses while its rows are read gets a record that can never be billed, instead of being named as expired.",
			},
			mutation{
				name:   "an old hour is summed",
				old:    "		return nil // age-out owns it: age alone never rejects",
				new:    "		_ = now // age-out owns it: age alone never rejects",
				breaks: "A row that is bad and too late is named as rejected, and whoever mends it waits for a bill that cannot come.",
			},
			mutation{
				name:   "a zero is committed early",
				old:    "if sum.Quantity.N == 0 && !closing && !a.Rules.ZeroEdge(g.Hour, now) {",
				new:    "if sum.Quantity.N == 0 && !closing && g.Hour.Offset(now) < 1 {",
				breaks: "A 0 owns the hour, and usage that comes after it is refused as a duplicate.",
			},
			mutation{
				name:   "a zero waits in a license's last minutes",
				old:    "if sum.Quantity.N == 0 && !closing && !a.Rules.ZeroEdge(g.Hour, now) {",
				new:    "if sum.Quantity.N == 0 && !a.Rules.ZeroEdge(g.Hour, now) {",
				breaks: "The zero of a license's last hour is never reported.",
			},
			mutation{
				name:   "a lost race ends the visit",
				old:    "		return a.cover(ctx, g, *created.Old, out) // another visit's",
				new:    "		return nil // another visit's",
				breaks: "Rows that came between two visits wait without a name until the hour is visited again.",
			},
			mutation{
				name:   "a record that is too large is tried for ever",
				old:    "	if errors.Is(err, metering.ErrTooLarge) {\n",
				new:    "	if errors.Is(err, metering.ErrTooLarge) && created.Done {\n",
				breaks: "The group ends in the dead letters again and again, and its units have no name until they expire.",
			},
		),
		in("internal/pipeline/visit.go", suites,
			mutation{
				name:   "an unreadable manifest is passed over",
				old:    "\"error\", err)\n		return nil\n	}\n	total",
				new:    "\"error\", err)\n	}\n	total",
				breaks: "All rows of a billed group are labelled as late, and are billed twice when they are carried.",
			},
			mutation{
				name:   "what an operator dropped is late",
				old:    "		case metering.RejectedClientSide:\n			l = label{status, string(why)}",
				new:    "		case metering.RejectedClientSide:\n			l = label{metering.LateUsage, string(why)}",
				breaks: "Usage that can never be billed is offered for another hour.",
			},
			mutation{
				name:   "covered rows are not healed",
				old:    "covered = append(covered, metering.CoveredRow(g, second, quantity))",
				new:    "_ = quantity",
				breaks: "A lost cleanup is never made good, and billed rows end as expired: entered again by hand, they are billed twice.",
			},
		),
		in("internal/pipeline/scan.go", suites,
			mutation{
				name:   "expiry forgets the record",
				old:    "	if record != nil {\n		return v.cover",
				new:    "	if record != nil && record.Status == metering.Success {\n		return v.cover",
				breaks: "Rows whose record is on its way are named as expired, entered again by hand and billed twice.",
			},
			mutation{
				name:   "an old misfiled row is filed where nobody looks",
				old:    "	case metering.BeyondSweep(g.Hour, now): // under",
				new:    "	case metering.BeyondSweep(g.Hour, now) && s.expiring && s.closing: // under",
				breaks: "A row of two years ago gets its own bucket back, which no sweep reads any more, and waits for ever.",
			},
			mutation{
				name:   "a misfiled row is left",
				old:    "	if g.Hour != bucket {\n		return s.misfiled(ctx, g, e)\n	}",
				new:    "	if g.Hour != bucket {\n		return nil\n	}",
				breaks: "A row under a wrong bucket is seen at every run and never billed nor named.",
			},
			mutation{
				name:   "an unreadable key is left",
				old:    "	if reason != \"\" {\n		return s.rejectUnreadable(ctx, e)\n	}",
				new:    "	if reason != \"\" {\n		return nil\n	}",
				breaks: "A row whose key names no group waits for ever without a name.",
			},
			mutation{
				name:   "a group is met once for all licenses",
				old:    "	if s.seen == nil || s.license != g.License {\n",
				new:    "	g.License = \"\"\n	if s.seen == nil {\n",
				breaks: "Where two licenses of an account use the same dimension, the second one's group is never sent.",
			},
			mutation{
				name:   "the message does not say that the window closes",
				old:    "metering.NewWorkMessage(g, s.closing)",
				new:    "metering.NewWorkMessage(g, s.expiring)",
				breaks: "The zero of a license's last hour waits until it can no longer be reported.",
			},
			mutation{
				name:   "a lapsed group is enqueued",
				old:    "	if !s.Rules.Billable(g.Hour, s.Now()) {\n		return nil // it lapsed",
				new:    "	if !s.Rules.Billable(g.Hour, s.Now()) && s.closing {\n		return nil // it lapsed",
				breaks: "A group that lapsed during the scan is visited in vain, and counted as sent on.",
			},
			mutation{
				name:   "a misfiled row is repaired before it is counted",
				old:    "	s.Metrics.Emit(metering.Measure{Metric: metering.MetricPendingRepaired, Items: 1})\n	out, err := s.Rows.RebucketRow(ctx, metering.Rebucket{\n		License: e.License, SortKey: e.SortKey, From: e.Bucket, To: g.Hour.String(), At: now,\n	})\n",
				new:    "	out, err := s.Rows.RebucketRow(ctx, metering.Rebucket{\n		License: e.License, SortKey: e.SortKey, From: e.Bucket, To: g.Hour.String(), At: now,\n	})\n	s.Metrics.Emit(metering.Measure{Metric: metering.MetricPendingRepaired, Items: 1})\n",
				breaks: "A crash between the two leaves a writer's error without any sign.",
			},
		),
		in("internal/pipeline/discover.go", suites,
			mutation{
				name:   "age-out sends groups on",
				old:    "	s.expiring = true\n",
				new:    "",
				breaks: "What can no longer be billed is never ended, and its loss has no name.",
			},
			mutation{
				name:   "meter passes over its last offset",
				old:    "*s.HourOffset <= metering.MaxOffset:",
				new:    "*s.HourOffset < metering.MaxOffset:",
				breaks: "Usage written in an hour's last billable hour is never found, nor is the grace tail.",
			},
			mutation{
				name:   "age-out passes over its last shard",
				old:    "*s.Shard < metering.AgeoutShards:",
				new:    "*s.Shard < metering.AgeoutShards-1:",
				breaks: "A seventh of all lost usage is never named.",
			},
		),
		in("internal/pipeline/outbox.go", suites,
			mutation{
				name:   "refused messages are forgotten",
				old:    "	o.refused += len(refused)\n",
				new:    "",
				breaks: "A run that could not send its groups on ends well, and no alarm rings.",
			},
			mutation{
				name:   "a failed batch is forgotten",
				old:    "		return fmt.Errorf(\"send %d messages: %w\", n, err)\n",
				new:    "		return errors.Join(ctx.Err())\n",
				breaks: "A visit whose labels were never sent is acknowledged.",
			},
			mutation{
				name:   "a batch is sent whatever its size",
				old:    "	if o.size+len(body) > metering.MaxBatchBytes {",
				new:    "	if o.size+len(body) > 8*metering.MaxBatchBytes {",
				breaks: "Labels of rows with long keys fail as a batch at every visit, and rows that are billed end as expired.",
			},
		),
		in("internal/pipeline/cleanup.go", suites,
			mutation{
				name:   "a failed message is acknowledged",
				old:    "			failed = append(failed, m.ID)\n",
				new:    "",
				breaks: "Rows whose label could not be written keep none, and nobody tries again.",
			},
			mutation{
				name:   "rows are labelled before they are counted",
				old:    "				t.job.measure(whole, c)\n				errs[i] = c.persist(ctx, t.job.CleanupMessage, t.rows)\n",
				new:    "				errs[i] = c.persist(ctx, t.job.CleanupMessage, t.rows)\n				t.job.measure(whole, c)\n",
				breaks: "A crash between the two takes the loss from every metric and alarm.",
			},
			mutation{
				name:   "late units are counted twice",
				old:    "			measure.Units -= min(r.Late, r.Units())\n",
				new:    "			_ = r\n",
				breaks: "A late row that grows is counted with all that it holds, and more is called late than was ever written.",
			},
			mutation{
				name:   "every message counts its group",
				old:    "		if m.First {\n			measure.Items = 1",
				new:    "		if len(m.Rows) > 0 {\n			measure.Items = 1",
				breaks: "A rejected group of 3,600 rows is counted as 36 groups.",
			},
			mutation{
				name:   "a label needs no marker",
				old:    "	l.Marker, l.Fingerprint = true, row.Fingerprint\n",
				new:    "	l.Fingerprint = row.Fingerprint\n",
				breaks: "A label that is delivered again is written over the status that the row has by then.",
			},
			mutation{
				name:   "a late row does not say how much is late",
				old:    "		l.LateQuantity = metering.Units(row.Units())\n",
				new:    "		l.LateQuantity = metering.Quantity{}\n",
				breaks: "Nobody can carry the late units into another hour, since nothing says how many they are.",
			},
			mutation{
				name:   "a covered row that changed is not judged",
				old:    "			if l, ok := metering.Covered(*r.Old, *row.Quantity, m.Reason); ok {",
				new:    "			if l, ok := metering.Covered(*r.Old, *row.Quantity, m.Reason); ok && l.Status == metering.Aggregated {",
				breaks: "What a row grew by between commit and cleanup waits until its hour is visited again, and has no name by then.",
			},
			mutation{
				name:   "a covered row that shrank is not counted",
				old:    "held < committed {",
				new:    "held > committed {",
				breaks: "That a buyer was billed for more than the row now holds is said by no metric.",
			},
		),
	)
}
