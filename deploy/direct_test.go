package deploy_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/functions"
	"github.com/awsmp/metering/internal/template"
)

var placeholders = regexp.MustCompile(`\$\{([A-Za-z0-9]+)(?:\.[A-Za-z0-9.]+)?\}`)

// mentionsOf are the resources that an expression names, in the branches that are taken under the conditions given.
func mentionsOf(tmpl *template.Template, x any, conditions map[string]bool) map[string]bool {
	found := map[string]bool{}
	note := func(name any) {
		if id, ok := name.(string); ok && tmpl.Resources[id].Type != "" {
			found[id] = true
		}
	}
	var walk func(any)
	walk = func(x any) {
		list, _ := x.([]any)
		for _, item := range list {
			walk(item)
		}
		object, _ := x.(map[string]any)
		for key, argument := range object {
			arguments, _ := argument.([]any)
			switch {
			case key == "Ref":
				note(argument)
			case key == "Fn::GetAtt" && len(arguments) > 0:
				note(arguments[0])
			case key == "Fn::If" && len(arguments) == 3:
				name, _ := arguments[0].(string)
				if conditions[name] {
					walk(arguments[1])
				} else {
					walk(arguments[2])
				}
				continue
			case key == "Fn::Sub":
				text, _ := argument.(string)
				if len(arguments) > 0 {
					text, _ = arguments[0].(string)
				}
				for _, name := range placeholders.FindAllStringSubmatch(text, -1) {
					note(name[1])
				}
			}
			walk(argument)
		}
	}
	walk(x)
	return found
}

// checkGates: what is there without the full pipeline names nothing of it, seen from the template's text alone.
func checkGates(tmpl *template.Template, conditions map[string]bool) (wrong []string) {
	look := func(what, condition string, expressions ...any) {
		if condition != "" && !conditions[condition] {
			return
		}
		for id := range mentionsOf(tmpl, expressions, conditions) {
			if of := tmpl.Resources[id].Condition; of != "" && !conditions[of] {
				wrong = append(wrong, fmt.Sprintf("%s names %s, which is only there with %s", what, id, of))
			}
		}
	}
	for id, raw := range tmpl.Resources {
		look(id, raw.Condition, raw.Properties, raw.Metadata)
		for _, on := range raw.DependsOn {
			look(id, raw.Condition, map[string]any{"Ref": on})
		}
	}
	for name, x := range tmpl.Outputs {
		output, _ := x.(map[string]any)
		condition, _ := output["Condition"].(string)
		look("output "+name, condition, x)
	}
	return wrong
}

func TestDirectSubmitNamesNothingOfTheFullPipeline(t *testing.T) {
	t.Parallel()
	d := deploymentNamed(t, "direct-submit live")
	tmpl, conditions := read(t, d.file), d.whole(t).Conditions
	for _, problem := range checkGates(tmpl, conditions) {
		t.Error(problem)
	}
	gated := 0
	for _, raw := range tmpl.Resources {
		if raw.Condition == "FullPipeline" {
			gated++
		}
	}
	if gated < 40 || conditions["FullPipeline"] {
		t.Errorf("%d resources are of the full pipeline, which is there: %t", gated, conditions["FullPipeline"])
	}
	for _, broken := range []struct {
		says   string
		change func()
	}{
		{"SubmitterFunction names UsageTable", func() { putProperty(t, tmpl, "SubmitterFunction", map[string]any{"Ref": "UsageTable"}) }},
		{"SubmitterRole names WorkQueue", func() {
			putProperty(t, tmpl, "SubmitterRole", []any{map[string]any{"Fn::GetAtt": []any{"WorkQueue", "Arn"}}})
		}},
		{"RegistrationRole names UsageTable", func() {
			putProperty(t, tmpl, "RegistrationRole", map[string]any{"Fn::Sub": "${UsageTable.Arn}/index/x"})
		}},
		{"SubmitRule names CleanupQueue", func() {
			putProperty(t, tmpl, "SubmitRule", map[string]any{"Fn::If": []any{"DirectSubmit", map[string]any{"Ref": "CleanupQueue"}, ""}})
		}},
		{"output Any names WorkQueue", func() { tmpl.Outputs["Any"] = map[string]any{"Value": map[string]any{"Ref": "WorkQueue"}} }},
		{"SubmitterLogs names CleanupLogs", func() {
			raw := tmpl.Resources["SubmitterLogs"]
			raw.DependsOn = []string{"CleanupLogs"}
			tmpl.Resources["SubmitterLogs"] = raw
		}},
	} {
		broken.change()
		if problems := checkGates(tmpl, conditions); !slices.ContainsFunc(problems, func(p string) bool { return strings.HasPrefix(p, broken.says+",") }) {
			t.Errorf("nothing says %q: %q", broken.says, problems)
		}
	}
	putProperty(t, tmpl, "ApiGatewayLogRole", map[string]any{"Fn::If": []any{"FullPipeline", map[string]any{"Ref": "CleanupQueue"}, ""}})
	if problems := checkGates(tmpl, conditions); slices.ContainsFunc(problems, func(p string) bool { return strings.HasPrefix(p, "ApiGatewayLogRole") }) {
		t.Errorf("a branch that is not taken counts: %q", problems)
	}
}

