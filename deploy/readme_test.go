package deploy_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/template"
)

// guide is what deploy/README.md is held against.
type guide struct {
	templates map[string]*template.Template // by file
	stacks    []*template.Stack             // in every mode
	reference string                        // docs/cli.md
	makefile  string
	calls     int                 // of BatchMeterUsage that a run of the submitter begins at one a second
	judged    map[string][]string // problems of stacks that were looked at, since the page is judged again and again
}

func readmePage(t *testing.T) string { t.Helper(); return fileText(t, "README.md") }

func newGuide(t *testing.T) guide {
	t.Helper()
	return guide{
		templates: map[string]*template.Template{eventsTemplate: read(t, eventsTemplate), meteringTemplate: read(t, meteringTemplate)},
		stacks:    allStacks(t), reference: fileText(t, "../docs/cli.md"), makefile: fileText(t, "../Makefile"),
		calls: int(codeDuration(t, "internal/marketplace", "defaultLimit").Seconds()), judged: map[string][]string{},
	}
}

// each is every template by the word that the page has for it.
func (g guide) each(do func(word, file string, tmpl *template.Template)) {
	for _, file := range []string{eventsTemplate, meteringTemplate} {
		do(strings.TrimSuffix(file, "-stack.yaml"), file, g.templates[file])
	}
}

// tables: the page lists every parameter with its default and every output, and no others, in the words of the templates.
func (g guide) tables(page string) (wrong []string) {
	_, rest, _ := strings.Cut(page, "\n## Parameters\n")
	g.each(func(word, _ string, tmpl *template.Template) {
		var want []string
		for _, name := range tmpl.Order {
			p, shown := tmpl.Parameters[name], "must be given"
			if p.HasDefault {
				shown = "`" + p.Default + "`"
			}
			want = append(want, fmt.Sprintf("| `%s` | %s | %s |", name, strings.Replace(shown, "``", "empty", 1), p.Description))
		}
		_, list, _ := strings.Cut(rest, "Of the "+word+" stack:\n")
		wrong = append(wrong, rowProblems(list, want)...)
	})
	var outputs []string
	_, list, _ := strings.Cut(page, "\n## Outputs\n")
	g.each(func(word, _ string, tmpl *template.Template) {
		for name, raw := range tmpl.Outputs {
			output, _ := raw.(map[string]any)
			outputs = append(outputs, fmt.Sprintf("| %s | `%s` | %s |", word, name, output["Description"]))
		}
	})
	return append(wrong, rowProblems(list, outputs)...)
}

// rowProblems compares the rows of the first table in the text with those that should be there.
func rowProblems(text string, want []string) (wrong []string) {
	_, text, _ = strings.Cut(text, "|---|---|---|\n")
	var rows []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		rows = append(rows, strings.TrimSuffix(line, "\n"))
	}
	if slices.Equal(slices.Sorted(slices.Values(rows)), slices.Sorted(slices.Values(want))) {
		return nil
	}
	return []string{"the table should be\n" + strings.Join(want, "\n") + "\nand is\n" + strings.Join(rows, "\n")}
}

// shellVariables are those of the page's shell, where it sets them; what a command would find out has a value that will do.
type shellVariables map[string]string

func (v shellVariables) expand(word string) string {
	return os.Expand(word, func(name string) string {
		name = strings.TrimRightFunc(name, func(r rune) bool { return strings.ContainsRune("%#:*/", r) })
		if value, set := v[name]; set && !strings.Contains(value, "$()") {
			return value
		}
		return map[string]string{"ACCOUNT": "111122223333", "r": "us-east-1"}[name]
	})
}

func (v shellVariables) set(c pageCommand) {
	for name, value := range c.sets {
		v[name] = v.expand(value)
	}
}

// releaseFile is the name of a file without its release.
func releaseFile(name string) string {
	return regexp.MustCompile(`-v\d+\.\d+\.\d+`).ReplaceAllString(name, "")
}

