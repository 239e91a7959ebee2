package deploy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/awsmp/metering/internal/functions"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/internal/template"
)

// fault is a template broken on purpose, and what a check then has to say.
type fault struct {
	in       string // name of the deployment
	at       string // logical ID of the resource, or name of the parameter, that is broken
	old, new string // its first occurrence there; where both are empty the whole of it is taken out
	says     string // part of a problem
}

// upholds shows both sides of a check: it finds nothing in any deployment, and something in each fault.
func upholds(t *testing.T, check func(*template.Stack) []string, faults ...fault) {
	t.Helper()
	for _, d := range deployments() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			for _, problem := range check(d.whole(t)) {
				t.Error(problem)
			}
		})
	}
	for i, f := range faults {
		t.Run(fmt.Sprintf("fault %d in %s", i+1, f.at), func(t *testing.T) {
			t.Parallel()
			problems := check(f.stack(t, nil))
			if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, f.says) }) {
				t.Errorf("nothing says %q of %q in the place of %q: %q", f.says, f.new, f.old, problems)
			}
		})
	}
}

// Hundreds of stacks are looked at: a template is read once, and a stack that nothing is changed in is made once. Nobody changes what these give.
var (
	eventsText   = sync.OnceValues(func() (*template.Template, error) { return template.Read(eventsTemplate) })
	meteringText = sync.OnceValues(func() (*template.Template, error) { return template.Read(meteringTemplate) })
	wholeStacks  = sync.OnceValues(func() (map[string]*template.Stack, error) {
		stacks := map[string]*template.Stack{}
		var errs []error
		for _, d := range deployments() {
			tmpl, err := d.text()
			if err == nil {
				stacks[d.name], err = tmpl.Resolve(d.all(nil), template.Place{})
			}
			errs = append(errs, err)
		}
		return stacks, errors.Join(errs...)
	})
)

func (d deployment) text() (*template.Template, error) {
	if d.file == eventsTemplate {
		return eventsText()
	}
	return meteringText()
}

