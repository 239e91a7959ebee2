package deploy_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/functions"
	"github.com/awsmp/metering/internal/template"
)

// longestEnvironment is what all variables of a function may be together (AWS Lambda quotas, "Function environment variables"), in bytes.
const longestEnvironment = 4096

// environmentOf is what the stack gives a function, and what Lambda itself adds.
func environmentOf(r template.Resource, region string) map[string]string {
	variables, _ := r.Get("Environment", "Variables").(map[string]any)
	values := map[string]string{"AWS_REGION": region}
	for name := range variables {
		values[name] = r.Text("Environment", "Variables", name)
	}
	return values
}

// getenvOf is an environment with some variables changed.
func getenvOf(values, changes map[string]string) func(string) string {
	return func(name string) string {
		if changed, ok := changes[name]; ok {
			return changed
		}
		return values[name]
	}
}

// handlersOf are the functions that a kind of stack has. Those of the metering stack know their product, those of the events stack serve all.
func handlersOf(s *template.Stack) []string {
	if s.Parameters["DeploymentMode"] == "direct-submit" {
		return []string{functions.Registration, functions.SubmissionExpiry, functions.Submitter}
	}
	_, ofProduct := s.Parameters["ProductCode"]
	var handlers []string
	for _, f := range functions.All() {
		if slices.ContainsFunc(f.Variables, func(v functions.Variable) bool { return v.Name == "PRODUCT_CODE" }) == ofProduct {
			handlers = append(handlers, f.Handler)
		}
	}
	return slices.Sorted(slices.Values(handlers))
}

