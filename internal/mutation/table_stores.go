package main

import "slices"

// dynamodbSuites are the adapter's own tests first, then some of the contract on one stand-in: the whole of it on two takes a minute.
func dynamodbSuites() []suite {
	const pkg = "./internal/store/dynamodb"
	list := quick(pkg, "TestContract", "TestLifecycleContract")
	return slices.Insert(list, 1, suite{pkg: pkg, run: "^TestContract$/^dynalite$/^(rows|labels|records|flushes)$"})
}

func dynamodbTables() []mutation {
	return slices.Concat(
		in("internal/store/dynamodb/table.go", dynamodbSuites(),
			mutation{
				name:   "the commit has no condition",
				old:    "	if absent {\n",
				new:    "	if absent && len(item) == 0 {\n",
				breaks: "A second visit replaces the record that is being billed, and its hour is sent with two quantities.",
			},
			mutation{
				name:   "an item is read from any replica",
				old:    "TableName: &t.name, Key: t.key(license, sortKey), ConsistentRead: aws.Bool(true),",
				new:    "TableName: &t.name, Key: t.key(license, sortKey), ConsistentRead: aws.Bool(len(sortKey) == 0),",
				breaks: "A record that was just created is not seen, and its hour is summed once more with what came since.",
			},
			mutation{
				name:   "only the first page is read",
				old:    "return items, cursor, true, t.wrap(operation, err)",
				new:    "return items, cursor, false, t.wrap(operation, err)",
				breaks: "Of a large group or bucket only the first megabyte is billed, and the hour is locked.",
			},
			mutation{
				name:   "an empty page ends the read",
				old:    "	if len(last) == 0 {\n		return items",
				new:    "	if len(last) == 0 || len(items) == 0 {\n		return items",
				breaks: "A page on which nothing was found hides all that stands behind it.",
			},
			mutation{
				name:   "a judged change is made without its condition",
				old:    "	if len(c.where) > 0 {\n",
				new:    "	if len(c.where) > 0 && len(c.adds) > 0 {\n",
				breaks: "Labels and verdicts are written over whatever stands there by then.",
			},
			mutation{
				name:   "a refused condition counts as written",
				old:    "	if errors.As(err, &failed) {\n		return false, nil\n	}",
				new:    "	if errors.As(err, &failed) {\n		return true, nil\n	}",
				breaks: "A buyer who registers again is told that all is well, and nothing of it is kept.",
			},
		),
		in("internal/store/dynamodb/rows.go", dynamodbSuites(),
			mutation{
				name:   "a group is read from any replica",
				old:    "	return query(ctx, r.table, \"read a group's rows\", dynamodb.QueryInput{\n		ConsistentRead:            aws.Bool(true),\n",
				new:    "	return query(ctx, r.table, \"read a group's rows\", dynamodb.QueryInput{\n",
				breaks: "A row that was written a moment before the commit is left out of the sum, and is late for ever.",
			},
			mutation{
				name:   "the last hours read every license",
				old:    `in.KeyConditionExpression = aws.String("#bucket = :bucket AND #license = :license")`,
				new:    `in.KeyConditionExpression = aws.String("#bucket = :bucket AND #license <= :license")`,
				breaks: "With one license that leaves, the hour in progress of others is committed early, and what they use in it is late.",
			},
		),
		in("internal/store/dynamodb/change.go", dynamodbSuites(),
			mutation{
				name:   "a label may make an item",
				old:    "	c.need(\"attribute_exists(\" + c.name(t.sortKey) + \")\")\n",
				new:    "",
				breaks: "A row that its seller deleted comes back as a ghost with a status and no quantity.",
			},
			mutation{
				name:   "what was absent may have come",
				old:    "			c.absent(attribute)\n		}\n	}\n}\n\n// setQuantity",
				new:    "			continue\n		}\n	}\n}\n\n// setQuantity",
				breaks: "A verdict is written although an attribute that it rests on was added since.",
			},
		),
		in("internal/store/dynamodb/labels.go", dynamodbSuites(),
			mutation{
				name:   "cleanup ignores the quantity",
				old:    "	c.equals(metering.AttrQuantity, numberOf(l.Quantity.N))\n",
				new:    "",
				breaks: "A row that grew after its commit loses its marker and is stamped as billed: the growth vanishes.",
			},
			mutation{
				name:   "a label needs no marker",
				old:    "	if l.Marker {\n		c.exists(metering.AttrPending)\n	}\n",
				new:    "",
				breaks: "A delayed label is written over the status that the row has by then.",
			},
			mutation{
				name:   "a judged label does not ask what changed",
				old:    "	c.unchanged(item, rowJudgement()...)\n",
				new:    "",
				breaks: "A row that its seller mends in that moment is stamped with the old fault and is never billed.",
			},
			mutation{
				name:   "a judged label does not ask for recalls",
				old:    "		c.grown(metering.AttrRecalled, len(trace.Value))\n	} else {\n		c.unchanged(item, metering.AttrRecalled)\n	}\n",
				new:    "		_ = trace\n	}\n",
				breaks: "A row that an operator lets wait again in that moment is rejected by a message of before.",
			},
			mutation{
				name:   "the marker stays",
				old:    "	c.remove(metering.AttrPending)\n",
				new:    "",
				breaks: "What is done waits for ever, and is visited and counted at every run.",
			},
			mutation{
				name:   "a bucket is mended whatever it is",
				old:    "		quick.equals(metering.AttrPending, text(b.From))\n",
				new:    "		quick.name(metering.AttrPending)\n",
				breaks: "A row that is billed meanwhile gets its marker back and is called late or expired.",
			},
		),
		in("internal/store/dynamodb/records.go", dynamodbSuites(),
			mutation{
				name:   "Success ignores the quantity",
				old:    "	c.equals(metering.AttrQuantity, numberOf(f.Quantity.N))\n",
				new:    "",
				breaks: "A record that its seller changed while it was sent is booked as billed with the new quantity.",
			},
			mutation{
				name:   "a verdict may replace Success",
				old:    "	if f.Unbilled {\n",
				new:    "	if f.Unbilled && f.Pending {\n",
				breaks: "A late refusal takes the place of Success: what is billed is offered again.",
			},
			mutation{
				name:   "a verdict does not ask what changed",
				old:    "		c.unchanged(item, recordJudgement()...)\n",
				new:    "",
				breaks: "A record is rejected although it was billed or mended in that moment.",
			},
			mutation{
				name:   "the mark forgets the second",
				old:    "		c.set(metering.AttrSentSecond, text(s.Second.String()))\n",
				new:    "",
				breaks: "A record of a buyer's first hour is sent again at the hour's start, and refused.",
			},
		),
		in("internal/store/dynamodb/flush.go", dynamodbSuites(),
			mutation{
				name:   "a flush is added twice",
				old:    `" AND NOT contains("+flushes+", "+token+"))")`,
				new:    `" AND "+flushes+" <> "+token+")")`,
				breaks: "A flush whose answer was lost is added once more, and billed twice.",
			},
			mutation{
				name:   "a flush leaves no token",
				old:    "	c.add(metering.AttrFlushes, setOf([]string{f.Token}))\n",
				new:    "",
				breaks: "Nothing tells a flush that is sent again from a new one: it is billed twice.",
			},
			mutation{
				name:   "a flush does not set the marker",
				old:    "	c.set(metering.AttrPending, text(row.Pending))\n",
				new:    "",
				breaks: "The row is found by no stage, and its usage is never billed.",
			},
			mutation{
				name:   "a dropped row takes a flush",
				old:    "	c.absent(metering.AttrDropped)\n",
				new:    "",
				breaks: "The writer is told that its usage is written, into a row that takes part in no sum: it is never billed.",
			},
			mutation{
				name:   "an uncommon row is flushed without a condition",
				old:    "	c.unchanged(old, metering.AttrQuantity, metering.AttrFlushes, metering.AttrAllocations, metering.AttrCustomerIdentifier, metering.AttrDropped)\n",
				new:    "",
				breaks: "Of two writers at once one replaces the other's quantity, which is lost.",
			},
		),
		in("internal/store/dynamodb/batch.go", dynamodbSuites(),
			mutation{
				name:   "what a batch leaves is forgotten",
				old:    "if left = out.UnprocessedItems[t.name]; len(left) == 0 {",
				new:    "if left = out.UnprocessedItems[t.name]; len(left) < batchSize {",
				breaks: "Rows that the service did not take under load are reported as written.",
			},
		),
		in("internal/store/dynamodb/subscribers.go", dynamodbSuites(),
			mutation{
				name:   "a subscriber is written over another's change",
				old:    "		c.unchanged(old, subscriberAttributes()...)\n",
				new:    "",
				breaks: "Of two events at once one is lost, which may be the one that opens a license's last hour.",
			},
			mutation{
				name:   "an unreadable last hour hides the others",
				old:    "			odd = append(odd, err)\n",
				new:    "			odd = append(odd, err)\n			break\n",
				breaks: "One item that cannot be read costs other licenses their last hour.",
			},
		),
		in("internal/store/dynamodb/ledger.go", dynamodbSuites(),
			mutation{
				name:   "the ledger lists the usage table alone",
				old:    "		for _, in := range found {\n",
				new:    "		for _, in := range found[:1] {\n",
				breaks: "The books leave out what a seller submits directly, and balance all the same.",
			},
		),
		in("internal/store/dynamodb/redrive.go", dynamodbSuites(),
			mutation{
				name:   "a record is reopened twice",
				old:    "attribute, \"L\") + \" AND size(\" + c.name(attribute) + \") = \" + c.value(numberOf(int64(times)))",
				new:    "attribute, \"L\") + \" AND size(\" + c.name(attribute) + \") >= \" + c.value(numberOf(int64(times)))",
				breaks: "The trace of a reopening is overwritten by another's that ran at the same time.",
			},
		),
	)
}

