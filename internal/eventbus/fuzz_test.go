package eventbus_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/eventbus"
)

// FuzzRead: an event is read with all that is put on the bus, and reads back as it is written; or it is none.
func FuzzRead(f *testing.F) {
	f.Add([]byte(event))
	f.Add([]byte(`{"source":"s","detail-type":"t","detail":{"acceptor":{"accountId":7}},"time":"2026-03-10T14:00:00.5+01:00","resources":null}`))
	f.Add([]byte(`{"source":"s","detail-type":"t","detail":{"acceptor":[{}]}}`))
	f.Add([]byte(`{"source":"s","detail-type":"t","detail": {"a":"\ud800"} ,"detail":[]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := eventbus.Read(text)
		if err != nil {
			return
		}
		if e.Source == "" || e.Type == "" || !json.Valid(e.Detail) || e.Detail[0] != '{' {
			t.Errorf("%+v of %s", e, text)
		}
		written, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		again, err := eventbus.Read(written)
		compact, _ := json.Marshal(e.Detail)
		e.Detail = compact
		if diff := cmp.Diff(e, again); err != nil || diff != "" || e.Account() != again.Account() {
			t.Errorf("read again: %v\n%s", err, diff)
		}
	})
}
