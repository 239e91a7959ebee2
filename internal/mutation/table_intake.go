package main

import "slices"

// writers are what brings usage into the table.
func writers() []mutation {
	suites := packages("./usage")
	return slices.Concat(
		in("usage/sender.go", suites,
			mutation{
				name:   "a committed hour is written to",
				old:    "	case record != nil:\n",
				new:    "	case record != nil && record.Status == metering.Success:\n",
				breaks: "The caller is not told to book the usage elsewhere, and it is late.",
			},
			mutation{
				name:   "an hour that is over is written to",
				old:    "	case !s.rules.Billable(v.group.Hour, s.now()):\n",
				new:    "	case !s.rules.Billable(v.group.Hour, s.now()) && record != nil:\n",
				breaks: "The caller hears that usage was written which can only expire.",
			},
			mutation{
				name:   "a batch that comes again is taken for late",
				old:    "		case against != nil && p.known:\n			s.lookForToken(ctx, v, p, against)\n",
				new:    "",
				breaks: "Usage that is billed already is called refused, booked in another hour and billed twice.",
			},
			mutation{
				name:   "a token is found without being looked for",
				old:    "	case row != nil && p.flush.Shows(*row):\n",
				new:    "	case row != nil:\n",
				breaks: "Usage of a committed hour counts as written because its row was there, and is lost.",
			},
			mutation{
				name:   "each try has a token of its own",
				old:    "		p.sent, p.flush.At = true, now\n",
				new:    "		p.sent, p.flush.At, p.flush.Token = true, now, newToken()\n",
				breaks: "A flush whose answer was lost is added twice.",
			},
			mutation{
				name:   "a late row is told as written",
				old:    "	return known && held <= committed\n",
				new:    "	return known || held <= committed\n",
				breaks: "The caller never hears that its usage came too late to be billed.",
			},
			mutation{
				name:   "an hour without a second look",
				old:    "		case err != nil:\n			p.cause = fmt.Errorf(\"read record after",
				new:    "		case err != nil && record != nil:\n			p.cause = fmt.Errorf(\"read record after",
				breaks: "A row whose record could not be read is told as written although it may be late.",
			},
			mutation{
				name:   "a table without an answer has written",
				old:    "			p.cause = errors.New(\"write row: the table gave no answer\")\n",
				new:    "			p.answer(errors.Join())\n",
				breaks: "Usage that was never written is told as written.",
			},
		),
		in("usage/batch.go", suites,
			mutation{
				name:   "a refused row is told as written",
				old:    "			errs[i] = e\n",
				new:    "			errs[i] = nil\n",
				breaks: "Nobody hears that usage was not written, and it is booked nowhere.",
			},
			mutation{
				name:   "rows without an answer are final",
				old:    "		unknown = append(unknown, answers[p])\n",
				new:    "",
				breaks: "The caller takes the batch for done although some of it may not be written.",
			},
		),
		in("usage/token.go", suites,
			mutation{
				name:   "the quantity is not part of the token",
				old:    "	buf = binary.AppendVarint(buf, f.Quantity)\n",
				new:    "",
				breaks: "Another batch under an id that was used before is taken for the first one, and lost.",
			},
			mutation{
				name:   "the id is not part of the token",
				old:    "	text(id)\n",
				new:    "",
				breaks: "Two batches with the same usage count once.",
			},
			mutation{
				name:       "the customer is not part of the token",
				old:        "	text(f.Group.Account)\n",
				new:        "",
				breaks:     "A batch's tokens do not tell two accounts apart.",
				equivalent: "a token counts within its row alone, and the account is part of the row's key: tokens that are equal in two rows never meet.",
			},
		),
		in("usage/writer.go", suites,
			mutation{
				name:   "unsent rows are left unnamed at Close",
				old:    "	for _, p := range left {\n		failed = append",
				new:    "	for _, p := range left[:len(w.flights)] {\n		failed = append",
				breaks: "Usage that Close could not write is lost without a word.",
			},
			mutation{
				name:   "usage of a closed hour is taken",
				old:    "	if refusal == nil && !w.sender.rules.Billable(in.second.Hour(), now) {",
				new:    "	if refusal == nil && w.closed {",
				breaks: "The caller is not told at once that usage comes too late to be billed.",
			},
		),
		in("usage/rounds.go", suites,
			mutation{
				name:   "failures are not kept for the caller",
				old:    "			w.failed = append(w.failed, p.failure())\n",
				new:    "			w.untold += 0\n",
				breaks: "Flush says that all is well although rows were refused.",
			},
			mutation{
				name:   "a row is sent twice at once",
				old:    "		if w.flights[at] != nil {\n			behind = append(behind, p)\n			continue\n		}\n",
				new:    "",
				breaks: "An unanswered flush is forgotten for the next one of its row, and its usage may be lost.",
			},
		),
		in("usage/fold.go", suites,
			mutation{
				name:   "an event replaces what was folded",
				old:    "	p.flush.Quantity += in.quantity\n",
				new:    "	p.flush.Quantity = in.quantity\n",
				breaks: "Of all events of a minute only the last one is billed.",
			},
			mutation{
				name:   "tagged and untagged usage is folded together",
				old:    "	if g.tagging != undecided && g.tagging != in.tagging {",
				new:    "	if g.tagging != undecided && g.tagging < in.tagging {",
				breaks: "The hour's whole group is rejected because its allocations do not add up.",
			},
		),
	)
}

