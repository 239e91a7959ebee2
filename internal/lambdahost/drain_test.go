package lambdahost_test

import (
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/lambdahost"
)

func TestDrainWaitsForTheLastMessage(t *testing.T) {
	t.Parallel()
	m := newMapped(t, "null", "second", "third")
	lambdahost.Drain(t, time.Minute, func() string {
		if n := held(m.queue); n > 0 {
			return fmt.Sprintf("the queue holds %d", n)
		}
		return ""
	}, m.mapping)
	if got := m.mapping.Tally(); got.Deleted != 3 {
		t.Errorf("%+v when nothing was left, want three messages done", got)
	}
}

// ending is a test that notes why it was ended.
type ending struct {
	testing.TB
	why string
}

func (e *ending) Helper() {}

func (e *ending) Fatalf(format string, args ...any) {
	e.why = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// What stays in a queue, or a mapping that receives nothing any more, ends the test, with what is left.
func TestDrainIsNotPatientForEver(t *testing.T) {
	t.Parallel()
	stopped := newMapped(t, "null")
	stopped.mapping.Stop()
	for name, c := range map[string]struct {
		left     string
		mappings []*lambdahost.Mapping
		want     string
	}{
		"a message stays":   {"the queue holds 1", nil, "the queue holds 1"},
		"nobody receives":   {"", []*lambdahost.Mapping{stopped.mapping}, "no empty receive"},
		"nothing was there": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := &ending{TB: t}
			var all sync.WaitGroup
			all.Go(func() {
				lambdahost.Drain(e, 50*time.Millisecond, func() string { return c.left }, c.mappings...)
			})
			all.Wait()
			if !strings.Contains(e.why, c.want) || (e.why == "") != (c.want == "") {
				t.Errorf("ended with %q, want %q", e.why, c.want)
			}
		})
	}
}

func TestPosted(t *testing.T) {
	t.Parallel()
	got := lambdahost.Posted("/register", "an-id", url.Values{"name": {"Söhne & Co."}})
	if got.HTTPMethod != "POST" || got.Body != "name=S%C3%B6hne+%26+Co." || got.RequestContext.RequestID != "an-id" || got.IsBase64Encoded {
		t.Errorf("%+v", got)
	}
}