func sqliteTables() []mutation {
	suites := quick("./internal/store/sqlite", "TestContract")
	return slices.Concat(
		in("internal/store/sqlite/records.go", suites,
			mutation{
				name:   "the commit has no condition",
				old:    "		if err != nil || old != nil {\n",
				new:    "		if err != nil {\n",
				breaks: "A second visit replaces the record that is being billed.",
			},
			mutation{
				name:   "a verdict is not written",
				old:    "store.CheckRecord, func(r metering.Record) error { return tx.putRecord(store.NormalRecord(r)) })",
				new:    "store.CheckRecord, func(r metering.Record) error { return store.CheckRecord(&r) })",
				breaks: "A billed record waits for ever and is named as expired when its hour is over.",
			},
		),
		in("internal/store/sqlite/rows.go", suites,
			mutation{
				name:   "cleanup takes a grown row",
				old:    "WHERE series = ? AND tail = ? AND quantity = ? AND odd IS NULL",
				new:    "WHERE series = ? AND tail = ? AND quantity >= ? AND odd IS NULL",
				breaks: "A row that grew after its commit loses its marker and is stamped as billed: the growth vanishes.",
			},
			mutation{
				name:   "cleanup does not look at odd attributes",
				old:    "AND quantity = ? AND odd IS NULL AND (pending",
				new:    "AND quantity = ? AND (pending",
				breaks: "A row with an attribute of the wrong type is labelled unseen, and its odd status stays beside the new one.",
			},
			mutation{
				name:   "a label needs no marker",
				old:    "AND (pending IS NOT NULL OR NOT ?)",
				new:    "AND (pending IS NOT NULL OR NOT ? OR label IS NOT NULL)",
				breaks: "A delayed label is written over the status that the row has by then.",
			},
			mutation{
				name:   "conditions are not asked",
				old:    "	if !holds(*old) {\n",
				new:    "	if holds == nil {\n",
				breaks: "Labels and verdicts are written over whatever stands there by then.",
			},
			mutation{
				name:   "a flush is added twice",
				old:    "	if f.Shows(*old) || f.Refused(old) != nil {\n",
				new:    "	if f.Refused(old) != nil {\n",
				breaks: "A flush whose answer was lost is added once more, and billed twice.",
			},
			mutation{
				name:   "a group ends an hour late",
				old:    "first, end := int64(g.Hour.Second(0)), int64((g.Hour + 1).Second(0))",
				new:    "first, end := int64(g.Hour.Second(0)), int64((g.Hour + 2).Second(0))",
				breaks: "A visit reads the rows of the next hour too, and only the key's own check keeps them from being billed twice.",
			},
			mutation{
				name:   "a group begins a second late",
				old:    "		from := first - 1\n",
				new:    "		from := first\n",
				breaks: "Usage of the first second of each hour is never billed.",
			},
		),
		in("internal/store/sqlite/pages.go", suites,
			mutation{
				name:   "only the first page is read",
				old:    "return p.items, p.last, p.full, err // full",
				new:    "return p.items, p.last, false, err // full",
				breaks: "Of a large group or bucket only the first page is billed, and the hour is locked.",
			},
			mutation{
				name:   "a page begins at its tail in any series",
				old:    "AND (series, tail) > (?, ?) ORDER BY series, tail",
				new:    "AND series > ? AND tail > ? ORDER BY series, tail",
				breaks: "The pending index passes over the rest of a series at each page's end: its usage expires.",
			},
		),
		in("internal/store/sqlite/subscribers.go", suites,
			mutation{
				name:   "a change is not written",
				old:    "return tx.putItem(putSubscriber, after.Item())",
				new:    "return store.CheckSubscriber(after.License, after.Account)",
				breaks: "The event that opens a license's last hour is acknowledged and has no effect.",
			},
		),
		in("internal/store/sqlite/ledger.go", suites,
			mutation{
				name:   "the ledger lists the usage table alone",
				old:    "(EXISTS (SELECT 1 FROM usage_row WHERE series = s.id) OR EXISTS (SELECT 1 FROM usage_record WHERE series = s.id))",
				new:    "(EXISTS (SELECT 1 FROM usage_row WHERE series = s.id))",
				breaks: "The books leave out licenses of which only records are left, and balance all the same.",
			},
		),
	)
}

