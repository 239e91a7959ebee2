package deploy_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/awsmp/metering/internal/lambdahost"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/template"
)

// artifacts is the bucket that the code is uploaded to, by the name that deploy/README.md gives it.
const artifacts = "awsmp-artifacts-" + motoAccount + "-" + standin.Region

// release is what is deployed, and the commands that deploy it.
type release struct {
	cloud
	commands []string // those of deploy/README.md that package and deploy, each in one line
	folder   string   // where they run: deploy/ with the templates and dist/ with the package, and with the templates whose code is in the bucket
	sha256   string   // of the package, as Lambda shows it (CodeSha256)
	binary   string   // path of the same program, built for this machine
}

// newRelease packages the work tree's functions and templates in a folder of its own, and builds the functions for this machine.
func newRelease(t *testing.T, c cloud) release {
	t.Helper()
	r := release{cloud: c, commands: readmeCommands(t), folder: t.TempDir()}
	if err := os.Mkdir(filepath.Join(r.folder, "deploy"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{eventsTemplate, meteringTemplate} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(r.folder, "deploy", file), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var printed []byte
	var first, second errgroup.Group
	first.Go(func() (err error) {
		if printed, err = exec.CommandContext(t.Context(), "../scripts/package.sh", filepath.Join(r.folder, "dist")).CombinedOutput(); err != nil {
			return fmt.Errorf("package: %w\n%s", err, printed)
		}
		return nil
	})
	first.Go(func() error {
		return c.cli(t.Context(), r.folder, "s3", "mb", "s3://"+artifacts, "--region", standin.Region)
	})
	r.binary = lambdahost.Build(t, "../cmd/bootstrap")
	if err := first.Wait(); err != nil {
		t.Fatal(err)
	}
	sum := regexp.MustCompile(`CodeSha256 +(\S+)`).FindSubmatch(printed)
	if sum == nil {
		t.Fatalf("the package's CodeSha256 is not printed:\n%s", printed)
	}
	r.sha256 = string(sum[1])
	for _, file := range []string{eventsTemplate, meteringTemplate} {
		words := r.words(t, "", "cloudformation package", file)
		second.Go(func() error { return c.cli(t.Context(), r.folder, words...) })
	}
	if err := second.Wait(); err != nil {
		t.Fatal(err)
	}
	return r
}

// readmeCommands are the AWS CLI commands of deploy/README.md that package or deploy.
func readmeCommands(t *testing.T) (commands []string) {
	t.Helper()
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(strings.ReplaceAll(string(page), "\\\n", " ")) {
		if rest, is := strings.CutPrefix(strings.TrimSpace(line), "aws cloudformation "); is && (strings.HasPrefix(rest, "deploy ") || strings.HasPrefix(rest, "package ")) {
			commands = append(commands, "cloudformation "+rest)
		}
	}
	return commands
}

// words are those of the first command of deploy/README.md that has all of the parts, as a shell understands it where the page's variables are set.
func (r release) words(t *testing.T, productCode string, parts ...string) []string {
	t.Helper()
	for _, command := range r.commands {
		if slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(command, part) }) {
			continue
		}
		shell := exec.CommandContext(t.Context(), "sh", "-euc", `printf '%s\n' `+command)
		shell.Env = []string{
			"PRODUCT=" + productCode, "REGION=" + standin.Region, "ACCOUNT=" + motoAccount, "BUYER=" + buyerAccount(0), "BUCKET=" + artifacts, "EVENTS_BUCKET=" + artifacts,
		}
		out, err := shell.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	}
	t.Fatalf("deploy/README.md has no command with %q", parts)
	return nil
}

// standing is a stack that was deployed.
type standing struct {
	release
	name       string
	file       string
	parameters map[string]string
	stack      *template.Stack   // what the template makes of the parameters, under the IDs that moto gave
	made       map[string]string // physical IDs by logical ID, empty where there is none; what moto did not make is not there
	held       map[string]held   // what moto says of them, by logical ID
	outputs    map[string]string
}

// held are the properties of a resource as moto has them, or why they could not be read.
type held struct {
	properties map[string]any
	err        error
}

const overrides = "--parameter-overrides"

// deploy runs a command that makes the stack or changes it.
func (s *standing) deploy(t *testing.T, words []string) {
	t.Helper()
	if err := s.cli(t.Context(), s.folder, words...); err != nil {
		t.Fatal(err)
	}
	s.name = words[slices.Index(words, "--stack-name")+1]
	s.file = filepath.Base(words[slices.Index(words, "--template-file")+1])
	s.parameters = maps.Clone(s.parameters) // what is not named stays
	if s.parameters == nil {
		s.parameters = map[string]string{}
	}
	if at := slices.Index(words, overrides); at >= 0 {
		for _, given := range words[at+1:] {
			name, value, _ := strings.Cut(given, "=")
			s.parameters[name] = value
		}
	}
	s.look(t)
}

