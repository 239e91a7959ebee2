package main

import "slices"

func recordRules() []mutation {
	return slices.Concat(
		in("internal/metering/record.go", rules(),
			mutation{
				name:   "a record is marked as sent whatever it holds",
				old:    `return r.Pending != "" && r.Fingerprint() == s.Fingerprint }`,
				new:    `return r.Pending != "" && s.Fingerprint != "" }`,
				breaks: "A record that changed since it was read is marked with a quantity that it no longer holds, and the old one is billed.",
				tests:  rulesAnd("./internal/store/memory"),
			},
			mutation{
				name:   "an ended record is ended again",
				old:    `if f.Pending && r.Pending == "" || f.Unbilled && r.Status == Success {`,
				new:    `if f.Unbilled && r.Status == Success {`,
				breaks: "A late verdict takes the place of the first one, so that a refused record shows another cause than the true one.",
				tests:  rulesAnd("./internal/store/memory"),
			},
			mutation{
				name:   "a refusal takes Success away",
				old:    `if f.Pending && r.Pending == "" || f.Unbilled && r.Status == Success {`,
				new:    `if f.Pending && r.Pending == "" {`,
				breaks: "What is billed is booked as refused, offered again and billed twice.",
				tests:  rulesAnd("./internal/store/memory"),
			},
			mutation{
				name:   "Success ignores the quantity",
				old:    "return r.Quantity == f.Quantity && f.Quantity.Whole",
				new:    "return f.Quantity.Whole",
				breaks: "A record that changed while it was sent is booked as billed with a quantity that nobody was charged for.",
				tests:  rulesAnd("./internal/store/memory"),
			},
			mutation{
				name:   "an unreadable manifest covers nothing",
				old:    `return Manifest{}, errors.New("read manifest: it is no text")`,
				new:    `return Manifest{}, errors.Join()`,
				breaks: "All rows of a billed group are labelled as late, and are billed twice when they are carried.",
			},
			mutation{
				name:   "a finish forgets the billed quantity",
				old:    "	r.BilledQuantity = f.BilledQuantity\n",
				new:    "",
				breaks: "The books show a quantity that was changed after it was billed, not the one that the buyer pays.",
				tests:  rulesAnd("./internal/store/memory"),
			},
		),
		in("internal/metering/verdict.go", rules(),
			mutation{
				name:   "refused records are deleted in time",
				old:    "Status: v.Status, Reason: v.Reason, MeteringRecordID: v.RecordID, At: now,",
				new:    "Status: v.Status, Reason: v.Reason, MeteringRecordID: v.RecordID, TTL: expiryOf(ttl, now), At: now,",
				breaks: "The only trace of money that was not earned goes before anybody has looked at it.",
			},
			mutation{
				name:   "Success waits for a marker",
				old:    `f.Pending, f.Fingerprint, f.Quantity = false, "", v.Record.Quantity`,
				new:    `f.Fingerprint, f.Quantity = "", v.Record.Quantity`,
				breaks: "A record that another run has ended as expired stays so although it was billed.",
			},
			mutation{
				name:   "a changed record is billed as it stands",
				old:    "Status: Success, MeteringRecordID: v.RecordID, BilledQuantity: differing(v.Sent.Quantity, current.Quantity),",
				new:    "Status: Success, MeteringRecordID: v.RecordID,",
				breaks: "The books show the quantity that the seller wrote after the call, not the one that the buyer pays.",
			},
			mutation{
				name:   "a refused change is counted as nothing",
				old:    "return f, max(0, q-billed.N), true",
				new:    "return f, min(0, q-billed.N), true",
				breaks: "Units that a seller adds to a billed record are refused, and no metric and no alarm says so.",
				tests:  rulesAnd("./internal/pipeline"),
			},
			mutation{
				name:   "doubt is forgotten at expiry",
				old:    "	if r.SentQuantity.Whole {\n		f.Reason = VerdictUnknown",
				new:    "	if r.SentQuantity.Whole && r.SentQuantity != r.Quantity {\n		f.Reason = VerdictUnknown",
				breaks: "A record that may be billed is named as lost, entered again by hand and billed twice.",
			},
			mutation{
				name:   "an expired record may be a billed one",
				old:    "License: r.License, SortKey: r.SortKey, Pending: true, Unbilled: true, Fingerprint: r.Fingerprint(),\n		Status: SubmissionExpired,",
				new:    "License: r.License, SortKey: r.SortKey, Fingerprint: r.Fingerprint(),\n		Status: SubmissionExpired,",
				breaks: "A record that another run bills at that moment is booked as expired.",
			},
		),
		in("internal/metering/reopen.go", rules(),
			mutation{
				name:   "a second of a sale may be reopened",
				old:    "return ObstacleTwin // the twin has ended by now",
				new:    "return \"\" // the twin has ended by now",
				breaks: "A sale that goes by another record is sent once more and billed twice.",
			},
			mutation{
				name:   "a duplicate may be reopened",
				old:    "		return ObstacleTaken\n",
				new:    "		return \"\"\n",
				breaks: "A record whose hour is taken is sent again and again, and its name as refused is lost.",
			},
			mutation{
				name:   "a reopened record keeps its mark",
				old:    "	r.SentQuantity, r.SentSecond = Quantity{}, \"\"\n",
				new:    "",
				breaks: "A record that was refused counts as perhaps billed for ever, and a second refusal never ends it.",
			},
			mutation{
				name:   "reopening ignores what was judged",
				old:    " && r.StatusReason == x.Reason && r.Fingerprint() == x.Fingerprint",
				new:    " && r.StatusReason == x.Reason",
				breaks: "A record that its seller changed meanwhile is sent with usage that nobody has looked at.",
			},
			mutation{
				name:   "a billed sale looks free",
				old:    "	return true\n}\n\n// Reopen is one",
				new:    "	return r.Status != Success\n}\n\n// Reopen is one",
				breaks: "A sale that is billed by customer identifier is reopened by license and billed twice.",
			},
			mutation{
				name:   "an hour that is over may be reopened",
				old:    "case !rules.Billable(g.Hour, now):",
				new:    "case !rules.Billable(g.Hour, now) && now.IsZero():",
				breaks: "The name of a lost record is taken from it although its hour can no longer be billed.",
			},
		),
	)
}

