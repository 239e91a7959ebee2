package main

import "slices"

// lifecycles are the Marketplace's events.
func lifecycles() []mutation {
	suites := quick("./internal/lifecycle", "TestUpToThreeEventsInEveryOrder", "TestEveryOrderThroughTheQueue", "TestThousandLicensesLeaveAtOnce")
	return slices.Concat(
		in("internal/lifecycle/handle.go", suites,
			mutation{
				name:   "an unresolved event is acknowledged",
				old:    "	for i, m := range batch {\n		if errs[i] != nil {\n",
				new:    "	for i, m := range batch {\n		if errs[i] != nil && !errors.Is(errs[i], ErrUnresolved) {\n",
				breaks: "A License Deprovisioned that outran its license is lost, and its last hour with it.",
			},
			mutation{
				name:   "an unresolved license is given up like an agreement",
				old:    "	case e.ofLicense() || a.Ignored != \"\":\n",
				new:    "	case a.Ignored != \"\":\n",
				breaks: "A License Deprovisioned whose license is not known yet never reaches the dead letters, and no alarm rings.",
			},
			mutation{
				name:   "test events are about anybody",
				old:    "	case test && !slices.Contains(h.TestAccounts, e.account):\n",
				new:    "	case test && !slices.Contains(h.TestAccounts, e.account) && e.account == \"\":\n",
				breaks: "An invented event takes a paying buyer's license into its last hour.",
			},
			mutation{
				name:   "events of other sources are taken",
				old:    "	case !test && e.source != Source:\n",
				new:    "	case !test && e.source == \"\":\n",
				breaks: "Whoever may put an event on the bus ends a buyer's license.",
			},
			mutation{
				name:   "only one license of an agreement hears that it ended",
				old:    "			seen[at], fresh = true, true\n",
				new:    "			seen[at], fresh = true, true\n			if len(a.Licenses) > 0 {\n				break\n			}\n",
				breaks: "Other licenses of the agreement look active, and are sold on.",
			},
			mutation{
				name:   "a failed change is no failure",
				old:    "	s, changed, err := h.change(ctx, change.Joining(&joined))\n	if err != nil {\n		return err\n	}\n",
				new:    "	s, changed, err := h.change(ctx, change.Joining(&joined))\n	if err != nil {\n		return nil\n	}\n",
				breaks: "The event that opens a license's last hour is acknowledged and has no effect.",
			},
		),
		in("internal/lifecycle/event.go", suites,
			mutation{
				name:   "a direct sale's events are not known",
				old:    "	for _, r := range []Role{Manufacturer, Proposer} {",
				new:    "	for _, r := range []Role{Manufacturer} {",
				breaks: "The end of an agreement that was sold directly is ignored.",
			},
			mutation{
				name:   "a bare ARN stands for nothing",
				old:    "			return spelling{arn: arn, id: id}\n",
				new:    "			return spelling{id: id}\n",
				breaks: "A license that an event spells without arn: is not found, and its last hour never begins.",
			},
			mutation{
				name:   "an event from the future is taken",
				old:    "	case e.at.Sub(now) > maxAhead:\n",
				new:    "	case e.at.Sub(now) > 365*maxAhead:\n",
				breaks: "One event with a wrong time outlasts all later ones, and a license never ends.",
			},
		),
		in("internal/lifecycle/resolve.go", suites,
			mutation{
				name:   "an event is about any license of its agreement",
				old:    "	case len(found) == 1:\n",
				new:    "	case len(found) >= 1:\n",
				breaks: "The wrong license goes into its last hour, and the right one never does.",
			},
		),
	)
}

