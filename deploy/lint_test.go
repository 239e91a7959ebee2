package deploy_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/template"
)

// lint runs cfn-lint over templates, hints too, and gives each line that it says. It knows the schemas of all types, and so whether a property is misspelt or a value
// is of the wrong kind, which internal/template does not.
//
// What it does not see (tried with 1.51.0) has tests of its own here: a sixth target of a rule (TestTargetsAreConstant), more data points to alarm than there are
// periods (TestAlarmsRingWhenTheyShould), a batch that a queue cannot make without waiting (TestQueuesCallFunctionsThatKeepUp).
func lint(t *testing.T, files ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "cfn-lint", append([]string{"--format", "parseable", "--include-checks", "I", "--"}, files...)...)
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatalf("cfn-lint: %v", err)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' })
}

func TestTemplatesPassCfnLint(t *testing.T) {
	t.Parallel()
	if err := exec.CommandContext(t.Context(), "cfn-lint", "--version").Run(); err != nil {
		hint := fmt.Sprintf("cfn-lint cannot be run: %v\nTry: pip install cfn-lint==1.51.0", err)
		if os.Getenv("CI") != "" {
			t.Fatal(hint)
		}
		t.Skip(hint)
	}
	text := fileText(t, eventsTemplate)
	broken := strings.Replace(text, "MemorySize: 256", "MemoryInMB: 256", 1)
	file := filepath.Join(t.TempDir(), "broken.yaml")
	if err := os.WriteFile(file, []byte(broken), 0o600); err != nil {
		t.Fatal(err)
	}
	seen := false
	for _, line := range lint(t, eventsTemplate, meteringTemplate, file) { // one run: most of its time is its start
		if !strings.HasPrefix(line, file+":") {
			t.Error(line)
		}
		seen = seen || strings.Contains(line, "MemoryInMB")
	}
	if !seen || broken == text {
		t.Error("cfn-lint does not see MemoryInMB in the place of MemorySize")
	}
}

var checkID = regexp.MustCompile(`\b[EWI][0-9]{4}\b`)

// checkSuppressions: nothing is kept from cfn-lint but what the head of the template gives a reason for, in a comment right above it.
func checkSuppressions(text string) (wrong []string) {
	lines := strings.Split(text, "\n")
	at := -1
	for i, line := range lines {
		if code, _, _ := strings.Cut(line, "#"); strings.Contains(code, "cfn-lint") {
			if at >= 0 {
				wrong = append(wrong, fmt.Sprintf("line %d: cfn-lint is told something once more", i+1))
			}
			at = i
		}
	}
	if at < 0 {
		return append(wrong, "cfn-lint is told nothing")
	}
	tmpl, err := template.Parse([]byte(text))
	if err != nil {
		return append(wrong, err.Error())
	}
	told := template.Resource{Properties: tmpl.Metadata}
	ignored := oneOrMore(told.Get("cfn-lint", "config", "ignore_checks"))
	if !slices.Equal(ignored, []string{"W3002"}) || fmt.Sprint(told.Get("cfn-lint")) != "map[config:map[ignore_checks:[W3002]]]" {
		wrong = append(wrong, fmt.Sprintf("cfn-lint is told %v, want to ignore W3002 and nothing else", told.Get("cfn-lint")))
	}
	for _, id := range ignored {
		reason := ""
		for i := at - 1; i >= 0 && strings.HasPrefix(strings.TrimSpace(lines[i]), "#"); i-- {
			reason = strings.TrimSpace(lines[i]) + reason
		}
		if ids := checkID.FindAllString(reason, -1); !slices.Contains(ids, id) || len(reason) < 60 {
			wrong = append(wrong, fmt.Sprintf("no comment right above says why %s is ignored: %q", id, reason))
		}
	}
	return wrong
}

func TestWhatCfnLintIgnoresHasAReason(t *testing.T) {
	t.Parallel()
	for _, file := range []string{eventsTemplate, meteringTemplate} {
		text := fileText(t, file)
		for _, problem := range checkSuppressions(text) {
			t.Errorf("%s: %s", file, problem)
		}
		for _, f := range []struct{ old, new, says string }{
			{"# W3002:", "# Because:", "why W3002 is ignored"},
			{"  cfn-lint: {config", "\n  cfn-lint: {config", "why W3002 is ignored"},
			{"[W3002]", "[W3002, E3012]", "want to ignore W3002 and nothing else"},
			{"[W3002]", "[W3002, E3012]", "why E3012 is ignored"},
			{"{ignore_checks: [W3002]}", "{ignore_checks: [W3002], regions: [us-east-1]}", "and nothing else"},
			{"    Type: AWS::IAM::Role\n", "    Type: AWS::IAM::Role\n    Metadata: {cfn-lint: {config: {ignore_checks: [E3012]}}}\n", "told something once more"},
			{"  cfn-lint: {config: {ignore_checks: [W3002]}}\n", "", "is told nothing"},
		} {
			changed := strings.Replace(text, f.old, f.new, 1)
			if changed == text {
				t.Errorf("%s has no %q", file, f.old)
			}
			complains(t, checkSuppressions(changed), f.says)
		}
	}
	// Nor is there a file of settings for it.
	for _, folder := range []string{".", ".."} {
		if found, err := filepath.Glob(filepath.Join(folder, ".cfnlintrc*")); err != nil || len(found) > 0 {
			t.Errorf("cfn-lint is told more by %q (%v)", found, err)
		}
	}
}