func callRules() []mutation {
	return in("internal/metering/call.go", rules(),
		mutation{
			name: "results are matched by position",
			old: `	for _, res := range a.Results {
		e := echoOf(res.Usage)
		r, ours := open[e]
`,
			new: `	for i, res := range a.Results {
		r, ours := sent[min(i, len(sent)-1)], i < len(sent)
		e := echoOf(r.Usage())
`,
			breaks: "The service answers in any order, and the refusal of one buyer's record is booked on another's.",
		},
		mutation{
			name:   "results are matched without their quantity",
			old:    "return echo{u.Identity(), u.Second, u.Quantity}",
			new:    "return echo{u.Identity(), u.Second, 0}",
			breaks: "A verdict on another quantity than ours is taken for the verdict on ours.",
		},
		mutation{
			name:   "any status is a verdict",
			old:    "if !ours || res.Status != Success && res.Status != DuplicateRecord && res.Status != CustomerNotSubscribed {",
			new:    "if !ours {",
			breaks: "A record ends with a status that nobody knows, and its units are in no place.",
		},
		mutation{
			name:   "the unprocessed are settled",
			old:    "		if r, ours := open[e]; ours {\n			left = append(left, r)",
			new:    "		if r, ours := open[e]; ours {\n			verdicts = append(verdicts, Verdict{Record: r, Sent: u, Status: Success})",
			breaks: "Records that the service left unprocessed are booked as billed and never sent again.",
		},
		mutation{
			name:   "calls are packed by count alone",
			old:    "if len(p.records) == MaxCallRecords || len(p.records) > 0 && callEnvelope+p.size+size >= maxCallBytes {",
			new:    "if len(p.records) == MaxCallRecords {",
			breaks: "Twenty-five large records make a call of more than 1 MB, which is refused as a whole.",
		},
		mutation{
			name:   "calls take a record too many",
			old:    "if len(p.records) == MaxCallRecords ||",
			new:    "if len(p.records) > MaxCallRecords ||",
			breaks: "A call of 26 records is refused as a whole.",
		},
		mutation{
			name:   "a resend carries the changed quantity",
			old:    "if r.SentQuantity.Whole && r.SentQuantity != r.Quantity {",
			new:    "if r.SentQuantity.Whole && r.SentQuantity.N > r.Quantity.N {",
			breaks: "A record that may be billed is sent with another quantity: what is answered is no word on the first call.",
		},
		mutation{
			name:   "a resend forgets the second",
			old:    "if s, err := ParseSecond(r.SentSecond); err == nil {",
			new:    "if s, err := ParseSecond(r.SentSecond); err == nil && s.Hour() != u.Second.Hour() {",
			breaks: "The record of a buyer's first hour is sent at the hour's start again, where it is refused.",
		},
		mutation{
			name:   "a call's size is taken without names",
			old:    "size += len(`{\"Key\":,\"Value\":},`) + jsonSize(t.Key) + jsonSize(t.Value)",
			new:    "size += jsonSize(t.Value)",
			breaks: "A call of tagged records exceeds 1 MB and is refused as a whole.",
		},
	)
}

