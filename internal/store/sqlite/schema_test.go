package sqlite

import (
	"crypto/sha256"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// Files of every release are out there: a step that was released never changes, a change of the schema is a further step.
func TestReleasedStepsStand(t *testing.T) {
	t.Parallel()
	released := []string{
		"5d3f543a9c691157a0712e2b64b8c5d09fb1de732e142f338883c5ee428125b1",
		"8c63fd45eb43a2b1435846dfe2d851ae05f20264f25890974574dbbc141eb179",
	}
	if len(migrations) < len(released) {
		t.Fatalf("%d steps, %d of them were released", len(migrations), len(released))
	}
	for i, want := range released {
		if got := fmt.Sprintf("%x", sha256.Sum256([]byte(migrations[i]))); got != want {
			t.Errorf("step %d has the hash %s, and was released with %s", i+1, got, want)
		}
	}
	if len(migrations) > len(released) {
		t.Errorf("add the hash of step %d here once it is released", len(released)+1)
	}
}

// dialed is a connection to the file, which counts as another program's.
func dialed(t *testing.T, path string) *conn {
	t.Helper()
	c, err := dial(path, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// content is the file's schema and version.
func content(t *testing.T, path string) (all []string) {
	t.Helper()
	c := dialed(t, path)
	for _, query := range []string{"SELECT 'application', application_id FROM pragma_application_id", "SELECT 'version', user_version FROM pragma_user_version",
		"SELECT name, sql FROM sqlite_master ORDER BY name"} {
		err := c.query(query, nil, func(v []driver.Value) (bool, error) {
			all = append(all, fmt.Sprint(v[0], v[1]))
			return true, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

var (
	stepOne = "CREATE TABLE one (n INTEGER); INSERT INTO one VALUES (1)"
	stepTwo = "CREATE TABLE two (n INTEGER); UPDATE one SET n = n + 1"
)

func TestStepsAreTakenInTurn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "usage.db")
	for _, steps := range [][]string{{stepOne}, {stepOne}, {stepOne, stepTwo}, {stepOne, stepTwo}} {
		if err := migrate(dialed(t, path), 1, steps); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := dialed(t, path).number("SELECT n FROM one"); n != 2 || err != nil {
		t.Errorf("each step once leaves %d, %v, want 2", n, err)
	}
	want := content(t, path)
	if want[1] != "version2" {
		t.Errorf("the file is %v", want)
	}
	// An older release, which knows one step, leaves it as it is.
	var p *Problem
	err := migrate(dialed(t, path), 1, []string{stepOne})
	if !errors.As(err, &p) || p.Why != "a newer release wrote it: it has version 2, this program knows 1" {
		t.Errorf("an older release: %v", err)
	}
	same(t, "the file after it", want, content(t, path))
}

func TestStepThatFailsLeavesTheFileAsItWas(t *testing.T) {
	t.Parallel()
	for name, first := range map[string][]string{"an empty file": nil, "an older file": {stepOne}} {
		path := filepath.Join(t.TempDir(), "usage.db")
		if first != nil {
			if err := migrate(dialed(t, path), 1, first); err != nil {
				t.Fatal(err)
			}
		}
		want := content(t, path)
		c := dialed(t, path)
		err := migrate(c, 1, []string{stepOne, stepTwo, "CREATE TABLE three (n INTEGER); INSERT INTO nowhere VALUES (1)"})
		if err == nil || err.Error() != "migrate the store from version 2: SQL logic error: no such table: nowhere (1)" {
			t.Errorf("%s: %v", name, err)
		}
		same(t, name, want, content(t, path))
		if err := migrate(c, 1, []string{stepOne, stepTwo}); err != nil { // the connection is of use again
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A newer release may come first between the look at the version and the lock.
func TestNewerReleaseOvertakes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "usage.db")
	c := dialed(t, path)
	if err := migrate(dialed(t, path), 1, []string{stepOne, stepTwo}); err != nil {
		t.Fatal(err)
	}
	want := content(t, path)
	var p *Problem
	if err := c.transact(func() error { return upgrade(c, 1, []string{stepOne}) }); !errors.As(err, &p) {
		t.Errorf("upgrade: %v, want a *Problem", err)
	}
	same(t, "the file after it", want, content(t, path))
}

// Who must keep the version leaves an older file as it is, also where it becomes one between the look at the version and the lock.
func TestKeptVersion(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "usage.db")
	c := dialed(t, path)
	if err := migrate(c, 1, migrations[:1]); err != nil {
		t.Fatal(err)
	}
	want := content(t, path)
	for name, open := range map[string]func() error{
		"Open": func() error {
			_, err := Open(t.Context(), path, Options{KeepVersion: true})
			return err
		},
		"an older release overtakes": func() error {
			return c.transact(func() error { return upgrade(c, len(migrations), migrations) })
		},
	} {
		var p *Problem
		if err := open(); !errors.As(err, &p) || !errors.Is(err, ErrOlderVersion) || p.Hint == "" {
			t.Errorf("%s: %v, want a *Problem that is ErrOlderVersion", name, err)
		}
		same(t, name, want, content(t, path))
	}

	for name, path := range map[string]string{"no file": filepath.Join(t.TempDir(), "usage.db"), "a file of this version": path} {
		if name != "no file" {
			if err := migrate(c, 1, migrations); err != nil {
				t.Fatal(err)
			}
		}
		s, err := Open(t.Context(), path, Options{KeepVersion: true}.Unsynced())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestManyOpenAtOnce(t *testing.T) {
	t.Parallel()
	for range 5 {
		path := filepath.Join(t.TempDir(), "usage.db")
		var all sync.WaitGroup
		start := make(chan struct{})
		for i := range 6 {
			all.Go(func() {
				<-start
				s, err := Open(t.Context(), path, Options{}.Unsynced())
				if err != nil {
					t.Errorf("Open: %v: %v", err, errors.Unwrap(err))
					return
				}
				if err := errors.Join(s.PutRow(t.Context(), usage("a", "api", i)), s.Close()); err != nil {
					t.Error(err)
				}
			})
		}
		close(start)
		all.Wait()
		s, err := Open(t.Context(), path, Options{}.Unsynced())
		if err != nil {
			t.Fatal(err)
		}
		same(t, "rows", 6, len(stored(t, s)))
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A file of the first release, in which some licenses are in their last hour, keeps them: each becomes a subscriber, which a later event
// and the finalizer find.
func TestLastHoursOfTheFirstRelease(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "usage.db")
	c := dialed(t, path)
	if err := migrate(c, 1, migrations[:1]); err != nil {
		t.Fatal(err)
	}
	for license, expiry := range map[string]string{"a": "2026-03-10T16:20:00Z", "b": "2026-03-10T16:19:59.999999999Z", "c": "2026-03-01T00:30:00.5Z", "d": "soon"} {
		if _, err := c.exec("INSERT INTO deprovisioning (license, account, expiry) VALUES (?, ?, ?)", license, "444455556666", expiry); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(t.Context(), path, Options{}.Unsynced())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()

	hour := func(license string, ends time.Time) metering.Deprovisioning {
		return metering.Deprovisioning{License: license, Account: "444455556666", Expiry: ends}
	}
	whole, cut, old := time.Date(2026, 3, 10, 16, 20, 0, 0, time.UTC), time.Date(2026, 3, 10, 16, 19, 59, 0, time.UTC), time.Date(2026, 3, 1, 0, 30, 0, 0, time.UTC)
	list, err := s.Deprovisioning(t.Context())
	if err == nil || err.Error() != "the last hour of license … ends at no time" {
		t.Errorf("one that ends at no time: %v", err)
	}
	same(t, "in their last hour", []metering.Deprovisioning{hour("c", old), hour("b", cut), hour("a", whole)}, list)

	// They are what License Deprovisioned would have made of them.
	for license, ends := range map[string]time.Time{"a": whole, "b": cut, "c": old} {
		want, _ := metering.LicenseEvent{License: license, Account: "444455556666", At: ends.Add(-metering.DeprovisionWindow)}.DeprovisionedAt(ends).Apply(nil)
		want.CreatedAt, want.UpdatedAt = "", ""
		got, err := s.Subscriber(t.Context(), license, "444455556666")
		if err != nil {
			t.Fatal(err)
		}
		same(t, license, &want, got)
	}
	for _, change := range []metering.SubscriberChange{
		metering.FinalizeAt("c", "444455556666", whole),
		metering.LicenseEvent{License: "b", Account: "444455556666", At: whole}.UpdatedAt(whole),
		metering.LicenseEvent{License: "d", Account: "444455556666", At: whole}.DeprovisionedAt(whole), // which mends it
	} {
		if _, changed, err := s.ChangeSubscriber(t.Context(), change); err != nil || !changed {
			t.Errorf("%s: changed %v, %v", change.License, changed, err)
		}
	}
	list, err = s.Deprovisioning(t.Context())
	if err != nil {
		t.Error(err)
	}
	same(t, "still in their last hour", []metering.Deprovisioning{hour("a", whole), hour("d", whole.Add(metering.DeprovisionWindow))}, list)
}
