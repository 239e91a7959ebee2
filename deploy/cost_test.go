package deploy_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/template"
)

// TestCostOfBeingThere holds the two tables of docs/cost.md to what the templates make.
func TestCostOfBeingThere(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/cost.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		deployment int
		head       string
	}{{2, "| of the metering stack, full |"}, {0, "| of the events stack |"}} {
		d := deployments()[tt.deployment]
		if want := strings.Join(standingCosts(d.stack(t, nil)), "\n"); !strings.Contains(string(page), tt.head+" how many | price | dollars |\n|---|---|---|---|\n"+want+"\n") {
			t.Errorf("docs/cost.md, under %q, for %s; want\n%s", tt.head, d.name, want)
		}
	}
	direct := len(deployments()[4].stack(t, nil).OfType("AWS::CloudWatch::Alarm"))
	if want := fmt.Sprintf("direct-submit has %d alarms", direct); !strings.Contains(string(page), want) {
		t.Errorf("docs/cost.md does not say that %s", want)
	}
}

// standingCosts are the lines of the table: what a stack has that costs something although nothing happens, in cents a month.
func standingCosts(s *template.Stack) []string {
	acls, rules := s.OfType("AWS::WAFv2::WebACL"), 0
	for _, acl := range acls {
		list, _ := acl.Get("Rules").([]any)
		rules += len(list)
	}
	var lines []string
	total := 0
	for _, item := range []struct {
		what         string
		count, cents int
		price        string
	}{
		{"alarms", len(s.OfType("AWS::CloudWatch::Alarm")), 10, "$0.10"},
		{"dashboard", len(s.OfType("AWS::CloudWatch::Dashboard")), 300, "$3"},
		{"web ACL", len(acls), 500, "$5"},
		{"its rules", rules, 100, "$1"},
	} {
		if item.count == 0 {
			continue
		}
		total += item.count * item.cents
		lines = append(lines, fmt.Sprintf("| %s | %d | %s each | %s |", item.what, item.count, item.price, dollars(item.count*item.cents)))
	}
	return append(lines, fmt.Sprintf("| **all** | | | **%s** |", dollars(total)))
}

func dollars(cents int) string { return fmt.Sprintf("$%d.%02d", cents/100, cents%100) }
