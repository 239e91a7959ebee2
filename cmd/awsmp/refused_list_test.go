package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

// A long list has an end and says so, and its command can be copied.
func TestALongListOfRefusedUsageHasAnEnd(t *testing.T) {
	t.Parallel()
	l := desk.Refused{Reopenable: pipeline.Reopenable{Records: 1_100, Units: 2_200}, More: 100}
	for i := range 1_000 {
		l.List = append(l.List, pipeline.LicenseRefusal{License: exampleLicense, Left: "1h0m0s", Refusal: pipeline.Refusal{
			Account: exampleAccount, Dimension: fmt.Sprintf("dim_%d", i), Hour: "2026-03-10T14", Units: 2, Status: metering.CustomerNotSubscribed,
		}})
	}
	text := func() string {
		var b strings.Builder
		if err := writeRefusals(&b, l, " --data 'my data'"); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	got := text()
	for _, want := range []string{
		"1,100 refused records, 2,200 units, can be sent once more.\n", "dim_39 ",
		"\n  and 1,060 records more: --license narrows the list, --json shows up to 1,000\n",
		"\n  awsmp refused retry --license " + exampleLicense + " --data 'my data'\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if strings.Contains(got, "dim_40 ") {
		t.Error("more than 40 records are listed")
	}
	l.List[0].License = "l-\x1b[31m"
	if got = text(); strings.Contains(got, "\x1b") || strings.Contains(got, "refused retry") || !strings.Contains(got, `"l-\x1b[31m"`) {
		t.Errorf("a license steers the terminal:\n%s", got[:300])
	}
}
