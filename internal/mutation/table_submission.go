package main

import "slices"

// submission is the submitter and the expirer, but for the calls.
func submission() []mutation {
	suites := pipelineSuites()
	return slices.Concat(
		in("internal/pipeline/desk.go", suites,
			mutation{
				name:   "a mark that stands already is no doubt",
				old:    "	return metering.Marked{Record: marked, InDoubt: again}, out.Done || again, nil",
				new:    "	return metering.Marked{Record: marked}, out.Done || again, nil",
				breaks: "A record that another call may have billed is ended by a refusal, reopened and billed twice.",
			},
			mutation{
				name:   "records are sent whatever their age",
				old:    "reason == \"\" && d.Rules.Billable(g.Hour, now) {",
				new:    "reason == \"\" && !d.Rules.Expirable(g.Hour, now) {",
				breaks: "A record that lapsed while it waited for its turn spoils the call of up to 24 others.",
			},
			mutation{
				name:   "a Success on a changed record is not written",
				old:    "		return d.settleChanged(ctx, v, out.Old)",
				new:    "		return nil",
				breaks: "A billed record waits until it expires and is named as lost.",
			},
			mutation{
				name:   "a refused rest is not counted",
				old:    "			sum.add(refusedMeasure(rest(v.Record.Quantity, v.Sent.Quantity)))\n",
				new:    "			sum.add(refusedMeasure(0))\n",
				breaks: "Units that came to a record after its first call are refused, and no alarm says so.",
			},
			mutation{
				name:   "verdicts are written before they are counted",
				old:    "	sum.emit(d.Metrics)\n",
				new:    "	defer sum.emit(d.Metrics)\n",
				breaks: "A crash between the two takes what was billed or refused from every metric and alarm.",
			},
			mutation{
				name:   "a duplicate counts as billed",
				old:    "		m.Metric = metering.MetricDuplicate\n",
				new:    "		m.Metric = metering.MetricBilled\n",
				breaks: "Units that the service refused appear in the revenue, and the alarm for duplicates stays silent.",
			},
			mutation{
				name:   "the first row's second may be any",
				old:    "	if !ok || first <= r.Usage().Second {",
				new:    "	if !ok || first < r.Usage().Second {",
				breaks: "A record that is refused for its time is sent once more just as it was, and costs a call in vain.",
			},
		),
		in("internal/pipeline/intake.go", suites,
			mutation{
				name:   "a sale goes out under both schemes",
				old:    "	case in.arn[s]:\n",
				new:    "	case in.arn[s] && in.sent[id]:\n",
				breaks: "A sale that is metered by license and by customer identifier is billed twice.",
			},
			mutation{
				name:   "an identity goes out twice",
				old:    "	in.sent[id] = in.sent[id] || reason == \"\"\n",
				new:    "	in.sent[id] = in.sent[id] && reason == \"\"\n",
				breaks: "Of two records with one identity the second is refused as a duplicate, or billed in the first one's place.",
			},
			mutation{
				name:   "a record in doubt is rejected",
				old:    "	if reason != \"\" && r.SentQuantity.Whole {\n",
				new:    "	if reason != \"\" && r.SentQuantity.Whole && r.Pending == \"\" {\n",
				breaks: "A record that may be billed is named as rejected, mended, sent anew and billed twice.",
			},
			mutation{
				name:   "a record is not checked",
				old:    "	reason := r.Validate()\n",
				new:    "	reason := metering.Reason(\"\")\n",
				breaks: "One malformed record that a seller wrote directly spoils its call for 24 others.",
			},
			mutation{
				name:   "a record is ended before it is counted",
				old:    "	in.Metrics.Emit(metering.Measure{Metric: metering.MetricRowRejected, Items: 1, Units: units, Cause: f.Reason})\n	in.rejected++\n	in.finish(ctx, f)\n",
				new:    "	in.rejected++\n	in.finish(ctx, f)\n	in.Metrics.Emit(metering.Measure{Metric: metering.MetricRowRejected, Items: 1, Units: units, Cause: f.Reason})\n",
				breaks: "A crash between the two takes the loss from every metric and alarm.",
			},
			mutation{
				name:   "a changed record that is billed is sent again",
				old:    "	if f, refused, billed := metering.FinishBilled(r, now); billed {\n		in.measureRefused",
				new:    "	if f, refused, billed := metering.FinishBilled(r, now); billed && r.Pending == \"\" {\n		in.measureRefused",
				breaks: "A record that its seller changed after Success goes into the calls again, and its refused rest is never counted.",
			},
			mutation{
				name:   "an hour that is full is cut off from its twins",
				old:    "	done := func() bool { return full() && !in.arns[h] }",
				new:    "	done := func() bool { return full() }",
				breaks: "A legacy record whose sale has just gone out by license is seen by the next run alone, sent and billed twice.",
			},
		),
		in("internal/pipeline/retry.go", suites,
			mutation{
				name:   "the twin is not looked for",
				old:    "	return err == nil && twin != nil && metering.SaleTaken(*twin), err",
				new:    "	return err == nil && twin != nil && twin.Pending != \"\" && metering.SaleTaken(*twin), err",
				breaks: "A sale that is billed by customer identifier is reopened by license and billed twice.",
			},
			mutation{
				name:   "a dry run reopens",
				old:    "		case dry:\n			return nil\n",
				new:    "",
				breaks: "An operator who only looks sends records once more.",
			},
		),
		in("internal/pipeline/expire.go", suites,
			mutation{
				name:   "a record in doubt is rejected",
				old:    "	if reason != \"\" && !r.SentQuantity.Whole {",
				new:    "	if reason != \"\" {",
				breaks: "A record that may be billed is named as rejected, mended, sent anew and billed twice.",
			},
			mutation{
				name:   "records expire before they are counted",
				old:    "	sum.emit(e.Metrics)\n",
				new:    "	defer sum.emit(e.Metrics)\n",
				breaks: "A crash between the two takes the loss from every metric and alarm.",
			},
			mutation{
				name:   "a billed record is named as expired",
				old:    "	if f, refused, billed := metering.FinishBilled(r, now); billed {",
				new:    "	if f, refused, billed := metering.FinishBilled(r, now); billed && refused > 0 {",
				breaks: "A billed record that was touched since is counted as lost.",
			},
			mutation{
				name:   "a misfiled record waits for ever",
				old:    "	if reason == \"\" && !e.Rules.Expirable(g.Hour, now) {\n		reason = metering.SortKeyMismatch",
				new:    "	if reason == \"\" && !e.Rules.Expirable(g.Hour, now) {\n		reason = \"\"",
				breaks: "A record whose marker names another hour than its key is called too late though it is not.",
			},
		),
		in("internal/pipeline/lasthour.go", suites,
			mutation{
				name:   "a last hour that is over is one",
				old:    "		if l.Expiry.After(now) && !seen[l.License] {",
				new:    "		if !seen[l.License] {",
				breaks: "A license that comes back at once has its hour in progress committed early, and what it uses in it is late.",
			},
		),
		in("internal/pipeline/submit.go", suites,
			mutation{
				name:   "a paused submitter sends",
				old:    "	if s.Paused {\n		s.Metrics",
				new:    "	if s.Paused && s.DryRun {\n		s.Metrics",
				breaks: "A seller who has stopped all billing goes on billing.",
			},
			mutation{
				name:   "a dry run sends",
				old:    "	if s.DryRun {\n		n, err",
				new:    "	if s.DryRun && s.Marketplace == nil {\n		n, err",
				breaks: "Buyers are billed by what was meant as a trial.",
			},
			mutation{
				name:   "a dry run ends what a live run has sent",
				old:    "			if r.SentQuantity.Whole {\n				continue",
				new:    "			if r.SentQuantity.Whole && r.Pending == \"\" {\n				continue",
				breaks: "A record that may be billed is named as never sent, and is billed again after the trial.",
			},
			mutation{
				name:   "unprocessed records are not counted",
				old:    "	if report.Unprocessed > 0 {",
				new:    "	if report.Unprocessed > report.Settled {",
				breaks: "Records that the service leaves run after run expire without an alarm before it.",
			},
			mutation{
				name:   "results that match nothing are not counted",
				old:    "	if report.Unmatched > 0 {",
				new:    "	if report.Unmatched > report.Calls {",
				breaks: "Answers that speak of none of our records, and perhaps billed somebody, ring no alarm.",
			},
		),
	)
}

