package metering

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMessageBodies(t *testing.T) { // messages outlive a deployment: the form is fixed
	t.Parallel()
	three := int64(3)
	for _, tt := range []struct{ got, want string }{
		{
			Encode(NewWorkMessage(groupH(), false)),
			`{"licenseArn":"` + licenseA + `","customerAWSAccountId":"111122223333","dimension":"api_calls","hourBucket":"2026-03-10T14"}`,
		},
		{
			Encode(NewWorkMessage(Group{"prod-abc", "", `a#<b>"é`, hour("2026-03-10T14")}, true)),
			`{"licenseArn":"prod-abc","customerAWSAccountId":"","dimension":"a#\u003cb\u003e\"é","hourBucket":"2026-03-10T14","closing":true}`,
		},
		{
			Encode(CleanupMessage{License: licenseA, Covered: true, Status: Aggregated, Reason: "why", First: true, Rows: []CleanupRow{CoveredRow(groupH(), second("2026-03-10T14:00:05"), 0)}}),
			`{"licenseArn":"` + licenseA + `","covered":true,"meteringStatus":"Aggregated","meteringStatusReason":"why","first":true,"rows":[{"k":"111122223333#api_calls#2026-03-10T14:00:05","q":0}]}`,
		},
		{
			Encode(CleanupMessage{License: licenseA, Status: LateUsage, Rows: []CleanupRow{{Key: "k", Quantity: &three, Fingerprint: "f"}, {Key: "l"}}}),
			`{"licenseArn":"` + licenseA + `","meteringStatus":"LateUsage","rows":[{"k":"k","q":3,"f":"f"},{"k":"l"}]}`,
		},
		{
			Encode(CleanupMessage{License: "l", Status: RejectedClientSide, Rows: []CleanupRow{NewCleanupRow(pendingRow())}}),
			`{"licenseArn":"l","meteringStatus":"RejectedClientSide","rows":[{"k":"111122223333#api_calls#2026-03-10T14:00:05","q":3,"f":"5506e8be4f952b70"}]}`,
		},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestMessagesRoundTrip(t *testing.T) {
	t.Parallel()
	group := groupH()
	group.Dimension = "a#<b>&\"\\\u2028é😀"
	work, err := Decode[WorkMessage](Encode(NewWorkMessage(group, true)))
	if err != nil || !work.Closing {
		t.Fatalf("%+v, %v", work, err)
	}
	if got, err := work.Group(); err != nil || got != group {
		t.Errorf("%+v, %v", got, err)
	}
	cleanup := CleanupMessage{License: licenseA, Status: Aggregated, First: true, Covered: true, Rows: []CleanupRow{CoveredRow(group, second("2026-03-10T14:00:05"), 7)}}
	back, err := Decode[CleanupMessage](Encode(cleanup))
	if diff := cmp.Diff(cleanup, back); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestMessagesOfANewerRelease(t *testing.T) {
	t.Parallel()
	m, err := Decode[WorkMessage](`{"licenseArn":"prod-abc","customerAWSAccountId":"1","dimension":"d","hourBucket":"2026-03-10T14","priority":7,"x":{"y":[1]}}`)
	if want := (WorkMessage{License: "prod-abc", Account: "1", Dimension: "d", Hour: "2026-03-10T14"}); err != nil || m != want {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestUnreadableMessages(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "x", "[]", `"text"`, `{"licenseArn":7}`, `{"licenseArn":"l"`, `{"closing":"yes"}`} {
		if m, err := Decode[WorkMessage](body); err == nil {
			t.Errorf("%q reads as %+v", body, m)
		}
	}
	for _, body := range []string{"", `{"rows":{}}`, `{"rows":[{"q":2.5}]}`, `{"rows":[{"q":"3"}]}`, `{"rows":["k"]}`} {
		if m, err := Decode[CleanupMessage](body); err == nil {
			t.Errorf("%q reads as %+v", body, m)
		}
	}
	for _, m := range []WorkMessage{
		{}, {License: licenseA}, {License: licenseA, Hour: "2026-03-10T14:00"}, {Hour: "2026-03-10T14", Account: buyer, Dimension: "d"},
	} {
		if g, err := m.Group(); err == nil || !strings.HasPrefix(err.Error(), "read work message: ") {
			t.Errorf("%+v: %+v, %v", m, g, err)
		}
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	whole := CleanupMessage{License: licenseA, Status: Aggregated, Reason: "why", Covered: true}
	for rows, want := range map[int][]int{0: nil, 1: {1}, 99: {99}, 100: {100}, 101: {100, 1}, 200: {100, 100}, 3600: {100, 100, 100, 100, 100, 100, 100, 100, 100,
		100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100}} {
		var keys []CleanupRow
		for i := range rows {
			keys = append(keys, CoveredRow(groupH(), Second(groupH().Hour)*secondsPerHour+Second(i), int64(i)))
		}
		var sizes []int
		var got []CleanupRow
		for m := range whole.Split(keys) {
			if m.First != (len(sizes) == 0) {
				t.Errorf("%d rows: message %d says first: %v", rows, len(sizes), m.First)
			}
			sizes, got = append(sizes, len(m.Rows)), append(got, m.Rows...)
			if len(Encode(m)) > 256*1024 {
				t.Errorf("%d rows: a message of %d bytes", rows, len(Encode(m)))
			}
			m.First, m.Rows = false, nil
			if diff := cmp.Diff(whole, m); diff != "" {
				t.Error(diff)
			}
		}
		if diff := cmp.Diff(want, sizes); diff != "" {
			t.Errorf("%d rows:\n%s", rows, diff)
		}
		if diff := cmp.Diff(keys, got); diff != "" {
			t.Errorf("%d rows are not the ones that went in", rows)
		}
	}
}

func TestSplitStops(t *testing.T) {
	t.Parallel()
	n := 0
	for range (CleanupMessage{}).Split(make([]CleanupRow, 500)) {
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d messages after a stop at 2", n)
	}
}

func TestLargestCleanupMessageFits(t *testing.T) { // 1 MiB is what SQS takes
	t.Parallel()
	g := groupH()
	g.Dimension = strings.Repeat("<", 255) // six bytes each, once escaped
	var rows []CleanupRow
	for i := range MaxCleanupRows {
		row := CoveredRow(g, Second(g.Hour)*secondsPerHour+Second(i), MaxQuantity)
		row.Fingerprint = "ffffffffffffffff"
		rows = append(rows, row)
	}
	for m := range (CleanupMessage{License: licenseA, Status: RejectedClientSide, Reason: string(InvalidCustomerAWSAccountID)}).Split(rows) {
		if n := len(Encode(m)); n > 1<<18 {
			t.Errorf("%d bytes", n)
		}
	}
}

func TestUnitsOfACleanupRow(t *testing.T) {
	t.Parallel()
	for q, want := range map[int64]int64{0: 0, 7: 7, -7: 0} {
		if got := (CleanupRow{Quantity: &q}).Units(); got != want {
			t.Errorf("%d counts as %d", q, got)
		}
	}
	if got := (CleanupRow{}).Units(); got != 0 {
		t.Errorf("no quantity counts as %d", got)
	}
}

// SQS refuses a message with U+FFFE or U+FFFF (Amazon SQS API reference, SendMessage), and a dimension may hold them.
func TestMessagesHoldWhatSQSCarries(t *testing.T) {
	t.Parallel()
	odd := "api\uFFFE\uFFFF\x01\u2028"
	body := Encode(WorkMessage{License: "l", Dimension: odd})
	if strings.ContainsAny(body, "\uFFFE\uFFFF\x01") {
		t.Errorf("body %q", body)
	}
	m, err := Decode[WorkMessage](body)
	if err != nil || m.Dimension != odd {
		t.Errorf("dimension %q, %v, want %q", m.Dimension, err, odd)
	}
}