// deployments plays the page's deployments one after another, as `deploy` does, which keeps the values of the one before: each is one that its template takes, its functions
// start with what they are given, and it takes only files that an earlier command has made.
func (g guide) deployments(page string) (wrong []string) {
	vars, made, standing, count := shellVariables{}, map[string]bool{}, map[string]map[string]string{}, 0
	for _, c := range commandsOf(page) {
		vars.set(c)
		for _, file := range []string{c.to, c.option("--output-template-file")} {
			made[releaseFile(vars.expand(file))] = true
		}
		isDeploy, name := c.is("aws", "cloudformation", "deploy"), vars.expand(c.option("--stack-name"))
		if c.Prose || !isDeploy && !c.is("aws", "cloudformation", "package") {
			continue
		}
		note := func(format string, args ...any) {
			wrong = append(wrong, fmt.Sprintf("%v: ", c.Words)+fmt.Sprintf(format, args...))
		}
		region, file := vars.expand(c.option("--region")), releaseFile(vars.expand(c.option("--template-file")))
		if bucket := vars.expand(c.option("--s3-bucket")); bucket != "awsmp-artifacts-111122223333-"+region {
			note("bucket %s is not that of Region %s", bucket, region)
		}
		if _, err := os.Stat(filepath.Join("..", file)); !made[file] && (isDeploy || err != nil) {
			note("nothing has made %s", file)
		}
		if !isDeploy {
			continue
		}
		count++
		if c.option("--capabilities") != "CAPABILITY_IAM" {
			note("the template has roles")
		}
		if standing[name] == nil {
			standing[name] = map[string]string{}
		}
		_, given, _ := strings.Cut(strings.Join(c.Words, "\n"), "\n--parameter-overrides\n")
		for _, pair := range strings.FieldsFunc(given, func(r rune) bool { return r == '\n' }) {
			key, value, _ := strings.Cut(pair, "=")
			standing[name][key] = vars.expand(value)
		}
		for _, problem := range g.standingProblems(path.Base(file), standing[name], template.Place{Region: region, StackName: name}) {
			note("%s", problem)
		}
	}
	if count < 10 {
		wrong = append(wrong, fmt.Sprintf("only %d deployments are found on the page", count))
	}
	return wrong
}

// standingProblems: the template takes the parameters, and the functions of the stack start.
func (g guide) standingProblems(file string, parameters map[string]string, at template.Place) []string {
	key := fmt.Sprint(file, parameters, at)
	if _, known := g.judged[key]; !known {
		stack, err := g.templates[file].Resolve(parameters, at)
		if err != nil {
			g.judged[key] = []string{err.Error()}
		} else {
			g.judged[key] = checkEnvironments(stack)
		}
	}
	return g.judged[key]
}

var (
	twoHumps    = regexp.MustCompile(`^[A-Z][a-z]+[A-Z]\w*$`)
	givenValue  = regexp.MustCompile(`^([A-Z][A-Za-z]+)=(.*)$`)
	ourFile     = regexp.MustCompile(`(?:^|[\s"'=]|file://)((?:deploy|docs|dist|bin|scripts)/[\w.$-]+)`)
	pageLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	pageHeading = regexp.MustCompile(`(?m)^#+ (.+)$`)
)