// calls are the client's side of the API.
func calls() []mutation {
	suites := append(packages("./internal/marketplace"), nodeSuite())
	return slices.Concat(
		in("internal/marketplace/classify.go", suites,
			mutation{
				name:   "trouble of the service is a record's fault",
				old:    "	return Fatal, code\n",
				new:    "	return RecordFault, code\n",
				breaks: "While the service is down every record is rejected, and none is sent when it is back.",
			},
			mutation{
				name:   "a wrong product code is a record's fault",
				old:    "metering.ExceptionLicense, metering.ExceptionIdentifier,\n",
				new:    "metering.ExceptionLicense, metering.ExceptionIdentifier, \"InvalidProductCodeException\",\n",
				breaks: "A wrong setting rejects everything that waits.",
			},
			mutation{
				name:   "a poisonous record is trouble of the service",
				old:    "	case metering.ExceptionDimension, metering.ExceptionTimestamp,",
				new:    "	case metering.ExceptionTimestamp,",
				breaks: "One undefined dimension ends every run, and everything behind it expires.",
			},
			mutation{
				name:   "throttling is trouble of the service",
				old:    "	if _, throttled := retry.DefaultThrottleErrorCodes[code]; throttled ||",
				new:    "	if _, throttled := retry.DefaultThrottleErrorCodes[code]; throttled && code == \"\" ||",
				breaks: "The first throttled call ends the run, and a backlog never gets through.",
			},
		),
		in("internal/marketplace/deliver.go", suites,
			mutation{
				name:   "a refusal ends a record in doubt",
				old:    "(v.Status == metering.CustomerNotSubscribed || v.Status == metering.DuplicateRecord && !identical)",
				new:    "(v.Status == metering.DuplicateRecord && !identical)",
				breaks: "A record that an unanswered call has billed is booked as refused because its buyer has left since.",
			},
			mutation{
				name:   "a duplicate ends a record in doubt",
				old:    "(v.Status == metering.CustomerNotSubscribed || v.Status == metering.DuplicateRecord && !identical)",
				new:    "(v.Status == metering.CustomerNotSubscribed || v.Status == metering.DuplicateRecord && !identical && v.Record.Pending == \"\")",
				breaks: "A record that is billed with its allocations is booked as refused when it is sent again without them.",
			},
			mutation{
				name:   "an exception ends a record in doubt",
				old:    "	if b.state[keyOf(record)].doubt {\n",
				new:    "	if b.state[keyOf(record)].doubt && tried == 0 && exception == \"\" {\n",
				breaks: "A record that an unanswered call has billed is rejected, mended and billed twice.",
			},
			mutation{
				name:   "a doubt is forgotten in the same run",
				old:    "s.doubt || m.InDoubt",
				new:    "s.doubt",
				breaks: "A record that another run may have billed is ended by a refusal.",
			},
			mutation{
				name: "one record's fault rejects its whole call",
				old: `	if len(records) == 1 {
		r.refuse(b, records[0], exception, tried)
		return
	}
`,
				new: `	if len(records) > 0 {
		for _, record := range records {
			r.refuse(b, record, exception, tried)
		}
		return
	}
`,
				breaks: "One bad record takes 24 good ones with it.",
			},
			mutation{
				name:   "the unprocessed are not sent again",
				old:    "	case len(left) == 0:\n",
				new:    "	case len(left) == 0 || tried&again == 0:\n",
				breaks: "A passing trouble costs a record this run, and nobody is told that it was left.",
			},
			mutation{
				name:   "a record that was moved is moved again",
				old:    "	if tried&later == 0 && (exception",
				new:    "	if (exception",
				breaks: "A record that stays refused is sent over and over.",
			},
			mutation{
				name:   "the last call's record is sent too late",
				old:    "		if records = r.desk.Sendable(records); len(records) == 0 {",
				new:    "		if len(r.desk.Sendable(records)) == 0 {",
				breaks: "A record that lapsed while the service throttled spoils the call of up to 24 others.",
			},
		),
		in("internal/marketplace/api.go", suites,
			mutation{
				name:   "every call carries the product code",
				old:    "	if call.Legacy {\n		in.ProductCode",
				new:    "	if call.Legacy || len(call.Records) > 0 {\n		in.ProductCode",
				breaks: "Calls by license are refused, or billed a second time in the other scheme.",
			},
			mutation{
				name:   "the SDK repeats calls on its own",
				old:    "		Retryer:     aws.NopRetryer{},\n",
				new:    "",
				breaks: "Repeats that nobody paces push the account over its limit, and the other records wait.",
			},
			mutation{
				name:   "a quantity is cut to 32 bits",
				old:    "	if n < 0 || n > math.MaxInt32 {",
				new:    "	if n < math.MinInt32 {",
				breaks: "A buyer is billed for another quantity than the record's.",
			},
			mutation{
				name:   "tags are not sent",
				old:    "types.UsageAllocation{AllocatedUsageQuantity: &q, Tags: tags})",
				new:    "types.UsageAllocation{AllocatedUsageQuantity: &q, Tags: tags[:0]})",
				breaks: "Tagged usage is refused, or billed without its tags.",
			},
		),
		in("internal/marketplace/suspects.go", suites,
			mutation{
				name:   "a suspect is one whatever was refused",
				old:    "		if s.exception == exception {\n",
				new:    "		if s.exception != \"\" {\n",
				breaks: "A license with one bad dimension goes last with all that it has, and is not reached in time.",
			},
		),
		in("internal/marketplace/pace.go", suites,
			mutation{
				name:   "throttling does not slow the pace",
				old:    "max(p.limiter.Limit()/2, min(slowest, p.full))",
				new:    "max(p.limiter.Limit(), min(slowest, p.full))",
				breaks: "A throttled account stays throttled until the run gives up.",
			},
		),
		in("internal/marketplace/resolve.go", suites,
			mutation{
				name:   "the words of a broken connection show the token",
				old:    `func (e tokenless) Error() string { return strings.ReplaceAll(e.error.Error(), e.token, "…") }`,
				new:    `func (e tokenless) Error() string { return e.error.Error() }`,
				breaks: "Whoever reads the log can register as the buyer and use what they pay for.",
			},
			mutation{
				name:   "the service's words show the token",
				old:    "		return strings.ReplaceAll(refused.ErrorMessage(), e.token, \"…\")\n",
				new:    "		return refused.ErrorMessage()\n",
				breaks: "Whoever reads the log can register as the buyer and use what they pay for.",
			},
		),
	)
}

