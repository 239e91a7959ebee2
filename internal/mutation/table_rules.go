package main

import "slices"

func quantityRules() []mutation {
	return slices.Concat(
		in("internal/metering/quantity.go", rules(),
			mutation{
				name:   "a fraction is cut to its numerator",
				old:    `if reason != "" || !r.IsInt() || !r.Num().IsInt64() {`,
				new:    `if reason != "" || !r.Num().IsInt64() {`,
				breaks: "A quantity of 2.5 is billed as 5 units.",
			},
			mutation{
				name: "a text is a number",
				old: `	n, ok := v.(json.Number)
	if !ok {
		return Quantity{}, false
	}
	if i,`,
				new: `	n, ok := v.(json.Number)
	if s, isText := v.(string); isText {
		n, ok = json.Number(s), true
	}
	if !ok {
		return Quantity{}, false
	}
	if i,`,
				breaks: "A writer's mistake is billed as if it were meant, since the text \"7\" is coerced to seven units.",
			},
			mutation{
				name:   "the largest quantity is not checked",
				old:    "case n > MaxQuantity:",
				new:    "case n > maxCountable:",
				breaks: "A row of more than the API takes is committed, and its call is refused with all records beside it.",
			},
		),
		in("internal/metering/hour.go", rules(),
			mutation{
				name:   "the full hour belongs to the hour before",
				old:    "h := s / secondsPerHour\n",
				new:    "h := (s - 1) / secondsPerHour\n",
				breaks: "Usage of 14:00:00 is billed in the hour of 13, which is committed already: it is lost as late.",
			},
		),
		in("internal/metering/key.go", rules(),
			mutation{
				name:   "a group takes rows of a longer dimension",
				old:    "k.Account == g.Account && k.Dimension == g.Dimension && k.Second.Hour() == g.Hour",
				new:    "k.Account == g.Account && k.Second.Hour() == g.Hour",
				breaks: "Usage of the dimension api#2026-03-10T14 is summed into api as well, and billed twice.",
			},
		),
		in("internal/metering/allocation.go", rules(),
			mutation{
				name:   "allocations need not add up",
				old:    "if len(list) > 0 && sum != quantity {",
				new:    "if len(list) > 0 && sum > quantity {",
				breaks: "A record whose allocations fall short is sent, and its call is refused with all records beside it.",
			},
			mutation{
				name:   "merged allocations keep the last part",
				old:    "set.Quantity += a.Quantity",
				new:    "set.Quantity = a.Quantity",
				breaks: "Two rows with the same tags become an allocation of the second one alone, which no longer adds up: the call is refused.",
			},
		),
	)
}

func commitRules() []mutation {
	return slices.Concat(
		in("internal/metering/fold.go", rules(),
			mutation{
				name:   "rejected rows are not folded",
				old:    `if !ours || r.Dropped || r.Pending == "" && r.Status != RejectedClientSide {`,
				new:    `if !ours || r.Dropped || r.Pending == "" {`,
				breaks: "Of a group that was rejected only the mended row is billed, and its hour is taken for all others.",
			},
			mutation{
				name:   "dropped rows are folded",
				old:    `if !ours || r.Dropped || r.Pending == "" && r.Status != RejectedClientSide {`,
				new:    `if !ours || r.Pending == "" && r.Status != RejectedClientSide {`,
				breaks: "Usage that an operator has taken out of the hour is billed all the same.",
			},
			mutation{
				name:   "a bad row is left out of the sum",
				old:    "f.refuse(r.Validate(f.now))\n",
				new:    "if r.Validate(f.now) != \"\" {\n\t\treturn\n\t}\n",
				breaks: "The hour is committed without the bad row, and what it holds can never be billed once it is mended.",
			},
			mutation{
				name:   "the sum is not checked",
				old:    "if f.sum > MaxQuantity {",
				new:    "if f.sum > maxCountable {",
				breaks: "A sum beyond what the API takes is committed and refused for ever, with the hour locked.",
			},
			mutation{
				name:   "the stored size is not checked",
				old:    "if rec.storedSize() > maxStored || callEnvelope",
				new:    "if callEnvelope",
				breaks: "A group too large for the table fails at each delivery and ends in the dead letters instead of being named.",
			},
			mutation{
				name:   "tagged and untagged usage is mixed",
				old:    "if f.allocated && f.unallocated {",
				new:    "if f.allocated && f.unallocated && len(f.rows) == 0 {",
				breaks: "The record's allocations do not add up to its quantity, and its call is refused with all records beside it.",
			},
			mutation{
				name:   "two customers are one group",
				old:    "} else if f.identifier != r.CustomerIdentifier {",
				new:    "} else if f.identifier == \"\" && r.CustomerIdentifier != \"\" {",
				breaks: "Usage of one customer is billed to another.",
			},
			mutation{
				name:   "rejection forgets the fingerprint",
				old:    "Quantity: r.quantity.pointer(), Fingerprint: r.fingerprint.String()})",
				new:    "Quantity: r.quantity.pointer()})",
				breaks: "A row that its seller has mended meanwhile is stamped with the old fault and drops out of the index.",
			},
		),
		in("internal/metering/manifest.go", rules(),
			mutation{
				name:   "a second is covered by the next one",
				old:    "if i == len(m.entries) || m.entries[i].offset != offset {",
				new:    "if i == len(m.entries) {",
				breaks: "A row that came late is taken for one that was billed, and its units vanish.",
			},
			mutation{
				name:   "a manifest is read without its sum",
				old:    "if fields[0] != strconv.Itoa(m.Count()) || fields[1] != strconv.FormatInt(m.Sum(), 10) {",
				new:    "if fields[0] != strconv.Itoa(m.Count()) {",
				breaks: "A damaged manifest is believed, and billed usage is labelled late or late usage billed.",
			},
			mutation{
				name:   "the first covered second may be a zero",
				old:    "if e.quantity > 0 {",
				new:    "if e.quantity >= 0 {",
				breaks: "A buyer's first hour is sent once more with a second before the license began, and refused for good.",
			},
		),
	)
}