// checkEnvironments: a function starts with what the stack gives it, and is given nothing that it does not ask for.
func checkEnvironments(s *template.Stack) (wrong []string) {
	for _, r := range s.OfType(lambdaType) {
		f, err := functions.Named(r.Text("Handler"))
		if err != nil {
			continue // checkPrograms says so
		}
		values := environmentOf(r, "us-east-1")
		asked, size := map[string]bool{}, 0
		for _, v := range f.Variables {
			asked[v.Name] = true
			_, given := values[v.Name]
			if _, inTemplate := r.Get("Environment", "Variables").(map[string]any)[v.Name]; v.Reserved && inTemplate {
				wrong = append(wrong, fmt.Sprintf("%s sets %s, which Lambda refuses", r.ID, v.Name))
			}
			if !given && v.Default == "" {
				wrong = append(wrong, fmt.Sprintf("%s does not get %s", r.ID, v.Name))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(values)) {
			size += len(name) + len(values[name])
			if !asked[name] {
				wrong = append(wrong, fmt.Sprintf("%s gets %s, which it does not read", r.ID, name))
			}
		}
		if size > longestEnvironment {
			wrong = append(wrong, fmt.Sprintf("%s: %d bytes of environment, Lambda takes %d", r.ID, size, longestEnvironment))
		}
		if _, err := f.Read(getenvOf(values, nil)); err != nil {
			wrong = append(wrong, fmt.Sprintf("%s does not start: %v", r.ID, err))
		}
	}
	return wrong
}

func TestFunctionsStartWithWhatTheyGet(t *testing.T) {
	t.Parallel()
	upholds(t, checkEnvironments,
		fault{"full live", "CleanupFunction", "          USAGE_TABLE: !Ref UsageTable", "          USAGE_TABLE_NAME: !Ref UsageTable", "CleanupFunction gets USAGE_TABLE_NAME"},
		fault{"full live", "AggregatorFunction", "          USAGE_TABLE: !Ref UsageTable\n", "", "AggregatorFunction does not get USAGE_TABLE"},
		fault{"full live", "AggregatorFunction", "USAGE_TABLE: !Ref UsageTable", "USAGE_TABLE: !Ref AggregatedUsageTable", "which USAGE_TABLE is too"},
		fault{"full live", "DiscovererFunction", "WORK_QUEUE_URL: !Ref WorkQueue", "WORK_QUEUE_URL: !GetAtt WorkQueue.Arn", "DiscovererFunction does not start"},
		fault{"direct-submit live", "SubmitterFunction", "          PRODUCT_CODE", "          AWS_REGION: !Ref AWS::Region\n          PRODUCT_CODE", "sets AWS_REGION, which Lambda refuses"},
		fault{"direct-submit live", "SubmitterFunction", "!Ref UsageTableTtlDays", "never", "SubmitterFunction does not start"},
		fault{"events live", "SubscriptionFunction", "TEST_STAGE: !If [TestStage, !Ref StageName, none]", "TEST_STAGE: !Ref StageName", "SubscriptionFunction does not start"},
		fault{"events test stage", "SubscriptionFunction", "TEST_STAGE: !If [TestStage, !Ref StageName, none]", "TEST_STAGE: other", "SubscriptionFunction does not start"},
	)
}

// docsOf are memory in MB and timeout in seconds of each handler, as docs/functions.md has them.
func docsOf(t *testing.T) map[string][2]int {
	t.Helper()
	text := fileText(t, "../docs/functions.md")
	row := regexp.MustCompile("(?m)^\\| ((?:`[a-z-]+`(?:, )?)+) \\| ([0-9]+) MB \\| ([0-9]+) s \\|")
	found := map[string][2]int{}
	for _, cells := range row.FindAllStringSubmatch(text, -1) {
		memory, _ := strconv.Atoi(cells[2])
		timeout, _ := strconv.Atoi(cells[3])
		for name := range strings.SplitSeq(cells[1], ", ") {
			found[strings.Trim(name, "`")] = [2]int{memory, timeout}
		}
	}
	if len(found) != len(functions.All()) {
		t.Fatalf("docs/functions.md tells of %d functions, want %d", len(found), len(functions.All()))
	}
	return found
}

// packaged is the file that scripts/package.sh writes, below the module.
func packaged(t *testing.T) string {
	t.Helper()
	script := fileText(t, "../scripts/package.sh")
	folder := regexp.MustCompile(`(?m)^out=\$\{1:-([a-z]+)\}$`).FindStringSubmatch(script)
	file := regexp.MustCompile(`(?m)lambdazip "\$program" "\$out/([a-z.-]+)"$`).FindStringSubmatch(script)
	if folder == nil || file == nil {
		t.Fatal("scripts/package.sh does not say what it writes")
	}
	return filepath.Join(string(folder[1]), string(file[1]))
}

// checkPrograms: the functions of the stack are those of the program, each once, and run as docs/functions.md says.
func checkPrograms(docs map[string][2]int, program string) func(*template.Stack) []string {
	return func(s *template.Stack) (wrong []string) {
		var handlers []string
		for _, r := range s.OfType(lambdaType) {
			handler := r.Text("Handler")
			handlers = append(handlers, handler)
			if _, err := functions.Named(handler); err != nil {
				wrong = append(wrong, fmt.Sprintf("%s: %v", r.ID, err))
			}
			for _, want := range []struct {
				value any
				path  []string
			}{
				{"provided.al2023", []string{"Runtime"}},
				{"[arm64]", []string{"Architectures"}},
				{"Text", []string{"LoggingConfig", "LogFormat"}}, // JSON with a level filter drops metrics
				{docs[handler][0], []string{"MemorySize"}},
				{docs[handler][1], []string{"Timeout"}},
			} {
				if got := fmt.Sprint(r.Get(want.path...)); got != fmt.Sprint(want.value) {
					wrong = append(wrong, fmt.Sprintf("%s: %s is %s, want %v", r.ID, strings.Join(want.path, "."), got, want.value))
				}
			}
			if code := filepath.Join("deploy", r.Text("Code")); code != program {
				wrong = append(wrong, fmt.Sprintf("%s runs %s, and the package is %s", r.ID, code, program))
			}
		}
		if slices.Sort(handlers); !slices.Equal(handlers, handlersOf(s)) {
			wrong = append(wrong, fmt.Sprintf("handlers are %q, want %q", handlers, handlersOf(s)))
		}
		return wrong
	}
}

func TestFunctionsAreTheProgram(t *testing.T) {
	t.Parallel()
	upholds(t, checkPrograms(docsOf(t), packaged(t)),
		fault{"full live", "CleanupFunction", "Handler: cleanup", "Handler: clean-up", `there is no handler "clean-up"`},
		fault{"full live", "CleanupFunction", "Handler: cleanup", "Handler: aggregator", "handlers are"},
		fault{"direct-submit live", "SubmissionExpiryFunction", "Handler: submission-expiry", "Handler: submitter", "handlers are"},
		fault{"direct-submit live", "CleanupLogs", "Type: AWS::Logs::LogGroup\n    Condition: FullPipeline", "Type: AWS::Lambda::Function", `there is no handler ""`},
		fault{"full live", "CleanupFunction", "arm64", "x86_64", "Architectures is [x86_64]"},
		fault{"full live", "CleanupFunction", "provided.al2023", "provided.al2", "Runtime is provided.al2,"},
		fault{"full live", "CleanupFunction", "LogFormat: Text", "LogFormat: JSON", "LogFormat is JSON"},
		fault{"full live", "CleanupFunction", "MemorySize: 256", "MemorySize: 512", "MemorySize is 512, want 256"},
		fault{"full live", "SubmitterFunction", "Timeout: 300", "Timeout: 240", "Timeout is 240, want 300"},
		fault{"events live", "SubscriptionFunction", "../dist/", "dist/", "runs deploy/dist/awsmp-bootstrap.zip"},
	)
}

// checkTimeouts: what the code allows itself ends before AWS ends the process.
func checkTimeouts(t *testing.T) func(*template.Stack) []string {
	const gateway = 29 * time.Second // Amazon API Gateway quotas, integration timeout of a REST API
	own := func(name string) time.Duration { return codeDuration(t, "internal/marketplace", name) }
	end := codeDuration(t, "internal/functions", "reserve")
	needs := map[string]time.Duration{
		functions.Submitter:    own("defaultLimit") + own("callTimeout") + own("writeBack") + end, // calls begin until the limit; the last one's verdicts are written
		functions.Registration: own("resolvePatience") + end,                                      // two writes more follow, of milliseconds each
	}
	return func(s *template.Stack) (wrong []string) {
		for _, r := range s.OfType(lambdaType) {
			seconds, _ := r.Int("Timeout")
			timeout, handler := time.Duration(seconds)*time.Second, r.Text("Handler")
			if timeout < needs[handler] {
				wrong = append(wrong, fmt.Sprintf("%s has %v and may need %v", r.ID, timeout, needs[handler]))
			}
			if handler == functions.Registration && timeout > gateway {
				wrong = append(wrong, fmt.Sprintf("%s has %v, and API Gateway waits for %v", r.ID, timeout, gateway))
			}
		}
		return wrong
	}
}

func TestTimeoutsAreLongEnough(t *testing.T) {
	t.Parallel()
	if limit, reserve := codeDuration(t, "internal/marketplace", "defaultLimit"), codeDuration(t, "internal/marketplace", "reserve"); limit != 270*time.Second || reserve != 25*time.Second {
		t.Errorf("docs/functions.md says 270 and 25 seconds, the code %v and %v", limit, reserve)
	}
	upholds(t, checkTimeouts(t),
		fault{"direct-submit live", "SubmitterFunction", "Timeout: 300", "Timeout: 290", "SubmitterFunction has 4m50s and may need 4m57s"},
		fault{"direct-submit live", "RegistrationFunction", "Timeout: 15", "Timeout: 9", "RegistrationFunction has 9s and may need 10s"},
		fault{"direct-submit live", "RegistrationFunction", "Timeout: 15", "Timeout: 30", "API Gateway waits"},
	)
}