// machine is the pipeline on one machine.
func machine() []mutation {
	suites := []suite{nodeSuite()}
	return slices.Concat(
		in("internal/node/timetable.go", suites,
			mutation{
				name:   "the oldest hour is not metered",
				old:    "pipeline.MeterSlice, metering.MinOffset, metering.MaxOffset)",
				new:    "pipeline.MeterSlice, metering.MinOffset, metering.MaxOffset-1)",
				breaks: "Usage written in an hour's last billable hour is never found, nor is the grace tail.",
			},
			mutation{
				name:   "a shard is not swept",
				old:    "pipeline.AgeoutSlice, 0, metering.AgeoutShards-1)",
				new:    "pipeline.AgeoutSlice, 1, metering.AgeoutShards-1)",
				breaks: "A seventh of all lost usage is never named.",
			},
			mutation{
				name:   "records do not expire",
				old:    "		{schedule: metering.ExpireSchedule, run: func(ctx context.Context) (any, error) { return n.Expire.Run(ctx) }},\n",
				new:    "",
				breaks: "Records whose hour is over wait for ever, and their loss has no name.",
			},
			mutation{
				name:   "last hours do not end",
				old:    "		{schedule: metering.FinalizeSchedule, run: func(ctx context.Context) (any, error) { return n.Finalize.Run(ctx) }},\n",
				new:    "",
				breaks: "A license that is gone is flushed and preferred for ever.",
			},
		),
		in("internal/node/node.go", suites,
			mutation{
				name:   "a dry run is live",
				old:    "DryRun: c.DryRun, Paused: c.Paused,",
				new:    "Paused: c.Paused,",
				breaks: "Buyers are billed by what was meant as a trial.",
			},
			mutation{
				name:   "a pause is no pause",
				old:    "DryRun: c.DryRun, Paused: c.Paused,",
				new:    "DryRun: c.DryRun,",
				breaks: "A seller who has stopped all billing goes on billing.",
			},
		),
		in("internal/node/sold.go", suites,
			mutation{
				name:   "legacy sales go by account",
				old:    "		id.Customer, id.Account = b.CustomerIdentifier, \"\"\n",
				new:    "		id.Customer = b.CustomerIdentifier\n",
				breaks: "The books and the Marketplace's disagree on every sale by customer identifier, and true differences drown.",
			},
		),
	)
}
