package metering

import (
	"encoding/json"
	"strconv"
)

// fingerprint hashes attributes in a form that is the same in every process and release, since messages carry it from
// one stage to another: FNV-1a of 64 bits over each text's length, a colon and the text.
type fingerprint struct{ sum uint64 }

func newFingerprint() *fingerprint { return &fingerprint{14695981039346656037} }

func (f *fingerprint) write(s string) {
	var length [20]byte
	sum := f.sum
	for _, c := range append(strconv.AppendInt(length[:0], int64(len(s)), 10), ':') {
		sum = (sum ^ uint64(c)) * 1099511628211
	}
	for i := range len(s) {
		sum = (sum ^ uint64(s[i])) * 1099511628211
	}
	f.sum = sum
}

func (f *fingerprint) text(values ...string) {
	for _, s := range values {
		f.write(s)
	}
}

func (f *fingerprint) quantity(q Quantity) {
	if !q.Whole {
		f.write("")
		return
	}
	f.write(strconv.FormatInt(q.N, 10))
}

func (f *fingerprint) allocations(list []Allocation) {
	f.write(strconv.Itoa(len(list)))
	for _, a := range list {
		f.write(strconv.FormatInt(a.Quantity, 10))
		f.write(strconv.Itoa(len(a.Tags)))
		for _, t := range a.Tags {
			f.write(t.Key)
			f.write(t.Value)
		}
	}
}

// raw adds the named attributes that stand in Other because they have another type than they should.
func (f *fingerprint) raw(other Item, names ...string) {
	for _, name := range names {
		v, present := other[name]
		if !present {
			continue
		}
		text, err := json.Marshal(v) // maps are written in the order of their keys
		if err != nil {
			text = []byte(err.Error())
		}
		f.write(name)
		f.write(string(text))
	}
}

func (f *fingerprint) String() string { return strconv.FormatUint(f.sum, 16) }
