package metering

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"
)

// Item is a table item as a store holds it. The dynamic types of its values are those of JSON read with
// UseNumber: string, json.Number, bool, nil, []any and map[string]any.
type Item map[string]any

// SameValue reports whether two attribute values are the same as a store compares them: numbers by value (3 and
// 3.0), everything else exactly.
func SameValue(a, b any) bool {
	x, okX := a.(json.Number)
	y, okY := b.(json.Number)
	if okX && okY && x != y {
		r, reasonX := rational(x)
		s, reasonY := rational(y)
		return reasonX == "" && reasonY == "" && r.Cmp(s) == 0
	}
	if okX || okY {
		return okX && okY
	}
	switch x := a.(type) {
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !SameValue(x[i], y[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && maps.EqualFunc(x, y, SameValue)
	}
	return reflect.DeepEqual(a, b)
}

func number(n int64) json.Number { return json.Number(strconv.FormatInt(n, 10)) }

// reader takes attributes out of an item one by one; what is not taken, or has another type than asked for, stays
// and becomes the Other of the row or record: unknown attributes are kept, wrong types are seen by validation.
type reader struct{ rest Item }

func newReader(item Item) reader { return reader{rest: maps.Clone(item)} }

func (r reader) text(name string) string {
	s, ok := r.rest[name].(string)
	if !ok || s == "" { // an empty string is not an absent one: it stays as it was read
		return ""
	}
	delete(r.rest, name)
	return s
}

func (r reader) quantity(name string) Quantity {
	q, ok := quantityOf(r.rest[name])
	if !ok {
		return Quantity{}
	}
	delete(r.rest, name)
	return q
}

func (r reader) flag(name string) bool {
	b, ok := r.rest[name].(bool)
	if ok && b {
		delete(r.rest, name)
	}
	return ok && b
}

// texts reads a list of texts, as the writer's tokens are.
func (r reader) texts(name string) []string {
	list, ok := r.rest[name].([]any)
	if !ok || len(list) == 0 {
		return nil
	}
	texts := make([]string, len(list))
	for i, v := range list {
		if texts[i], ok = v.(string); !ok {
			return nil
		}
	}
	delete(r.rest, name)
	return texts
}

// time reads a time; zero where it is absent or none.
func (r reader) time(name string) time.Time {
	s, _ := r.rest[name].(string)
	t, ok := storedTime(s)
	if ok {
		delete(r.rest, name)
	}
	return t
}

// storedTime reads a time that can be written again, to the second: what is written otherwise reads differently the second time.
func storedTime(s string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339, s)
	t = wholeSecond(t)
	if err != nil || t.IsZero() || t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}, false
	}
	return t, true
}

// times reads a list of times, in order.
func (r reader) times(name string) []time.Time {
	list, ok := r.rest[name].([]any)
	times := make([]time.Time, len(list))
	for i, v := range list {
		s, _ := v.(string)
		t, ok := storedTime(s)
		if !ok {
			return nil
		}
		times[i] = t
	}
	if !ok || len(list) == 0 {
		return nil
	}
	delete(r.rest, name)
	slices.SortFunc(times, time.Time.Compare)
	return times
}

func (r reader) allocations() []Allocation {
	list, ok := exactAllocations(r.rest[AttrAllocations])
	if !ok {
		return nil
	}
	delete(r.rest, AttrAllocations)
	return list
}

func (r reader) other() Item {
	if len(r.rest) == 0 {
		return nil
	}
	return r.rest
}

// writer puts attributes back, absent ones left out.
type writer Item

func newWriter(other Item) writer {
	w := make(writer, len(other)+12)
	maps.Copy(w, other)
	return w
}

func (w writer) text(name, s string) {
	if s != "" {
		w[name] = s
	}
}

func (w writer) quantity(name string, q Quantity) {
	if q.Whole {
		w[name] = number(q.N)
	}
}

func (w writer) time(name string, t time.Time) {
	if !t.IsZero() {
		w[name] = t.UTC().Format(time.RFC3339)
	}
}

func (w writer) times(name string, list []time.Time) {
	texts := make([]string, len(list))
	for i, t := range list {
		texts[i] = t.UTC().Format(time.RFC3339)
	}
	w.texts(name, texts)
}

func (w writer) texts(name string, list []string) {
	if len(list) == 0 {
		return
	}
	values := make([]any, len(list))
	for i, s := range list {
		values[i] = s
	}
	w[name] = values
}

func (w writer) allocations(list []Allocation) {
	if list != nil {
		w[AttrAllocations] = allocationsValue(list)
	}
}