// names: whatever the page sets in code or calls by a name in two words is a parameter, an output or a resource of a template, or a status of the code.
func (g guide) names(page string) (wrong []string) {
	known, outputs := map[string]bool{}, map[string]bool{}
	g.each(func(_, _ string, tmpl *template.Template) {
		for name := range tmpl.Parameters {
			known[name] = true
		}
		for name := range tmpl.Resources {
			known[name] = true
		}
		for name := range tmpl.Outputs {
			known[name], outputs[name] = true, true
		}
	})
	for _, status := range constantsOf("../internal/metering/status.go", "Status") {
		known[status] = true
	}
	for _, span := range codeSpan.FindAllStringSubmatch(anyBlock.ReplaceAllString(page, ""), -1) {
		if twoHumps.MatchString(span[1]) && !known[span[1]] {
			wrong = append(wrong, "nothing is called "+span[1])
		}
		if set := givenValue.FindStringSubmatch(span[1]); set != nil && !g.takes(set[1], set[2]) {
			wrong = append(wrong, "no template takes "+span[1])
		}
	}
	for _, c := range commandsOf(page) {
		asked := c.Words[min(len(c.Words), 3):] // output REGION STACK NAME
		if c.is("for") {
			asked = slices.DeleteFunc(slices.Clone(c.Words), func(w string) bool { return !twoHumps.MatchString(w) })
		} else if !c.is("output") {
			continue
		}
		for _, name := range asked {
			if !outputs[name] && !strings.HasPrefix(name, "$") {
				wrong = append(wrong, "no stack has an output "+name)
			}
		}
	}
	return wrong
}

// takes tells whether a template takes the value for a parameter that it has. Rules that look at other parameters too do not count.
func (g guide) takes(name, value string) (ok bool) {
	g.each(func(_, _ string, tmpl *template.Template) {
		given := map[string]string{name: value}
		if p := tmpl.Parameters["ProductCode"]; p.Name != "" && name != p.Name {
			given[p.Name] = product
		}
		alone := *tmpl
		alone.Rules = nil
		_, err := alone.Resolve(given, template.Place{})
		ok = ok || err == nil
	})
	return ok
}

// pageAnchors are what GitHub makes of the headings of a page.
func pageAnchors(page string) map[string]bool {
	found := map[string]bool{}
	for _, h := range pageHeading.FindAllStringSubmatch(page, -1) {
		found[strings.Map(func(r rune) rune {
			switch {
			case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
				return unicode.ToLower(r)
			case r == ' ':
				return '-'
			}
			return -1
		}, h[1])] = true
	}
	return found
}

// files: every link leads somewhere, and every file is there, or a command of the page makes it.
func (g guide) files(page string) (wrong []string) {
	anchors := map[string]map[string]bool{"": pageAnchors(page)}
	for _, link := range pageLink.FindAllStringSubmatch(page, -1) {
		file, fragment, _ := strings.Cut(link[1], "#")
		if anchors[file] == nil {
			content, err := os.ReadFile(file)
			if err != nil {
				wrong = append(wrong, fmt.Sprintf("a link leads to %s: %v", link[1], err))
				continue
			}
			anchors[file] = pageAnchors(string(content))
		}
		if fragment != "" && !anchors[file][fragment] {
			wrong = append(wrong, fmt.Sprintf("a link leads to %s, and there is no such heading", link[1]))
		}
	}
	made := map[string]bool{"dist/awsmp-bootstrap.zip": true, "bin/awsmp": true} // by make
	for _, c := range commandsOf(page) {
		made[c.to], made[c.option("--output-template-file")] = true, true
	}
	for _, found := range ourFile.FindAllStringSubmatch(page, -1) {
		file := strings.TrimRight(found[1], ".")
		if _, err := os.Stat(filepath.Join("..", file)); err != nil && !made[file] && !made[strings.Replace(file, "$PREVIOUS", "$VERSION", 1)] {
			wrong = append(wrong, "there is no file "+file+", and nothing makes it")
		}
	}
	return wrong
}