// look reads what moto made and what the template would have had it make.
func (s *standing) look(t *testing.T) {
	t.Helper()
	// moto shows no outputs of a stack that was made by a change set, until it is updated in another way.
	if _, err := s.query("cloudformation", "UpdateStack", "StackName", s.name, "UsePreviousTemplate", "true"); err != nil {
		t.Fatal(err)
	}
	described, err := s.query("cloudformation", "DescribeStacks", "StackName", s.name)
	if err != nil {
		t.Fatal(err)
	}
	s.outputs = map[string]string{}
	for _, o := range described.list("Stacks", "0", "Outputs") {
		s.outputs[o.text("OutputKey")] = o.text("OutputValue")
	}
	listed, err := s.query("cloudformation", "ListStackResources", "StackName", s.name)
	if err != nil {
		t.Fatal(err)
	}
	// After an update moto no longer lists log groups, although they are there: what was made is asked for again.
	if s.made == nil {
		s.made = map[string]string{}
	}
	for _, r := range listed.list("StackResourceSummaries") {
		if r.text("ResourceType") != "" {
			s.made[r.text("LogicalResourceId")] = r.text("PhysicalResourceId")
		}
	}
	s.stack, s.held = s.resolved(t, nil), map[string]held{}
	read := propertyReaders()
	for id, r := range s.stack.Resources {
		if physical, made := s.made[id]; made && read[r.Type] != nil {
			properties, err := read[r.Type](s.cloud, r, physical)
			s.held[id] = held{properties, err}
		}
	}
}

// resolved is the stack that the template makes of the stack's parameters, after a change of its text if there is one. Names that CloudFormation
// invents are those that moto invented.
func (s *standing) resolved(t *testing.T, change *strings.Replacer) *template.Stack {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.folder, "deploy", s.file))
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		text = []byte(change.Replace(string(text)))
	}
	tmpl, err := template.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	const mark = "invented"
	ask := func(name, condition string, value any) {
		output := map[string]any{"Value": value}
		if condition != "" {
			output["Condition"] = condition
		}
		tmpl.Outputs[mark+name] = output
	}
	for id, raw := range tmpl.Resources {
		switch raw.Type {
		case "AWS::IAM::Role", "AWS::IAM::ManagedPolicy", "AWS::ApiGateway::RestApi", "AWS::ApiGateway::Resource":
			ask(id, raw.Condition, map[string]any{"Ref": id})
		}
		if raw.Type == "AWS::ApiGateway::RestApi" {
			ask("Root"+id, raw.Condition, map[string]any{"Fn::GetAtt": []any{id, "RootResourceId"}})
		}
	}
	stack, err := tmpl.Resolve(s.parameters, template.Place{Account: motoAccount, StackName: s.name})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for output, o := range stack.Outputs {
		id, invented := strings.CutPrefix(output, mark)
		if !invented {
			continue
		}
		delete(stack.Outputs, output)
		if api, isRoot := strings.CutPrefix(id, "Root"); isRoot {
			root, err := s.fetch("apigateway", "/restapis/"+s.made[api])
			if err != nil {
				t.Fatal(err)
			}
			names[o.Value] = root.text("rootResourceId")
		} else if s.made[id] != "" {
			names[o.Value] = s.made[id]
		}
	}
	// The longer name first: it may begin with the other.
	pairs := []string{}
	for _, invented := range slices.SortedFunc(maps.Keys(names), func(a, b string) int { return len(b) - len(a) }) {
		pairs = append(pairs, invented, names[invented])
	}
	rename := strings.NewReplacer(pairs...)
	for id, r := range stack.Resources {
		r.Properties = renamed(r.Properties, rename).(map[string]any)
		if r.Type == "AWS::Lambda::Function" {
			r.Properties["Code"] = s.sha256
		}
		stack.Resources[id] = r
	}
	for name, o := range stack.Outputs {
		o.Value = rename.Replace(o.Value)
		stack.Outputs[name] = o
	}
	return stack
}

func renamed(v any, rename *strings.Replacer) any {
	switch x := v.(type) {
	case map[string]any:
		m := map[string]any{}
		for key, item := range x {
			m[key] = renamed(item, rename)
		}
		return m
	case []any:
		list := make([]any, len(x))
		for i, item := range x {
			list[i] = renamed(item, rename)
		}
		return list
	case string:
		return rename.Replace(x)
	}
	return v
}

