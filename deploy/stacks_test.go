// Package deploy holds nothing but tests of the templates beside them.
package deploy_test

import (
	"os"
	"testing"

	"github.com/awsmp/metering/internal/template"
)

const (
	eventsTemplate   = "events-stack.yaml"
	meteringTemplate = "metering-stack.yaml"
)

// product is the product code of the stacks that are resolved here.
const product = "exampleproduct"

// deployment is a template with parameters, as somebody may deploy it.
type deployment struct {
	name       string
	file       string
	parameters map[string]string
}

// deployments are all kinds of stacks: both templates in every mode.
func deployments() []deployment {
	return []deployment{
		{"events live", eventsTemplate, nil},
		{"events test stage", eventsTemplate, map[string]string{"MeteringMode": "dry-run", "StageName": "qa", "TestAccounts": "111122223333,444455556666"}},
		{"full live", meteringTemplate, nil},
		{"full dry-run", meteringTemplate, map[string]string{"MeteringMode": "dry-run", "SubscribersTableName": "awsmp-subscribers-test-qa"}},
		{"direct-submit live", meteringTemplate, map[string]string{"DeploymentMode": "direct-submit"}},
		{"direct-submit dry-run", meteringTemplate, map[string]string{"DeploymentMode": "direct-submit", "MeteringMode": "dry-run"}},
	}
}

// read is a template as it is written.
func read(t *testing.T, file string) *template.Template {
	t.Helper()
	tmpl, err := template.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

// fileText is what a file of the project holds.
func fileText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestEveryModeResolves: nothing refers to what its conditions leave out, and every default is one that its parameter allows.
func TestEveryModeResolves(t *testing.T) {
	t.Parallel()
	for _, d := range deployments() {
		if len(d.whole(t).Resources) == 0 {
			t.Errorf("%s is empty", d.name)
		}
	}
}