func buyerRules() []mutation {
	return in("internal/metering/subscriber.go", rules(),
		mutation{
			name:   "an older License Updated wins",
			old:    "		s.name(e, s.Updated)\n		if e.At.Before(s.Updated) {\n",
			new:    "		s.name(e, s.Updated)\n		if e.At.IsZero() {\n",
			breaks: "A delayed event brings an ended license back, or takes a bought one's activation away.",
		},
		mutation{
			name:       "an older License Deprovisioned wins",
			old:        "		if e.At.Before(s.Updated) {\n			return\n		}\n		s.Deprovisioned",
			new:        "		if e.At.IsZero() {\n			return\n		}\n		s.Deprovisioned",
			breaks:     "A license that was bought again is treated as one in its last hour, and its hour in progress is committed early.",
			equivalent: "settle drops every Deprovisioned that is older than the latest Updated, so that one has no effect: the return only saves the work.",
		},
		mutation{
			name:   "Updated beats Deprovisioned at equal times",
			old:    "return at.Before(s.Updated) })",
			new:    "return !at.After(s.Updated) })",
			breaks: "A license that is deprovisioned in the second of its last update has no last hour, and what it used in it is refused.",
		},
		mutation{
			name:   "a repeat moves the last hour's end later",
			old:    "first := s.Deprovisioned[0]",
			new:    "first := s.Deprovisioned[len(s.Deprovisioned)-1]",
			breaks: "The last usage of a license is flushed when its window has closed already.",
		},
		mutation{
			name:   "the last hour ends before its time",
			old:    "if !s.Expiry.IsZero() && !s.Expiry.After(now) {",
			new:    "if !s.Expiry.IsZero() {",
			breaks: "A license loses its last hour as soon as the finalizer runs: its usage is no longer flushed and is refused.",
		},
		mutation{
			name:   "the last hour is two hours long",
			old:    "s.Status, s.StatusAt, s.Expiry = LifecycleDeprovisioning, first, first.Add(DeprovisionWindow)",
			new:    "s.Status, s.StatusAt, s.Expiry = LifecycleDeprovisioning, first, first.Add(2*DeprovisionWindow)",
			breaks: "The hour in progress is flushed an hour after the Marketplace has closed the license.",
		},
		mutation{
			name:   "a repeat reopens a last hour that is over",
			old:    "if s.Status == LifecycleInactive && !first.After(s.StatusAt) {",
			new:    "if s.Status == LifecycleInactive && first.Before(s.StatusAt) {",
			breaks: "A license that has ended is flushed again at each repeat of the event, ahead of those that can still be billed.",
		},
	)
}