// finding is one thing that moto holds, or does not hold as the template has it.
type finding struct {
	what     string // a type, or a type and a property
	resource string // logical ID
	problem  string // empty where it is as it should be
}

// findings compare a stack with what stands: every resource, and every property that the template gives it.
func (s *standing) findings(stack *template.Stack) (all []finding) {
	for _, id := range slices.Sorted(maps.Keys(stack.Resources)) {
		r := stack.Resources[id]
		h, read := s.held[id]
		_, made := s.made[id]
		whole := finding{what: r.Type, resource: id}
		switch {
		case !made:
			whole.problem = "moto did not make it"
		case !read:
			whole.problem = "moto made it, and nothing here reads it"
		case h.err != nil:
			whole.problem = h.err.Error()
		}
		all = append(all, whole)
		if whole.problem != "" {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(r.Properties)) {
			want, have := levelled(map[string]any{name: r.Properties[name]}), levelled(keysOf(h.properties, name))
			all = append(all, finding{r.Type + "." + name, id, cmp.Diff(want, have)})
		}
	}
	return all
}

// problems are the findings that are none of the known quirks of moto.
func (s *standing) problems(stack *template.Stack, quirks []motoQuirk) (wrong []string) {
	for _, f := range s.findings(stack) {
		known := slices.ContainsFunc(quirks, func(q motoQuirk) bool { return q.what == f.what })
		if f.problem != "" && !known {
			wrong = append(wrong, fmt.Sprintf("%s: %s of %s (-template +deployed):\n%s", s.name, f.what, f.resource, f.problem))
		}
	}
	for name, o := range stack.Outputs {
		if s.outputs[name] != o.Value {
			wrong = append(wrong, fmt.Sprintf("%s: output %s is %q, want %q", s.name, name, s.outputs[name], o.Value))
		}
	}
	if len(s.outputs) != len(stack.Outputs) {
		wrong = append(wrong, fmt.Sprintf("%s: outputs %v, want those of %v", s.name, slices.Sorted(maps.Keys(s.outputs)), slices.Sorted(maps.Keys(stack.Outputs))))
	}
	return wrong
}

// stands are the stacks that every test of what is deployed shares.
type stands struct{ live, stage, full, direct *standing }

// The products that are deployed, and the stage.
const (
	fullProduct   = "example-full"
	directProduct = "example-direct"
	stageName     = "qa"
)

// newStands deploys one stack of each kind, side by side, by the commands of deploy/README.md.
func newStands(t *testing.T, r release) stands {
	t.Helper()
	s := stands{live: &standing{release: r}, stage: &standing{release: r}, full: &standing{release: r}, direct: &standing{release: r}}
	const metering = "--stack-name awsmp-$PRODUCT-metering "
	// With everything given that the others do without.
	direct := r.words(t, directProduct, "cloudformation deploy", metering, overrides)
	direct = append(direct[:slices.Index(direct, overrides)+1],
		"ProductCode="+directProduct, "DeploymentMode=direct-submit", "LogRetentionInDays=30", "AggregatedUsageTableTtlDays=400", "WebAclArn=none", "CreateApiGatewayLogRole=false",
		"LogsKmsKeyArn=arn:aws:kms:"+standin.Region+":"+motoAccount+":key/00000000-0000-4000-8000-000000000000",
		"PermissionsBoundaryArn=arn:aws:iam::"+motoAccount+":policy/boundary")
	// Live from the start: moto does not change what has a parameter in Fn::Sub, as the roles have the subscribers table.
	full := slices.DeleteFunc(r.words(t, fullProduct, "cloudformation deploy", metering, "MeteringMode=dry-run"), func(word string) bool {
		return word == "MeteringMode=dry-run" || strings.HasPrefix(word, "SubscribersTableName=")
	})
	done := t.Run("deploy", func(t *testing.T) {
		for at, words := range map[*standing][]string{
			s.live:   r.words(t, "", "cloudformation deploy", "--stack-name awsmp-events-stack "),
			s.stage:  r.words(t, "", "cloudformation deploy", "--stack-name awsmp-events-test-"+stageName+" "),
			s.full:   full,
			s.direct: direct,
		} {
			t.Run(words[slices.Index(words, "--stack-name")+1], func(t *testing.T) {
				t.Parallel()
				at.deploy(t, words)
			})
		}
	})
	if !done {
		t.FailNow()
	}
	return s
}

func (s stands) all() []*standing { return []*standing{s.live, s.stage, s.full, s.direct} }
