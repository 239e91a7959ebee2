package deploy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/template"
)

// TestCostOfBeingThere holds the two tables of docs/cost.md to what the templates make.
func TestCostOfBeingThere(t *testing.T) {
	t.Parallel()
	page := fileText(t, "../docs/cost.md")
	for _, tt := range []struct {
		deployment, head string
	}{{"full live", "| of the metering stack, full |"}, {"events live", "| of the events stack |"}} {
		d := deploymentNamed(t, tt.deployment)
		if want := strings.Join(standingCosts(d.whole(t)), "\n"); !strings.Contains(page, tt.head+" how many | price | dollars |\n|---|---|---|---|\n"+want+"\n") {
			t.Errorf("docs/cost.md, under %q, for %s; want\n%s", tt.head, d.name, want)
		}
	}
	direct := len(deploymentNamed(t, "direct-submit live").whole(t).OfType(alarmType))
	if want := fmt.Sprintf("direct-submit has %d alarms", direct); !strings.Contains(page, want) {
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
		{"alarms", len(s.OfType(alarmType)), 10, "$0.10"},
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
