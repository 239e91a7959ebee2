package sqlite_test

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/internal/registration"
	"github.com/awsmp/metering/internal/store/sqlite"
	"github.com/awsmp/metering/internal/store/storetest"
)

var (
	_ pipeline.Rows        = (*sqlite.Store)(nil)
	_ pipeline.Records     = (*sqlite.Store)(nil)
	_ pipeline.Subscribers = (*sqlite.Store)(nil)

	_ lifecycle.Subscribers    = (*sqlite.Store)(nil)
	_ registration.Subscribers = (*sqlite.Store)(nil)
	_ registration.Profiles    = (*sqlite.Store)(nil)
)

func TestContract(t *testing.T) {
	t.Parallel()
	var asked statements
	t.Run("stores", func(t *testing.T) {
		for name, variant := range map[string]struct {
			contract func(t *testing.T, open func(t *testing.T) storetest.Store)
			options  sqlite.Options
		}{
			"on the disk":         {storetest.Run, sqlite.Options{}},
			"pages of one item":   {storetest.Run, sqlite.Options{PageBytes: 1}.Unsynced()},
			"pages of some items": {storetest.Pages, sqlite.Options{PageBytes: 2000}.Unsynced()},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				variant.contract(t, func(t *testing.T) storetest.Store { return asked.of(t, open(t, file(t), variant.options)) })
			})
		}
		t.Run("what waits", func(t *testing.T) {
			t.Parallel()
			storetest.Waiting(t, asked.of(t, quick(t)))
		})
		t.Run("settings", func(t *testing.T) {
			t.Parallel()
			settings(t, asked.of(t, quick(t)))
		})
		for name, options := range map[string]sqlite.Options{
			"subscribers on the disk": {}, "subscribers in pages of one": sqlite.Options{PageBytes: 1}.Unsynced(), "subscribers in pages of some": sqlite.Options{PageBytes: 2000}.Unsynced(),
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				storetest.RunLifecycle(t, func(t *testing.T) storetest.Lifecycle { return asked.of(t, open(t, file(t), options)) })
			})
		}
	})
	t.Run("every statement goes by an index", asked.plans)
}

// statements are those that stores have asked.
type statements struct {
	mu   sync.Mutex
	text map[string]bool
}

// of remembers what the store has asked when the test ends.
func (a *statements) of(t *testing.T, s *sqlite.Store) *sqlite.Store {
	t.Cleanup(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.text == nil {
			a.text = make(map[string]bool)
		}
		for _, text := range s.Statements() {
			a.text[text] = true
		}
	})
	return s
}

// plans asks SQLite how it finds what each statement is about. A step may look through nothing from end to end, nor sort, but
// where it is named here.
func (a *statements) plans(t *testing.T) {
	allowed := map[string]bool{
		"SCAN CONSTANT ROW":                             true, // no table
		"SCAN subscriber USING INDEX subscriber_expiry": true, // all of it is wanted, and it is small: the licenses in their last hour
		// On opening, once:
		"SCAN sqlite_master": true, "SCAN pragma_application_id VIRTUAL TABLE INDEX 0:": true, "SCAN pragma_user_version VIRTUAL TABLE INDEX 0:": true,
	}
	path := file(t)
	open(t, path, sqlite.Options{}.Unsynced())
	c := other(t, path)
	for _, text := range slices.Sorted(maps.Keys(a.text)) {
		verb, _, _ := strings.Cut(text, " ")
		if verb == "BEGIN" || verb == "COMMIT" || verb == "PRAGMA" {
			continue
		}
		arguments := make([]any, strings.Count(text, "?"))
		for _, step := range ask(t, c, "EXPLAIN QUERY PLAN "+text, arguments...) {
			detail := step[3]
			if allowed[detail] {
				continue
			}
			if strings.Contains(text, "INDEXED BY usage_pending") && !strings.Contains(detail, "COVERING INDEX usage_pending") {
				t.Errorf("a row is looked at for each entry of its index: %s\n\t%s", detail, text)
			}
			if strings.HasPrefix(detail, "SCAN") || strings.Contains(detail, "TEMP B-TREE") {
				t.Errorf("%s\n\t%s", detail, text)
			}
		}
	}
}

// settings are what the contract does not use.
func settings(t *testing.T, s *sqlite.Store) {
	for _, want := range []string{"", "one", "two"} {
		value, err := s.Setting(t.Context(), "name")
		check(t, "Setting", err)
		same(t, "setting", want, value)
		check(t, "SetSetting", s.SetSetting(t.Context(), "name", map[string]string{"": "one", "one": "two", "two": ""}[want]))
	}
}
