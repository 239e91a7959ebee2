package deploy_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/template"
)

var (
	entryHead = regexp.MustCompile(`(?m)^## (.+)$`)
	tocRow    = regexp.MustCompile(`(?m)^\| \[([^\]]+)\]\(#([^)]+)\) \| (.+) \|$`)
)

// leads are the parts of an entry.
func leads() []string {
	return []string{"**What it means in money.**", "**How to look.**", "**What to do.**", "**How to know that it is over.**"}
}

// longestEntry is a screen, or so, in lines.
const longestEntry = 40

// entryProblems holds the runbook against the entries that alarms lead to: each has one, nothing else has, all have the same four parts, and the list at the top names
// them in their order.
func entryProblems(runbook string, wanted map[string]bool) (wrong []string) {
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	var order, listed []string
	heads := entryHead.FindAllStringSubmatchIndex(runbook, -1)
	for i, head := range heads {
		name, end := runbook[head[2]:head[3]], len(runbook)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		text, _, _ := strings.Cut(runbook[head[1]:end], "\n# ")
		if !wanted[name] || slices.Contains(order, name) {
			note("the runbook's entry %s is no alarm's, or there twice", name)
		}
		order = append(order, name)
		if lines := strings.Count(text, "\n"); lines > longestEntry {
			note("the runbook's entry %s has %d lines", name, lines)
		}
		at := 0
		for _, lead := range leads() {
			next := strings.Index(text, lead)
			if next < at || strings.Count(text, lead) != 1 || len(strings.TrimSpace(text[next+len(lead):])) < 10 {
				note("the runbook's entry %s lacks the part %s", name, lead)
			}
			at = max(at, next)
		}
	}
	for _, row := range tocRow.FindAllStringSubmatch(runbook, -1) {
		if row[1] != row[2] {
			note("the runbook's list leads from %s to %s", row[1], row[2])
		}
		listed = append(listed, row[1])
	}
	if !slices.Equal(order, listed) {
		note("the runbook's list has other entries or another order: %q, not %q", listed, order)
	}
	for name := range wanted {
		if !slices.Contains(order, name) {
			note("the runbook has no entry %s", name)
		}
	}
	return wrong
}

func runbookText(t *testing.T) string { t.Helper(); return fileText(t, "../docs/runbook.md") }

// spoken are the words of the runbook that stand in a command, and in which lists they have to be.
func spoken(stacks []*template.Stack, sources string) []speech {
	names := func(resourceType, property string) (list []string) {
		for _, s := range stacks {
			for _, r := range s.OfType(resourceType) {
				list = append(list, r.Text(property))
			}
		}
		return list
	}
	in := func(list []string) func(string) bool {
		return func(word string) bool { return slices.Contains(list, word) }
	}
	metrics := slices.Collect(maps.Values(metricConstants()))
	statuses := slices.Collect(maps.Values(constantsOf("../internal/metering/status.go", "Status")))
	lambda := []string{"Task timed out", "panic", "runtime exited"} // AWS Lambda's own words
	var parameters []string
	for _, s := range stacks {
		parameters = slices.AppendSeq(parameters, maps.Keys(s.Parameters))
	}
	return []speech{
		{"function", `lines (\S+) '`, in(names(lambdaType, "FunctionName"))},
		{"function", `--function-name (\S+)`, in(names(lambdaType, "FunctionName"))},
		{"function", `mappings (\S+)`, in(names(lambdaType, "FunctionName"))},
		{"words of a log", `lines \S+ '([^']+)'`, func(pattern string) bool {
			for _, words := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(pattern, -1) {
				for _, part := range strings.Split(words[1], "=") {
					if !slices.Contains(lambda, part) && !strings.Contains(sources, part) {
						return false
					}
				}
			}
			return strings.Count(pattern, `"`) > 1
		}},
		{"metric", `(?:total|reasons) (\w+)`, func(word string) bool { return slices.Contains(metrics, strings.TrimSuffix(word, "Units")) }},
		{"status", `ended (?:usage|aggregated-usage) (\w+)`, in(statuses)},
		{"queue", `(?:look|redrive|url) ([\w$-]+)`, in(names(queueType, "QueueName"))},
		{"parameter", `setting (\w+) `, in(parameters)},
		{"parameter", `ParameterKey=='(\w+)'`, in(parameters)},
		{"rule", `(?:--rule|-rule --name|describe-rule \$EVENTS --name) (\S+)`, in(names(ruleType, "Name"))},
		{"schedule", `get-schedule \$EVENTS --name (\S+)`, in(names(scheduleType, "Name"))},
		{"alarm", `--alarm-name (\S+)`, in(names(alarmType, "AlarmName"))},
	}
}

type speech struct {
	what, form string
	known      func(string) bool
}

// commandForm is a line of a block, a fenced block, or what stands between backquotes.
var commandForm = regexp.MustCompile("(?m)^    .+$|(?s:```.*?```)|`[^`]+`")

// strangers are the words in the runbook's commands that nothing goes by.
func strangers(runbook string, all []speech) (wrong []string) {
	_, text, _ := strings.Cut(runbook, "\n# Alarms\n")
	commands := strings.Join(commandForm.FindAllString(text, -1), "\n")
	commands = strings.ReplaceAll(commands, "$M", "awsmp-"+product)
	for _, s := range all {
		found := regexp.MustCompile(s.form).FindAllStringSubmatch(commands, -1)
		if len(found) == 0 {
			wrong = append(wrong, "the runbook names no "+s.what)
		}
		for _, match := range found {
			if word := strings.Trim(match[1], "`,.;:)"); !s.known(word) {
				wrong = append(wrong, fmt.Sprintf("the runbook speaks of a %s %s, which is none", s.what, word))
			}
		}
	}
	return wrong
}