func labelRules() []mutation {
	return slices.Concat(
		in("internal/metering/coverage.go", rules(),
			mutation{
				name:   "all of a grown row is late",
				old:    "LateUsage, Units(q-committed)",
				new:    "LateUsage, Units(q)",
				breaks: "Units that are billed are named as late too, and an operator who carries them bills them twice.",
			},
			mutation{
				name:   "a shrunken row is as committed",
				old:    "case known && q == committed:",
				new:    "case known && q <= committed:",
				breaks: "That a buyer was billed for more than the row now holds is said by nothing.",
			},
			mutation{
				name:   "a covered row needs no equal quantity",
				old:    "case known && q == committed:",
				new:    "case known && q >= committed:",
				breaks: "What a writer added after the commit is labelled as billed, and is not.",
			},
			mutation{
				name:   "an uncovered row is aggregated",
				old:    "return LateUsage, \"\"",
				new:    "return Aggregated, \"\"",
				breaks: "Usage that came after its hour was committed is labelled as billed, and vanishes.",
			},
			mutation{
				name:   "an uncovered row is not checked",
				old:    "if reason := r.Validate(now); reason != \"\" {",
				new:    "if reason := r.Validate(now); reason != \"\" && !r.Quantity.Whole {",
				breaks: "Usage that could never be billed is named as late, and is carried into another hour as if it could.",
			},
		),
		in("internal/metering/row.go", rules(),
			mutation{
				name:   "a label ignores the quantity",
				old:    "return r.Quantity == l.Quantity && l.Quantity.Whole",
				new:    "return l.Quantity.Whole",
				breaks: "A row that grew between commit and cleanup loses its marker, and the growth is never billed or named.",
				tests:  rulesAnd("./internal/store/memory"),
			},
			mutation{
				name:   "a label ignores what was judged",
				old:    "return r.Fingerprint() == l.Fingerprint",
				new:    "return l.Fingerprint != \"\"",
				breaks: "A row that its seller has just mended is stamped with the old fault and is not billed.",
				tests:  rulesAnd("./internal/store/memory"),
			},
			mutation{
				name:   "a label needs no marker",
				old:    `if l.Marker && r.Pending == "" {`,
				new:    `if l.Marker && r.Pending == "" && r.Status == "" {`,
				breaks: "A delayed label takes a billed row's status away: what is billed looks late or rejected.",
				tests:  rulesAnd("./internal/store/memory"),
			},
			mutation{
				name:   "the quantity is not part of what was judged",
				old:    "	f.quantity(r.Quantity)\n",
				new:    "",
				breaks: "A late row that grows before its label is written is named with the old units, and the rest with none.",
			},
			mutation{
				name:   "the timestamp may contradict the key",
				old:    "if at != key.Second {",
				new:    "if at.Hour() != key.Second.Hour() && r.Pending == \"\" {",
				breaks: "Usage is billed in the hour of its key although the row says that it was used in another.",
			},
		),
		in("internal/metering/message.go", rules(),
			mutation{
				name:   "the last part of a label is forgotten",
				old:    "for i := 0; i < len(rows); i += MaxCleanupRows {",
				new:    "for i := 0; i+MaxCleanupRows <= len(rows); i += MaxCleanupRows {",
				breaks: "Rows of a rejected or expired group stay without a name until somebody visits them again, and their units uncounted.",
				tests:  rulesAnd("./internal/pipeline"),
			},
			mutation{
				name:   "every message counts its group",
				old:    "part.First = i == 0",
				new:    "part.First = true",
				breaks: "A rejected group of 3,600 rows is counted as 36 groups.",
				tests:  rulesAnd("./internal/pipeline"),
			},
		),
		in("internal/metering/flush.go", rules(),
			mutation{
				name:   "a flush replaces the quantity",
				old:    "held.Quantity = Units(old.Quantity.N + f.Quantity)",
				new:    "held.Quantity = Units(f.Quantity)",
				breaks: "Of two flushes into one row only the second is billed.",
			},
			mutation{
				name:   "a flush leaves no token",
				old:    "r.Flushes = append(slices.Clip(r.Flushes), f.Token)",
				new:    "r.Flushes = slices.Clip(r.Flushes)",
				breaks: "A flush whose answer was lost is sent again and added twice.",
			},
			mutation{
				name:   "a flush does not set the marker again",
				old:    "held.Account, held.Dimension, held.Timestamp, held.Pending = r.Account, r.Dimension, r.Timestamp, r.Pending",
				new:    "held.Account, held.Dimension, held.Timestamp = r.Account, r.Dimension, r.Timestamp",
				breaks: "What is added to a row after its hour was committed is found by no stage, and is neither billed nor named.",
			},
			mutation{
				name:   "a row of untagged usage takes tagged usage",
				old:    "case odd, f.Quantity > 0 && held.N > 0 && tagged != (len(f.Allocations) > 0):",
				new:    "case odd, f.Quantity > 0 && held.N > 0 && tagged && len(f.Allocations) == 0:",
				breaks: "The row's allocations no longer add up, and its whole group is rejected.",
			},
			mutation{
				name:   "a flush may exceed the largest quantity",
				old:    "case held.N+f.Quantity > MaxQuantity:",
				new:    "case held.N > MaxQuantity:",
				breaks: "A writer hears that its usage was taken, and the group is rejected for its sum.",
			},
		),
	)
}
