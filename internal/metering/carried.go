package metering

// AttrCarried is a record's list of what was carried from its hour into later ones. It is the memory of it: rows are their sellers' to write anew.
const AttrCarried = "carried"

// attrLapses is of an entry whose target has a time to live. The rest of it bears the names that a row's attributes have.
const attrLapses = "lapses"

// CarriedUnits are units of one second that were carried into a later hour, as the record of the second's hour remembers them.
type CarriedUnits struct {
	Second   Second // of the source
	Quantity int64  // carried
	To       string // sort key of the target
	Lapses   bool   // the target was given a time to live: that it is gone says nothing

	at      string
	token   string // of the write
	flushes int    // that the source had taken by then
}

// Carried is the record's list of what was carried from its hour, in the order in which it was, and whether it can be read.
func (r Record) Carried() ([]CarriedUnits, bool) {
	trace, ours := traceOf(r.Other, AttrCarried)
	list := make([]CarriedUnits, len(trace))
	for i, v := range trace {
		var ok bool
		if list[i], ok = carriedUnits(v); !ok {
			return nil, false
		}
	}
	return list, ours
}

func carriedUnits(v any) (c CarriedUnits, ok bool) {
	entry, _ := v.(map[string]any)
	text := func(name string) string {
		s, _ := entry[name].(string)
		return s
	}
	second, err := ParseSecond(text(AttrTimestamp))
	quantity, _ := quantityOf(entry[AttrQuantity])
	_, reason := ParseRowKey(text(attrCarriedTo))
	flushes, _ := quantityOf(entry[AttrFlushes])
	lapses, _ := entry[attrLapses].(bool)
	return CarriedUnits{
		Second: second, Quantity: quantity.N, To: text(attrCarriedTo), Lapses: lapses,
		at: text(attrTracedAt), token: text(attrToken), flushes: int(flushes.N),
	}, err == nil && reason == "" && quantity.Whole && quantity.N > 0
}

func (c CarriedUnits) item() writer {
	entry := newWriter(nil)
	entry.text(attrTracedAt, c.at)
	entry.text(AttrTimestamp, c.Second.String())
	entry.quantity(AttrQuantity, Units(c.Quantity))
	entry.text(attrCarriedTo, c.To)
	entry.text(attrToken, c.token)
	if c.flushes > 0 {
		entry.quantity(AttrFlushes, Units(int64(c.flushes)))
	}
	if c.Lapses {
		entry[attrLapses] = true
	}
	return entry
}

// carriedAlready is how many units of what a row holds were carried before. A row that was carried from holds nothing of that any more, but
// its seller may have put it once more, as it was. Only of one that has its last entry still and has taken flushes since is it known that
// it grew by them: each is taken once.
func carriedAlready(list []CarriedUnits, s Second, r Row) (units int64) {
	trace, _ := traceOf(r.Other, AttrCarriedTo)
	last := tokenOf(traced(r.Other, AttrCarriedTo, len(trace)-1))
	for _, c := range list {
		if c.Second != s {
			continue
		}
		if units += c.Quantity; last != "" && c.token == last && len(r.Flushes) > c.flushes {
			units = 0
		}
	}
	return units
}