// imports are files of usage.
func imports() []mutation {
	suites := []suite{{pkg: "./internal/importer", skip: "^TestMemoryIsFlatInTheNumberOfLines$"}}
	return slices.Concat(
		in("internal/importer/import.go", suites,
			mutation{
				name:   "tokens come from the time",
				old:    `id := fmt.Sprintf("%s/%d", r.Source.ID, r.out.chunks)`,
				new:    `id := fmt.Sprintf("%s/%d", r.Now().Format(time.RFC3339Nano), r.out.chunks)`,
				breaks: "A file that is imported again after a crash is billed twice.",
			},
			mutation{
				name:   "chunks share their tokens",
				old:    `id := fmt.Sprintf("%s/%d", r.Source.ID, r.out.chunks)`,
				new:    `id := fmt.Sprintf("%s/%d", r.Source.ID, min(0, r.out.chunks))`,
				breaks: "Two chunks of a file that add the same to a row count once.",
			},
			mutation{
				name:   "a file that changes is imported as it was",
				old:    "	if digest(sum) != r.Source.ID {",
				new:    "	if digest(sum) == \"\" {",
				breaks: "What was read is not what the import stands for: run again, it is billed twice.",
			},
			mutation{
				name:       "lines without an answer are taken",
				old:        "	if err := unknown(errs); err != nil {\n		return err\n	}\n",
				new:        "",
				breaks:     "Lines that may not be written are given the fate of those that are.",
				equivalent: "WriteBatch returns an error of its own for rows without an answer, which ends the chunk before; this one guards against a writer that would not.",
			},
			mutation{
				name:   "a dry run writes",
				old:    "		table = dryTable{r.Store}\n",
				new:    "		table = r.Store\n",
				breaks: "A seller who only tries a file bills it.",
			},
		),
		in("internal/importer/outcome.go", suites,
			mutation{
				name:   "lines of a committed hour are taken",
				old:    "			if err != nil && !late {\n",
				new:    "			if err != nil && !late && !errors.Is(err, usage.ErrHourCommitted) {\n",
				breaks: "Usage that was not written is reported as written.",
			},
			mutation{
				name:   "late lines are taken",
				old:    "		case late:\n",
				new:    "		case late && units == 0:\n",
				breaks: "Usage that came too late to be billed is reported as in time.",
			},
		),
		in("internal/importer/source.go", suites,
			mutation{
				name:   "a stream that breaks off is imported",
				old:    "		if last[0] != '\\n' {\n			return",
				new:    "		if last[0] == 0 {\n			return",
				breaks: "A quantity that was cut short, 12 of 120, is billed.",
			},
			mutation{
				name:   "a file that grows is imported",
				old:    "	if info.Size() > s.Size {\n",
				new:    "	if info.Size() < s.Size {\n",
				breaks: "A quantity that was read in the midst of being written is billed.",
			},
		),
		in("internal/importer/refused.go", suites,
			mutation{
				name:   "lines that wait are to be mended",
				old:    "		if l.Waits() {\n			return nil\n		}\n",
				new:    "",
				breaks: "A line that is in both files is imported from both, and billed twice.",
			},
		),
		in("internal/intake/event.go", packages("./internal/intake"),
			mutation{
				name:   "a wrong bucket is mended in silence",
				old:    "given != \"\" && given != hour {",
				new:    "given != \"\" && len(given) != len(hour) {",
				breaks: "Usage is billed in another hour than the one that its writer named.",
			},
			mutation{
				name:   "allocations are left out",
				old:    "		list = append(list, into)\n",
				new:    "		list = append(list[:0], into)\n",
				breaks: "Of a line's allocations only the last one is kept, and its group is rejected.",
			},
		),
		in("internal/usagefile/csv.go", packages("./internal/usagefile"),
			mutation{
				name:   "a line with a cell too many is read",
				old:    "	if len(values) != len(header) {",
				new:    "	if len(values) < len(header) {",
				breaks: "A quantity written as 1,000 is billed as 1.",
			},
			mutation{
				name:   "a column may stand twice",
				old:    "		if slices.Contains(header[:i], name) {",
				new:    "		if slices.Contains(header[:min(i, 0)], name) {",
				breaks: "Of two columns of quantities one is billed, and nobody has said which.",
			},
		),
	)
}

