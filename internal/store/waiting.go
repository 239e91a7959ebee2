package store

import (
	"cmp"
	"maps"
	"slices"
)

// Waiting is what waits in one bucket. The units of a covered row that waits for its label stand in its record too.
type Waiting struct {
	Bucket  string `json:"bucket"` // as the items name it: an hour, YYYY-MM-DDTHH, if they are well-formed
	Rows    int    `json:"rows"`
	Records int    `json:"records"`
	Units   int64  `json:"units"` // of rows and records together; quantities that are no number count as 0
}

// Backlog collects what waits by bucket.
type Backlog map[string]*Waiting

// Of is the entry of a bucket, made where there is none.
func (b Backlog) Of(bucket string) *Waiting {
	w, ok := b[bucket]
	if !ok {
		w = &Waiting{Bucket: bucket}
		b[bucket] = w
	}
	return w
}

// List is the backlog in the order of the buckets.
func (b Backlog) List() []Waiting {
	list := make([]Waiting, 0, len(b))
	for w := range maps.Values(b) {
		list = append(list, *w)
	}
	slices.SortFunc(list, func(a, b Waiting) int { return cmp.Compare(a.Bucket, b.Bucket) })
	return list
}
