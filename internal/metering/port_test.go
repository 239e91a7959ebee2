package metering

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRebucket(t *testing.T) { // case 23
	t.Parallel()
	b := Rebucket{License: licenseA, From: "2026-03-10T16", To: "2026-03-10T14", At: writtenAt()}
	wrong := changedRow(AttrPending, "2026-03-10T16")
	if !b.Holds(wrong) {
		t.Error("it does not hold for the row under the wrong bucket")
	}
	want := wrong
	want.Pending, want.CreatedAt, want.UpdatedAt = "2026-03-10T14", "2026-03-10T15:23:00Z", "2026-03-10T15:23:00Z"
	after := b.Apply(wrong)
	if diff := cmp.Diff(want, after); diff != "" {
		t.Error(diff)
	}
	if b.Holds(after) || b.Holds(changedRow(AttrPending, without{})) || b.Holds(changedRow(AttrPending, "2026-03-10T15")) {
		t.Error("it holds for a row that stands elsewhere, or waits no longer")
	}
	if after.Fingerprint() != wrong.Fingerprint() {
		t.Error("the bucket alone changes what the row is judged by")
	}
}

// changedRow is the valid row with attributes changed.
func changedRow(pairs ...any) Row { return RowFromItem(rowItem().with(pairs...)) }

func TestMasked(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{"": "…", "12345678": "…", "123456789": "…6789", "111122223333": "…3333", licenseA: "…aaaa"} {
		if got := Masked(id); got != want {
			t.Errorf("Masked(%q) = %q, want %q", id, got, want)
		}
	}
}