func queues() []mutation {
	return slices.Concat(
		in("internal/queue/sqs/send.go", quick("./internal/queue/sqs", "TestContract"),
			mutation{
				name:   "failed entries count as taken",
				old:    "*e = state{settled: f.SenderFault, code: aws.ToString(f.Code), message: aws.ToString(f.Message)}",
				new:    "e.code, e.message = aws.ToString(f.Code), aws.ToString(f.Message)\n			e.taken, e.settled = true, true",
				breaks: "A group that the queue refused is reported as sent, and nobody visits it until the next run.",
			},
			mutation{
				name:   "entries that are not named count as taken",
				old:    "		if s.taken {\n			continue",
				new:    "		if s.taken || s.code == \"NotNamed\" {\n			continue",
				breaks: "What the answer says nothing of is reported as sent.",
			},
			mutation{
				name:   "failed entries are not sent again",
				old:    "	if waits(states) && q.sleep(",
				new:    "	if waits(states) && len(bodies) == 0 && q.sleep(",
				breaks: "A short trouble of the queue costs a group a whole round, which in a license's last hour is the last one.",
			},
			mutation{
				name:   "the second answer counts for every entry",
				old:    "		if states[i].settled {\n			continue\n		}\n		in.Entries",
				new:    "		if states[i].settled && !states[i].taken {\n			continue\n		}\n		in.Entries",
				breaks: "Entries that were taken are sent once more at each partial failure: every group is visited twice.",
			},
		),
		in("internal/queue/memory/queue.go", packages("./internal/queue/memory"),
			mutation{
				name:   "failed messages are deleted",
				old:    "		handled[id] = false\n",
				new:    "		handled[id] = len(id) > 0\n",
				breaks: "A visit or a label that failed is never tried again.",
			},
			mutation{
				name:   "an answer that names strangers is believed",
				old:    "		if _, ours := handled[id]; !ours {\n			return len(deliveries)\n		}\n",
				new:    "",
				breaks: "A stage that answers in the wrong form loses the messages that it failed on.",
			},
			mutation{
				name:   "a message that fails too often is dropped",
				old:    "			q.opts.DeadLetters.take(m.body, m.sentAt, now, q)\n",
				new:    "",
				breaks: "Work that fails for good leaves no trace that an alarm could ring for.",
			},
		),
	)
}
