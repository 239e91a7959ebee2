package deploy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/template"
)

// usualPlace is where stacks are resolved unless a test says otherwise.
func usualPlace() template.Place {
	return template.Place{Region: "us-east-1", Account: "111122223333", Partition: "aws", StackName: "stack"}
}

// brokenText is the template that the fault is in, all of its text read anew: the fault may be in any section.
func brokenText(t *testing.T, f fault) *template.Template {
	t.Helper()
	text := fileText(t, deploymentNamed(t, f.in).file)
	before, rest, found := strings.Cut(text, "\n  "+f.at+":")
	entry, after := rest[:entryLength(rest)], rest[entryLength(rest):]
	if !found || !strings.Contains(entry, f.old) {
		t.Fatalf("the template has no %s with %q", f.at, f.old)
	}
	broken, err := template.Parse([]byte(before + "\n  " + f.at + ":" + strings.Replace(entry, f.old, f.new, 1) + after))
	if err != nil {
		t.Fatal(err)
	}
	return broken
}

// brokenAt is what the broken template deploys with more parameters in a place.
func brokenAt(t *testing.T, f fault, more map[string]string, at template.Place) *template.Stack {
	t.Helper()
	s, err := brokenText(t, f).Resolve(deploymentNamed(t, f.in).all(more), at)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// complains fails the test unless one of the problems says it.
func complains(t *testing.T, problems []string, says string) {
	t.Helper()
	if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, says) }) {
		t.Errorf("nothing says %q: %q", says, problems)
	}
}

// grantsIn are what a policy allows, a line "action resource" each and in order, and what is in it that does more or less than that.
func grantsIn(document any) (lines, wrong []string) {
	policy, _ := document.(map[string]any)
	statements, _ := policy["Statement"].([]any)
	if policy["Version"] != "2012-10-17" || len(policy) != 2 || len(statements) == 0 {
		return nil, []string{fmt.Sprintf("no policy of version 2012-10-17: %v", document)}
	}
	for _, x := range statements {
		statement, _ := x.(map[string]any)
		if statement["Effect"] != "Allow" || statement["Action"] == nil || statement["Resource"] == nil || len(statement) != 3 {
			wrong = append(wrong, fmt.Sprintf("a statement that is not of Effect: Allow, Action and Resource alone: %v", statement))
		}
		for _, action := range oneOrMore(statement["Action"]) {
			for _, resource := range oneOrMore(statement["Resource"]) {
				lines = append(lines, action+" "+resource)
			}
		}
	}
	slices.Sort(lines)
	if once := slices.Compact(slices.Clone(lines)); len(once) != len(lines) {
		wrong = append(wrong, fmt.Sprintf("something is allowed twice: %q", lines))
	}
	return lines, wrong
}

// grantsApart says where what is allowed is not what is needed.
func grantsApart(needs, allowed []string) (wrong []string) {
	for _, line := range needs {
		if !slices.Contains(allowed, line) {
			wrong = append(wrong, "does not allow "+line)
		}
	}
	for _, line := range allowed {
		if !slices.Contains(needs, line) {
			wrong = append(wrong, "allows, for no need, "+line)
		}
	}
	return wrong
}

// oneOrMore is a text, or a list of them, as a policy may have it.
func oneOrMore(x any) (all []string) {
	switch x := x.(type) {
	case string:
		return []string{x}
	case []any:
		for _, item := range x {
			all = append(all, fmt.Sprint(item))
		}
	}
	return all
}