// permissions: the section on permissions speaks of every service that a template or a command needs, and of every service that is handed a role.
func (g guide) permissions(page string) (wrong []string) {
	_, section, _ := strings.Cut(page, "\n## 1. ")
	section, _, _ = strings.Cut(section, "\nSet these once.")
	needs := map[string]bool{}
	g.each(func(_, _ string, tmpl *template.Template) {
		for _, r := range tmpl.Resources {
			needs["`"+strings.ToLower(strings.Split(r.Type, "::")[1])+":"] = true
		}
	})
	for _, s := range g.stacks {
		for _, r := range s.OfType(iamRoleType) {
			needs["`"+r.Text("AssumeRolePolicyDocument", "Statement", "0", "Principal", "Service")+"`"] = true
		}
	}
	for _, c := range commandsOf(page) {
		if c.is("aws") && len(c.Words) > 1 && c.Words[1] != "sts" { // who one is may be asked without a permission
			service := strings.TrimSuffix(strings.ReplaceAll(c.Words[1], "-", ""), "api") // s3api, service-quotas
			needs["`"+service+":"] = true
		}
	}
	for _, need := range slices.Sorted(maps.Keys(needs)) {
		if !strings.Contains(section, need) {
			wrong = append(wrong, "the permissions do not speak of "+strings.Trim(need, "`:"))
		}
	}
	if strings.Contains(section, "`iam:*") || strings.Contains(section, "`*`:") {
		wrong = append(wrong, "permissions of IAM are named one by one: a wildcard would include iam:PassRole")
	}
	return wrong
}

// figures: numbers that the page draws from the templates and the code.
func (g guide) figures(page string) (wrong []string) {
	reserved := 0
	for _, name := range g.templates[meteringTemplate].Order {
		if strings.HasSuffix(name, "ReservedConcurrency") {
			n, _ := strconv.Atoi(g.templates[meteringTemplate].Parameters[name].Default)
			reserved += n
		}
	}
	words := strings.Join(strings.Fields(page), " ")
	for _, sentence := range []string{
		fmt.Sprintf("a metering stack reserves %d Lambda executions", reserved),
		fmt.Sprintf("That is %d records for each of %d seconds", metering.MaxCallRecords, g.calls),
	} {
		if !strings.Contains(words, sentence) {
			wrong = append(wrong, "the page should say: "+sentence)
		}
	}
	shared := 0
	for _, row := range regexp.MustCompile(`(?m)^\| \w+ \| (\d+) \| ([\d,]+) \|$`).FindAllStringSubmatch(page, -1) {
		pace, _ := strconv.Atoi(row[1])
		shared += pace
		if want := strconv.Itoa(pace * metering.MaxCallRecords * g.calls); strings.ReplaceAll(row[2], ",", "") != want {
			wrong = append(wrong, "at a pace of "+row[1]+" a run sends "+want)
		}
	}
	if fmt.Sprint(shared) != g.templates[meteringTemplate].Parameters["MeteringCallsPerSecond"].Default {
		wrong = append(wrong, fmt.Sprintf("the example shares %d calls out", shared))
	}
	return wrong
}

// imports: AWS imports only what has a plain name, and the page's command writes the names out.
func (g guide) imports(page string) (wrong []string) {
	line := regexp.MustCompile(`(?m)^sed .* > dist/import\.yaml$`).FindString(page)
	cmd := exec.Command("sh", "-c", strings.TrimSuffix(line, "> dist/import.yaml"))
	cmd.Dir, cmd.Env = "..", append(os.Environ(), "PRODUCT="+product)
	text, err := cmd.CombinedOutput()
	if err != nil || line == "" {
		return []string{fmt.Sprintf("%q: %v %s", line, err, text)}
	}
	tmpl, err := template.Parse(text)
	if err != nil {
		return []string{err.Error()}
	}
	tables := 0
	for id, r := range tmpl.Resources {
		if properties, _ := r.Properties.(map[string]any); r.Type == "AWS::DynamoDB::Table" {
			tables++
			if name, plain := properties["TableName"].(string); !plain || !strings.HasPrefix(name, "awsmp-"+product+"-") || r.DeletionPolicy == "Delete" {
				wrong = append(wrong, fmt.Sprintf("%s is called %v", id, properties["TableName"]))
			}
		}
	}
	if tables != 3 {
		wrong = append(wrong, fmt.Sprintf("%d tables", tables))
	}
	return wrong
}