// template is the deployment's template, which nobody changes.
func (d deployment) template(t *testing.T) *template.Template {
	t.Helper()
	tmpl, err := d.text()
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

// with is the deployment's stack with more parameters or others.
func (d deployment) with(t *testing.T, more map[string]string) *template.Stack {
	t.Helper()
	s, err := d.template(t).Resolve(d.all(more), template.Place{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// whole is the deployment's stack as it is written.
func (d deployment) whole(t *testing.T) *template.Stack {
	t.Helper()
	stacks, err := wholeStacks()
	if err != nil {
		t.Fatal(err)
	}
	return stacks[d.name]
}

// stack is what the broken template deploys, with more parameters or others. Only the entry with the fault is read again.
func (f fault) stack(t *testing.T, more map[string]string) *template.Stack {
	t.Helper()
	d := deploymentNamed(t, f.in)
	whole := d.template(t)
	section, entry := f.entry(t, fileText(t, d.file))
	broken := *whole
	broken.Parameters, broken.Resources, broken.Outputs = maps.Clone(whole.Parameters), maps.Clone(whole.Resources), maps.Clone(whole.Outputs)
	delete(broken.Resources, f.at)
	delete(broken.Outputs, f.at)
	if entry != "" {
		if section != "Resources" {
			entry += "\nResources: {}"
		}
		read, err := template.Parse([]byte(section + ":" + entry))
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(broken.Parameters, read.Parameters)
		maps.Copy(broken.Resources, read.Resources)
		maps.Copy(broken.Outputs, read.Outputs)
	}
	s, err := broken.Resolve(d.all(more), template.Place{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var (
	nextEntry = regexp.MustCompile(`\n( {2})?[A-Za-z]`)
	sections  = regexp.MustCompile(`(?m)^(Parameters|Resources|Outputs):$`)
)

// entryLength is where an entry ends that a text begins in: before the next one, or with the text.
func entryLength(text string) int {
	if next := nextEntry.FindStringIndex(text); next != nil {
		return next[0]
	}
	return len(text)
}

// entry is the entry of the template's text that the fault is in, broken, and the section that it is of.
func (f fault) entry(t *testing.T, text string) (section, entry string) {
	t.Helper()
	head := "\n  " + f.at + ":\n"
	from := strings.Index(text, head)
	if from < 0 {
		t.Fatalf("the template has no %s", f.at)
	}
	before := sections.FindAllString(text[:from+1], -1)
	if len(before) == 0 {
		t.Fatalf("%s is in no section whose entries can be broken here", f.at)
	}
	end := from + len(head) + entryLength(text[from+len(head):])
	section, entry = strings.TrimSuffix(before[len(before)-1], ":"), text[from:end]
	switch {
	case f.old == "" && f.new == "":
		return section, ""
	case f.old == "" || !strings.Contains(entry, f.old):
		t.Fatalf("%s has no %q", f.at, f.old)
	}
	return section, strings.Replace(entry, f.old, f.new, 1)
}

func deploymentNamed(t *testing.T, name string) deployment {
	t.Helper()
	for _, d := range deployments() {
		if d.name == name {
			return d
		}
	}
	t.Fatalf("there is no deployment %q", name)
	return deployment{}
}

// all are the parameters of the deployment, the product's code too, with more or others.
func (d deployment) all(more map[string]string) map[string]string {
	parameters := map[string]string{}
	if d.file == meteringTemplate {
		parameters["ProductCode"] = product
	}
	maps.Copy(parameters, d.parameters)
	maps.Copy(parameters, more)
	return parameters
}

// ARNs of the place that stacks are resolved for, without the name at their end.
const (
	lambdaPrefix = "arn:aws:lambda:us-east-1:111122223333:function:"
	queuePrefix  = "arn:aws:sqs:us-east-1:111122223333:"
	rulePrefix   = "arn:aws:events:us-east-1:111122223333:rule/"
	apiPrefix    = "arn:aws:execute-api:us-east-1:111122223333:"
)

const (
	lambdaType   = "AWS::Lambda::Function"
	queueType    = "AWS::SQS::Queue"
	ruleType     = "AWS::Events::Rule"
	mappingType  = "AWS::Lambda::EventSourceMapping"
	scheduleType = "AWS::Scheduler::Schedule"
)

// handled is the function of the stack with a handler; its ID is empty where there is none.
func handled(s *template.Stack, handler string) template.Resource {
	for _, r := range s.OfType(lambdaType) {
		if r.Text("Handler") == handler {
			return r
		}
	}
	return template.Resource{}
}

// byARN are the resources of a type by their ARN, which is a prefix and the property that names them.
func byARN(s *template.Stack, resourceType, prefix, name string) map[string]template.Resource {
	found := map[string]template.Resource{}
	for _, r := range s.OfType(resourceType) {
		found[prefix+r.Text(name)] = r
	}
	return found
}

func lambdasByARN(s *template.Stack) map[string]template.Resource {
	return byARN(s, lambdaType, lambdaPrefix, "FunctionName")
}

func queuesByARN(s *template.Stack) map[string]template.Resource {
	return byARN(s, queueType, queuePrefix, "QueueName")
}

// objects are the maps of a list, such as targets and statements.
func objects(list any) []map[string]any {
	var found []map[string]any
	items, _ := list.([]any)
	for _, item := range items {
		object, _ := item.(map[string]any)
		found = append(found, object)
	}
	return found
}

// maxTargets is how many a rule takes (Amazon EventBridge quotas, "Targets per rule"). cfn-lint lets a sixth pass.
const maxTargets = 5

// checkTargets: a rule hands on what stands in the template and nothing of its own, so that a target says the same whenever it comes.
func checkTargets(s *template.Stack) (wrong []string) {
	for _, rule := range s.OfType(ruleType) {
		targets, ids := objects(rule.Get("Targets")), map[any]bool{}
		if len(targets) == 0 || len(targets) > maxTargets {
			wrong = append(wrong, fmt.Sprintf("%s has %d targets, want 1 to %d", rule.ID, len(targets), maxTargets))
		}
		for _, target := range targets {
			if id, _ := target["Id"].(string); id == "" || ids[id] {
				wrong = append(wrong, fmt.Sprintf("%s: the target's Id %q is empty or there twice", rule.ID, id))
			}
			ids[target["Id"]] = true
			for key := range target {
				if !slices.Contains([]string{"Id", "Arn", "Input", "DeadLetterConfig"}, key) {
					wrong = append(wrong, fmt.Sprintf("%s: a target has %s, want a constant Input alone", rule.ID, key))
				}
			}
			arn, _ := target["Arn"].(string)
			input, _ := target["Input"].(string)
			_, function := lambdasByARN(s)[arn]
			_, queue := queuesByARN(s)[arn]
			switch {
			case function && !json.Valid([]byte(input)):
				wrong = append(wrong, fmt.Sprintf("%s: the input %q of %s is no JSON", rule.ID, input, arn))
			case queue && target["Input"] != nil: // it would take the event's place
				wrong = append(wrong, fmt.Sprintf("%s: a queue gets events as they are, not %q", rule.ID, input))
			case !function && !queue:
				wrong = append(wrong, fmt.Sprintf("%s: the target %q is no function or queue of the stack", rule.ID, arn))
			}
		}
	}
	return wrong
}

func TestTargetsAreConstant(t *testing.T) {
	t.Parallel()
	upholds(t, checkTargets,
		fault{"full live", "FlushRule", "Id: flush,", "Id: flush, InputPath: $.detail,", "has InputPath"},
		fault{"full live", "FlushRule", "Input: '{", "Input: '", "is no JSON"},
		fault{"full live", "FlushRule", "!GetAtt DiscovererFunction.Arn", "arn:aws:lambda:us-east-1:111122223333:function:other", "is no function"},
		fault{"full live", "MeterRule1", "Id: meter-2", "Id: meter-1", "there twice"},
		fault{"full live", "MeterRule1", "Targets:\n", "Targets:\n        - {Id: one-more, Arn: !GetAtt DiscovererFunction.Arn, Input: '{}'}\n", "has 6 targets"},
		fault{"events live", "MarketplaceEvents", "Id: events-queue\n", "Id: events-queue\n          Input: '{}'\n", "gets events as they are"},
	)
}

// sliceOf reads the constant input of the discoverer as strictly as the function does.
func sliceOf(input any) (pipeline.Slice, error) {
	text, _ := input.(string)
	var slice pipeline.Slice
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	return slice, d.Decode(&slice)
}

func sliceKey(s pipeline.Slice) string {
	text, _ := json.Marshal(s) // it never fails
	return string(text)
}

// checkSlices: the rules of the discoverer are all its slices, each once; those of one timetable share rules that are full.
func checkSlices(s *template.Stack) (wrong []string) {
	discoverer := handled(s, functions.Discoverer)
	if discoverer.ID == "" {
		return nil
	}
	due := map[string]int{sliceKey(pipeline.FlushSlice()): 0}
	for offset := metering.MinOffset; offset <= metering.MaxOffset; offset++ {
		due[sliceKey(pipeline.MeterSlice(offset))] = 0
	}
	for shard := range metering.AgeoutShards {
		due[sliceKey(pipeline.AgeoutSlice(shard))] = 0
	}
	quarterly := len(due) - 1
	rules := 0
	for _, rule := range s.OfType(ruleType) {
		inRule := 0
		for _, target := range objects(rule.Get("Targets")) {
			if target["Arn"] != lambdaPrefix+discoverer.Text("FunctionName") {
				continue
			}
			slice, err := sliceOf(target["Input"])
			key := sliceKey(slice)
			if _, known := due[key]; err != nil || !known {
				wrong = append(wrong, fmt.Sprintf("%s: the input %v is no slice (error %v); want %s", rule.ID, target["Input"], err, pipeline.WantedSlices()))
			}
			due[key]++
			if slice.Mode != pipeline.ModeFlush {
				inRule++
			}
		}
		if inRule > 0 {
			rules++
			if inRule != maxTargets {
				wrong = append(wrong, fmt.Sprintf("%s has %d slices, want %d", rule.ID, inRule, maxTargets))
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(due)) {
		if due[key] != 1 {
			wrong = append(wrong, fmt.Sprintf("slice %s is in %d targets, want one", key, due[key]))
		}
	}
	if rules*maxTargets != quarterly {
		wrong = append(wrong, fmt.Sprintf("%d rules of %d targets are not the %d slices", rules, maxTargets, quarterly))
	}
	return wrong
}

func TestEverySliceHasItsTarget(t *testing.T) {
	t.Parallel()
	upholds(t, checkSlices,
		fault{"full live", "MeterRule5", `"hourOffset":23`, `"hourOffset":22`, `"hourOffset":23} is in 0 targets`},
		fault{"full live", "MeterRule5", `"hourOffset":23`, `"hourOffset":24`, "is no slice"},
		fault{"full live", "MeterRule6", `"shard":6`, `"shard":7`, "is no slice"},
		fault{"full live", "MeterRule6", `"shard":6`, `"shard":5`, `"shard":5} is in 2 targets`},
		fault{"full live", "MeterRule6", `"shard":6`, `"shard":6,"hourOffset":1`, "is no slice"},
		fault{"full live", "MeterRule6", `"shard":6`, `"Slice":6`, "is no slice"},
		fault{"full live", "FlushRule", "flush-deprovisioning", "flush", "is no slice"},
		fault{"full live", "MeterRule6", "        - {Id: ageout-6, Arn: !GetAtt DiscovererFunction.Arn, Input: '{\"mode\":\"ageout\",\"shard\":6}'}", "", "has 4 slices"},
	)
	s := deploymentNamed(t, "full live").whole(t)
	if rules := len(s.OfType(ruleType)); rules != 6+1+1 {
		t.Errorf("%d rules, want six of slices, the flush and the submission", rules)
	}
}