// putProperty gives a resource one property more.
func putProperty(t *testing.T, tmpl *template.Template, id string, x any) {
	t.Helper()
	properties, ok := tmpl.Resources[id].Properties.(map[string]any)
	if !ok {
		t.Fatalf("there is no %s", id)
	}
	properties["More"] = x
}

// everyText calls f with each text of a resolved value, the keys of its objects too.
func everyText(x any, f func(string)) {
	switch x := x.(type) {
	case string:
		f(x)
	case []any:
		for _, item := range x {
			everyText(item, f)
		}
	case map[string]any:
		for key, item := range x {
			f(key)
			everyText(item, f)
		}
	}
}

// checkLeftOut: no text of the stack has the name of a thing that only the full pipeline has, be it an ARN that was put together or a dashboard.
func checkLeftOut(full *template.Stack) func(*template.Stack) []string {
	return func(s *template.Stack) (wrong []string) {
		var gated []string
		for id, r := range full.Resources {
			if _, there := s.Resources[id]; !there {
				if n, named := namings()[r.Type]; named {
					gated = append(gated, regexp.QuoteMeta(r.Text(n.property)))
				}
			}
		}
		if len(gated) == 0 {
			return nil
		}
		// The longer first: a name may begin like another one, such as those of the usage table and of the alarms on usage.
		slices.SortFunc(gated, func(a, b string) int { return len(b) - len(a) })
		name := regexp.MustCompile(`(^|[^A-Za-z0-9_-])(` + strings.Join(gated, "|") + `)($|[^A-Za-z0-9_-])`)
		look := func(where, text string) {
			if found := name.FindStringSubmatch(text); found != nil {
				wrong = append(wrong, fmt.Sprintf("%s has the name %s", where, found[2]))
			}
		}
		for id, r := range s.Resources {
			everyText(r.Properties, func(text string) { look(id, text) })
			everyText(r.Metadata, func(text string) { look(id, text) })
		}
		for id, o := range s.Outputs {
			look("output "+id, o.Value)
			look("output "+id, o.Description)
		}
		return wrong
	}
}

func TestDirectSubmitHasNoNameOfTheFullPipeline(t *testing.T) {
	t.Parallel()
	full := deploymentNamed(t, "full live").whole(t)
	// Stacks of the events template have other resources, and none of these names either.
	upholds(t, func(s *template.Stack) []string {
		if s.Parameters["DeploymentMode"] == "full" {
			return nil
		}
		return checkLeftOut(full)(s)
	},
		fault{"direct-submit live", "SubmitterRole", "!GetAtt AggregatedUsageTable.Arn", "!Sub arn:aws:dynamodb:${AWS::Region}:${AWS::AccountId}:table/awsmp-${ProductCode}-usage", "SubmitterRole has the name awsmp-exampleproduct-usage"},
		fault{"direct-submit live", "Dashboard", `"submitter", "region"`, `"awsmp-${ProductCode}-work", "region"`, "Dashboard has the name awsmp-exampleproduct-work"},
		fault{"direct-submit live", "Dashboard", "alarm:awsmp-${ProductCode}-submitter-errors", "alarm:awsmp-${ProductCode}-discoverer-errors", "Dashboard has the name awsmp-exampleproduct-discoverer-errors"},
		fault{"direct-submit live", "RegistrationUrl", "Description: Ful", "Description: awsmp-exampleproduct-usage. Ful", "output RegistrationUrl"},
	)
}

// TestDirectSubmitIsWhatItHasToBe: the records' way to AWS Marketplace and the registration page, and all of it is in the full pipeline too.
func TestDirectSubmitIsWhatItHasToBe(t *testing.T) {
	t.Parallel()
	full, direct := deploymentNamed(t, "full live").whole(t), deploymentNamed(t, "direct-submit live").whole(t)
	var more []string
	for id := range direct.Resources {
		if _, there := full.Resources[id]; !there {
			more = append(more, id)
		}
	}
	if !slices.Equal(more, []string{"RecordWriterPolicy"}) {
		t.Errorf("only direct-submit has %q", more)
	}
	var tables []string
	for _, r := range direct.OfType(tableType) {
		tables = append(tables, r.ID)
	}
	if want := []string{"AggregatedUsageTable", "CustomerProfileTable"}; !slices.Equal(tables, want) || len(direct.OfType(queueType))+len(direct.OfType(mappingType)) > 0 {
		t.Errorf("tables %q, want %q and no queues", tables, want)
	}
	// What is in both is the same but for the dashboard, so that the switch replaces nothing.
	for _, id := range slices.Sorted(maps.Keys(direct.Resources)) {
		a, b := full.Resources[id], direct.Resources[id]
		if id != "Dashboard" && a.ID != "" && fmt.Sprint(a.Properties) != fmt.Sprint(b.Properties) {
			t.Errorf("%s differs between the modes:\n%v\n%v", id, a.Properties, b.Properties)
		}
	}
	if handled(direct, functions.Submitter).ID == "" {
		t.Error("nothing sends")
	}
}