// books are the ledger.
func books() []mutation {
	suites := packages("./internal/ledger")
	return slices.Concat(
		in("internal/ledger/place.go", suites,
			mutation{
				name:   "what is in doubt is expired",
				old:    "		if r.SentQuantity.Whole {\n			return InDoubt",
				new:    "		if r.BilledQuantity.Whole {\n			return InDoubt",
				breaks: "Usage that may be billed is offered for another bill.",
			},
			mutation{
				name:   "a refused record is billed",
				old:    "		return Refused, string(r.Status), true\n",
				new:    "		return Billed, \"\", true\n",
				breaks: "The books show revenue that nobody pays.",
			},
			mutation{
				name:   "what waits under no hour is in flight",
				old:    "	_, err := metering.ParseHour(marker)\n	return err == nil\n",
				new:    "	_, err := metering.ParseHour(marker)\n	return err == nil || marker != \"\"\n",
				breaks: "A row that no stage can find counts as on its way for ever.",
			},
			mutation{
				name:   "a dry run is billed",
				old:    "		return DryRun, string(r.Status), true\n",
				new:    "		return Billed, \"\", true\n",
				breaks: "The books show revenue that was never asked for.",
			},
		),
		in("internal/ledger/balance.go", suites,
			mutation{
				name:   "the label comes before the record",
				old:    "	if covered && q <= committed {\n",
				new:    "	if covered && q <= committed && (r.Pending != \"\" || r.Status == metering.Aggregated) {\n",
				breaks: "A billed row with an old label counts as billed and as late, and is offered for another bill.",
			},
			mutation{
				name:   "all of a grown row is beyond its record",
				old:    "	excess := Amount{Items: 1, Units: q - committed}\n",
				new:    "	excess := Amount{Items: 1, Units: q}\n",
				breaks: "Units that are billed count as late too.",
			},
			mutation{
				name:   "a changed record is billed as it stands",
				old:    "		return r.BilledQuantity.N, true\n",
				new:    "		return max(r.BilledQuantity.N, r.Quantity.N), true\n",
				breaks: "The books show revenue that nobody pays.",
			},
			mutation{
				name:   "the refused rest is forgotten",
				old:    "		if rest := amount.Units - billed; rest > 0 {",
				new:    "		if rest := billed - amount.Units; rest > 0 {",
				breaks: "Units that were added to a billed record are in no place.",
			},
			mutation{
				name:   "findings do not matter",
				old:    "return b.Written.Units == b.Named() && len(b.Findings) == 0 }",
				new:    "return b.Written.Units == b.Named() }",
				breaks: "The books call a group balanced whose manifest cannot be read.",
			},
			mutation{
				name:   "rows that are gone are forgotten",
				old:    "		if !present[second] {\n",
				new:    "		if !present[second] && committed < 0 {\n",
				breaks: "That billed usage was deleted since is said by nothing.",
			},
		),
		in("internal/ledger/report.go", suites,
			mutation{
				name:   "a group is read while it changes",
				old:    "err == nil && same(before, record) {",
				new:    "err == nil && (before == nil || same(before, record)) {",
				breaks: "Beside running stages the books count usage in the record and in its rows, or in neither.",
			},
			mutation{
				name:   "unreadable rows are left out",
				old:    "			r.Add(h.Balance())\n",
				new:    "			_ = h.Balance()\n",
				breaks: "Units of rows whose key names no group are in no book.",
			},
		),
		in("internal/ledger/crosscheck.go", packages("./internal/ledger"),
			mutation{
				name:   "sales without a record are passed over",
				old:    "		if their != 0 {\n",
				new:    "		if their < 0 {\n",
				breaks: "A buyer is billed for something that our books know nothing of, and the comparison finds nothing.",
			},
			mutation{
				name:   "any difference is explained by doubt",
				old:    "		case e.billed == 0 && e.uncertain:\n",
				new:    "		case e.billed == 0 || e.uncertain:\n",
				breaks: "A difference without a name passes for one with a name.",
			},
		),
	)
}