// registrations are a buyer's first click.
func registrations() []mutation {
	suites := []suite{{pkg: "./internal/registration", skip: "^TestBrowser$"}}
	return slices.Concat(
		in("internal/registration/register.go", suites,
			mutation{
				name:   "another product's token is taken",
				old:    "	case customer.ProductCode != h.ProductCode:\n",
				new:    "	case customer.ProductCode == \"\":\n",
				breaks: "A buyer of another product gets this one, and its usage is refused for ever.",
			},
			mutation{
				name:   "the log holds the token",
				old:    "	add(\"cause\", end.cause)\n",
				new:    "	add(\"cause\", cmp.Or(end.cause, v.token))\n",
				breaks: "Whoever reads the log can register as the buyer and use what they pay for.",
			},
			mutation{
				name:   "a failed subscriber is a registered one",
				old:    "		return end.failed(savingSubscriber, err)\n",
				new:    "		end.cause = savingSubscriber\n",
				breaks: "A buyer is told to go on whose license nobody meters.",
			},
			mutation{
				name:   "details without a license are not kept",
				old:    "	license := cmp.Or(customer.License, h.ProductCode)\n",
				new:    "	license := cmp.Or(customer.License, customer.CustomerIdentifier)\n",
				breaks: "What a buyer told before the license was there is lost, and they cannot be reached.",
			},
			mutation{
				name:   "a registration without a license is not counted",
				old:    "		m.Metric, m.Cause = metering.MetricRegistrationEarly, \"\"\n",
				new:    "		m.Cause = \"\"\n",
				breaks: "Nobody sees that a buyer waits for a license.",
			},
		),
		in("internal/registration/request.go", suites,
			mutation{
				name:   "the table holds the token",
				old:    "	told := make(map[string]string, len(v.values))\n",
				new:    "	told := map[string]string{tokenField: v.token}\n",
				breaks: "Whoever reads the profiles can register as the buyer and use what they pay for.",
			},
		),
	)
}

// lambdas are the functions on AWS.
func lambdas() []mutation {
	suites := packages("./internal/functions")
	return slices.Concat(
		in("internal/functions/stages.go", suites,
			mutation{
				name:   "failed messages are acknowledged",
				old:    "		return lambdaevent.Failed(failed), batchReport{len(messages), len(failed)}, nil\n",
				new:    "		return lambdaevent.Failed(nil), batchReport{len(messages), len(failed)}, nil\n",
				breaks: "A visit, a label or an event that failed is never tried again.",
			},
			mutation{
				name:   "a pause is no pause",
				old:    "DryRun: p.dryRun(), Paused: p.Paused,",
				new:    "DryRun: p.dryRun(),",
				breaks: "A seller who has stopped all billing goes on billing.",
			},
			mutation{
				name:   "records are kept no longer than rows",
				old:    "time.Duration(p.AggregatedDays) * 24 * time.Hour",
				new:    "time.Duration(p.UsageDays) * 24 * time.Hour",
				breaks: "Rows outlive the record that they were billed by, and look as if they never had been.",
			},
			mutation{
				name:   "the lock is not set",
				old:    "Metrics: p.metrics, Rules: metering.Rules{LockHours: p.LockHours}, Now: p.now, Log: p.log,",
				new:    "Metrics: p.metrics, Rules: metering.Rules{LockHours: min(p.LockHours, 1)}, Now: p.now, Log: p.log,",
				breaks: "Hours that a seller holds open for late usage are committed at once.",
			},
			mutation{
				name:   "last hours are looked for in the own Region",
				old:    "dynamodb.NewSubscribers(p.table(cmp.Or(p.SubscribersRegion, p.Region)), p.SubscribersTable)",
				new:    "dynamodb.NewSubscribers(p.table(cmp.Or(p.Region, p.SubscribersRegion)), p.SubscribersTable)",
				breaks: "Outside us-east-1 no license's last usage is flushed in time.",
			},
			mutation{
				name:   "last hours share the ordinary queue",
				old:    "Deprovision: p.send(p.DeprovisionQueue)",
				new:    "Deprovision: p.send(p.WorkQueue)",
				breaks: "The usage of a license that leaves waits behind everybody's backlog until the window is closed.",
			},
			mutation{
				name:   "the run's cap is not set",
				old:    "		MaxRecords: p.MaxRecords, Retention",
				new:    "		Retention",
				breaks: "A run takes on more than its time allows, whatever the seller has set.",
			},
		),
		in("internal/functions/variables.go", suites,
			mutation{
				name:   "a dry run is live",
				old:    "func (s Settings) dryRun() bool { return s.Mode == dryRun }",
				new:    "func (s Settings) dryRun() bool { return s.Mode == \"\" }",
				breaks: "Buyers are billed by what was meant as a trial.",
			},
			mutation{
				name:   "enabled is paused",
				old:    "set: choice(enabled, paused, func(s *Settings) *bool { return &s.Paused }),",
				new:    "set: choice(paused, enabled, func(s *Settings) *bool { return &s.Paused }),",
				breaks: "Nothing is sent, and everything expires.",
			},
		),
		in("internal/functions/environment.go", suites,
			mutation{
				name:   "a live product reads a table of test events",
				old:    "			ok = ok && (s.Mode != live || !lifecycle.AnyTestTable(value))\n",
				new:    "			ok = ok && value != \"\"\n",
				breaks: "Invented events decide which licenses are flushed and closed.",
			},
			mutation{
				name:   "records may go before their rows",
				old:    "s.AggregatedDays >= s.UsageDays+keptLonger",
				new:    "s.AggregatedDays >= s.UsageDays",
				breaks: "Rows outlive the record that they were billed by, and look as if they never had been.",
			},
		),
		in("internal/functions/handler.go", suites,
			mutation{
				name:   "a lost metric is no failure",
				old:    "	err = errors.Join(err, h.metrics.TakeErr()) // what no metric tells must not look well\n",
				new:    "",
				breaks: "A loss whose metric could not be written rings no alarm.",
			},
			mutation{
				name:   "a stage works until it is killed",
				old:    "deadline.Add(-reserve)",
				new:    "deadline.Add(reserve)",
				breaks: "Verdicts of the last calls are not written, and what is billed waits in doubt.",
			},
		),
		in("internal/lambdaevent/batch.go", packages("./internal/lambdaevent"),
			mutation{
				name:   "an event of another kind is a batch of none",
				old:    "	if len(event.Records) == 0 {\n",
				new:    "	if len(event.Records) < 0 {\n",
				breaks: "A batch that could not be read is acknowledged.",
			},
			mutation{
				name:   "failed messages are not named",
				old:    "		answer.BatchItemFailures[i].ItemIdentifier = id\n",
				new:    "		answer.BatchItemFailures[i].ItemIdentifier = id[:0]\n",
				breaks: "One failed message brings its whole batch back, and at last into the dead letters.",
			},
		),
	)
}