// sourceText is the text of the code that runs in functions.
func sourceText(t *testing.T) string {
	t.Helper()
	var all bytes.Buffer
	err := filepath.WalkDir("../internal", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func TestRunbookSpeaksOfWhatIsThere(t *testing.T) {
	t.Parallel()
	text, all := runbookText(t), spoken(allStacks(t), sourceText(t))
	for _, problem := range strangers(text, all) {
		t.Error(problem)
	}
	for _, tt := range []struct{ old, with, says string }{
		{`'"visit of a group failed"'`, `'"visit of a group went wrong"'`, "words of a log"},
		{"lines $M-submitter ", "lines $M-sender ", "function awsmp-exampleproduct-sender"},
		{"total UsageLateUnits", "total LateUnits", "metric LateUnits"},
		{"ended usage LateUsage", "ended usage Late", "status Late,"},
		{"redrive $M-work-dlq", "redrive $M-work-dead", "queue awsmp-exampleproduct-work-dead"},
		{"setting Submission ", "setting Submit ", "parameter Submit"},
		{"--rule $M-submit ", "--rule $M-send ", "rule awsmp-exampleproduct-send"},
		{"mappings $M-cleanup", "mappings $M-clean", "function awsmp-exampleproduct-clean,"},
	} {
		if !strings.Contains(text, tt.old) {
			t.Errorf("the runbook has no %q", tt.old)
		}
		problems := strangers(strings.ReplaceAll(text, tt.old, tt.with), all)
		if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, tt.says) }) {
			t.Errorf("nothing says %q of %q: %q", tt.says, tt.with, problems)
		}
	}
}

// metricConstants are the metrics that the code knows, by the name of the constant.
func metricConstants() map[string]string {
	return constantsOf("../internal/metering/port.go", "Metric")
}

// constantsOf are the string constants of a type in a file of Go, by name. They are read from the text so that a new one is noticed.
func constantsOf(file, of string) map[string]string {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		panic(err) // the tests run beside the code
	}
	found := map[string]string{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, value := range spec.Values {
			kind := spec.Type
			if call, ok := value.(*ast.CallExpr); ok && len(call.Args) == 1 {
				kind, value = call.Fun, call.Args[0]
			}
			name, typed := kind.(*ast.Ident)
			if literal, ok := value.(*ast.BasicLit); ok && typed && name.Name == of && literal.Kind == token.STRING {
				found[spec.Names[i].Name], _ = strconv.Unquote(literal.Value)
			}
		}
		return true
	})
	return found
}

func TestConstantsAreFound(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "port.go")
	text := "package p\nconst (\n\tA Metric = \"a\"\n\tB = Metric(\"b\")\n\tC Status = \"c\"\n\tD = \"d\"\n)\nconst E Metric = `e`\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"A": "a", "B": "b", "E": "e"}, constantsOf(file, "Metric")); diff != "" {
		t.Error(diff)
	}
	for name, list := range map[string]map[string]string{ // that the real files hold what they are read for
		string(metering.MetricRowLate): metricConstants(), string(ledger.InDoubt): constantsOf("../internal/ledger/place.go", "Place"),
		string(metering.LateUsage): constantsOf("../internal/metering/status.go", "Status"),
	} {
		if !slices.Contains(slices.Collect(maps.Values(list)), name) {
			t.Errorf("%q is not found: %v", name, list)
		}
	}
	if places := len(constantsOf("../internal/ledger/place.go", "Place")); places != len(ledger.Places()) {
		t.Errorf("%d places are found, there are %d", places, len(ledger.Places()))
	}
}

// indentedBlock is a block of commands in an entry; the tools, which it uses, stand in a fenced one.
var indentedBlock = regexp.MustCompile("(?m)(?s:^```.*?^```\n)|(?:^    .*\n)+")

// TestRunbookSpeaksTheAWSCLI: each command, operation and option in the runbook exists, and a shell can read every block. What stands in a variable is not seen,
// the query of two tools; and a filter of logs is no JSON though it has braces.
func TestRunbookSpeaksTheAWSCLI(t *testing.T) {
	t.Parallel()
	notSeen := regexp.MustCompile(`^no JSON: |\$show is no query`)
	problems := func(page string) (wrong []string) {
		page = strings.ReplaceAll(page, "EVENTS=\"--region us-east-1\"", "EVENTS=x")
		page = strings.ReplaceAll(page, "$EVENTS", "--region us-east-1")
		page = indentedBlock.ReplaceAllStringFunc(page, func(block string) string {
			if strings.HasPrefix(block, "```") {
				return block
			}
			return "```sh\n" + strings.ReplaceAll("\n"+block, "\n    ", "\n")[1:] + "```\n"
		})
		all := append(shellProblems(t, page), awsProblems(t, commandsOf(page))...)
		return slices.DeleteFunc(all, notSeen.MatchString)
	}
	for _, problem := range problems(runbookText(t)) {
		t.Error(problem)
	}
	wrong := "    aws sqs get-queue-attribute --queue-url x\n    aws sqs purge-queue --queue x\n\nText.\n\n    for q in a b; do echo $q\n"
	if found := problems(wrong); len(found) < 3 {
		t.Errorf("of an operation, an option and a loop that are wrong it finds %q", found)
	}
}
