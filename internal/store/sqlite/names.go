package sqlite

import (
	"database/sql/driver"
	"iter"
	"strings"
	"sync"

	"github.com/awsmp/metering/internal/metering"
)

// maxNames bounds the names that are remembered; they can always be read again.
const maxNames = 200_000

type seriesKey struct{ license, prefix string }

// series is a license, an account and a dimension, and the number that stands for them.
type series struct {
	seriesKey
	id                 int64
	account, dimension string // as the prefix names them, empty where it names none
}

func newSeries(key seriesKey, id int64) *series {
	s := &series{seriesKey: key, id: id}
	if first, last := strings.IndexByte(key.prefix, '#'), len(key.prefix)-1; first >= 0 && first < last {
		s.account, s.dimension = key.prefix[:first], key.prefix[first+1:last]
	}
	return s
}

// splitKey parts a sort key into its series' prefix, which ends with the last '#', and its tail.
func splitKey(sortKey string) (prefix, tail string) {
	at := strings.LastIndexByte(sortKey, '#') + 1
	return sortKey[:at], sortKey[at:]
}

func seriesOf(g metering.Group) seriesKey {
	return seriesKey{g.License, g.Account + "#" + g.Dimension + "#"}
}

type label struct {
	status metering.Status
	reason string
}

// names remembers the numbers of series and labels. A number never changes its meaning, so what another process has added is
// looked up once.
type names struct {
	mu     sync.RWMutex
	byKey  map[seriesKey]*series
	byID   map[int64]*series
	labels map[label]int64
	texts  map[int64]label
}

func (n *names) learn(all iter.Seq[*series], labels map[label]int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byKey == nil || len(n.byKey) > maxNames {
		n.byKey, n.byID = make(map[seriesKey]*series), make(map[int64]*series)
	}
	if n.labels == nil || len(n.labels) > maxNames || len(n.texts) > maxNames {
		n.labels, n.texts = make(map[label]int64), make(map[int64]label)
	}
	for s := range all {
		n.byKey[s.seriesKey], n.byID[s.id] = s, s
	}
	for l, id := range labels {
		n.labels[l], n.texts[id] = id, l
	}
}

func one[T any](v T) iter.Seq[T] { return func(yield func(T) bool) { yield(v) } }

func none[T any](func(T) bool) {}

// find is the series of a key, nil where nothing of it was ever stored.
func (n *names) find(c *conn, key seriesKey) (*series, error) {
	n.mu.RLock()
	s := n.byKey[key]
	n.mu.RUnlock()
	if s != nil {
		return s, nil
	}
	id, err := c.number("SELECT id FROM series WHERE license = ? AND prefix = ?", key.license, key.prefix)
	if err != nil || id == 0 {
		return nil, err
	}
	s = newSeries(key, id)
	n.learn(one(s), nil)
	return s, nil
}

// named is the series that a number stands for.
func (n *names) named(c *conn, id int64) (*series, error) {
	n.mu.RLock()
	s := n.byID[id]
	n.mu.RUnlock()
	if s != nil {
		return s, nil
	}
	err := c.query("SELECT license, prefix FROM series WHERE id = ?", []any{id}, func(v []driver.Value) (bool, error) {
		s = newSeries(seriesKey{text(v[0]), text(v[1])}, id)
		return false, nil
	})
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, &Problem{Path: c.path, Why: "the file is damaged: an item names no license", Hint: "bring back a backup"}
	}
	n.learn(one(s), nil)
	return s, nil
}

// text of a label's number.
func (n *names) label(c *conn, id int64) (l label, err error) {
	n.mu.RLock()
	l, ok := n.texts[id]
	n.mu.RUnlock()
	if ok {
		return l, nil
	}
	err = c.query("SELECT status, reason FROM label WHERE id = ?", []any{id}, func(v []driver.Value) (bool, error) {
		l, ok = label{metering.Status(text(v[0])), text(v[1])}, true
		return false, nil
	})
	if err == nil && !ok {
		err = &Problem{Path: c.path, Why: "the file is damaged: an item names no status", Hint: "bring back a backup"}
	}
	if err == nil {
		n.learn(none, map[label]int64{l: id})
	}
	return l, err
}

// lookup is the series of a key as a transaction sees it, nil where there is none.
func (s *session) lookup(key seriesKey) (*series, error) {
	if found, ok := s.series[key]; ok {
		return found, nil
	}
	return s.names.find(s.conn, key)
}

// intern is the series of a key, made where there is none.
func (s *session) intern(key seriesKey) (*series, error) {
	found, err := s.lookup(key)
	if err != nil || found != nil {
		return found, err
	}
	if _, err := s.exec("INSERT INTO series (license, prefix) VALUES (?, ?)", key.license, key.prefix); err != nil {
		return nil, err
	}
	id, err := s.number("SELECT last_insert_rowid()")
	if err != nil {
		return nil, err
	}
	made := newSeries(key, id)
	s.series[key] = made
	return made, nil
}

// labelID is the number of a status and its reason, NULL for none.
func (s *session) labelID(status metering.Status, reason string) (any, error) {
	l := label{status, reason}
	if l == (label{}) {
		return nil, nil
	}
	if id, ok := s.labels[l]; ok {
		return id, nil
	}
	s.names.mu.RLock()
	id, ok := s.names.labels[l]
	s.names.mu.RUnlock()
	if ok {
		return id, nil
	}
	id, err := s.number("SELECT id FROM label WHERE status = ? AND reason = ?", string(status), reason)
	if err != nil {
		return nil, err
	}
	if id == 0 {
		if _, err := s.exec("INSERT INTO label (status, reason) VALUES (?, ?)", string(status), reason); err != nil {
			return nil, err
		}
		if id, err = s.number("SELECT last_insert_rowid()"); err != nil {
			return nil, err
		}
	}
	s.labels[l], s.fresh[id] = id, l
	return id, nil
}