// metrics are what alarms watch.
func metrics() []mutation {
	suites := packages("./internal/telemetry")
	return slices.Concat(
		in("internal/telemetry/emf.go", suites,
			mutation{
				name:   "a metric is written and not declared",
				old:    "		directive.Metrics = append(directive.Metrics, emfMetric{Name: name, Unit: \"Count\"})\n",
				new:    "		if n > 1 {\n			directive.Metrics = append(directive.Metrics, emfMetric{Name: name, Unit: \"Count\"})\n		}\n",
				breaks: "CloudWatch makes no metric of a single loss, and no alarm rings.",
			},
			mutation{
				name:   "units are left out",
				old:    "	if m.Units != 0 {\n",
				new:    "	if m.Units != 0 && m.Cause == \"\" {\n",
				breaks: "How much was lost is said by nothing.",
			},
			mutation{
				name:   "alarms see no metric",
				old:    "[][]string{append([]string{}, whole...)} // an empty",
				new:    "[][]string{append(append([]string{}, whole...), mode...)} // an empty",
				breaks: "Metrics are published under a set of dimensions that no alarm watches.",
			},
			mutation{
				name:   "a metric that was not written is forgotten",
				old:    "err != nil && e.err == nil {",
				new:    "err != nil && e.err != nil {",
				breaks: "A run whose losses no metric tells ends well.",
			},
		),
		in("internal/telemetry/mask.go", suites,
			mutation{
				name:   "tokens are not masked",
				old:    "x-amzn-marketplace-token|[tT]oken)",
				new:    "[tT]okens)",
				breaks: "Whoever reads the log can register as a buyer and use what they pay for.",
			},
		),
		in("internal/telemetry/counters.go", suites,
			mutation{
				name:   "units are not added up",
				old:    "return Count{n.Items + m.Items, n.Units + m.Units} }",
				new:    "return Count{n.Items + m.Items, m.Units} }",
				breaks: "On one machine a loss is shown with the units of its last part alone.",
			},
		),
	)
}
