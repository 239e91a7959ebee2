package metering

import (
	"encoding/json"
	"hash"
	"hash/fnv"
	"strconv"
)

// fingerprint hashes attributes in a form that is the same in every process and release, since messages carry it from
// one stage to another.
type fingerprint struct {
	hash hash.Hash64
	buf  []byte
}

func newFingerprint() *fingerprint { return &fingerprint{hash: fnv.New64a()} }

func (f *fingerprint) write(s string) {
	f.buf = strconv.AppendInt(f.buf[:0], int64(len(s)), 10)
	f.buf = append(f.buf, ':')
	f.buf = append(f.buf, s...)
	_, _ = f.hash.Write(f.buf) // a hash never fails
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

func (f *fingerprint) String() string { return strconv.FormatUint(f.hash.Sum64(), 16) }
