// Package template reads a CloudFormation template and says what it would deploy: which resources there are for given parameters, with every function
// of the template resolved, and what CloudFormation would refuse.
//
// What is built here follows the AWS CloudFormation user guide ("Template sections", "Intrinsic function reference", "Rule functions"). Beyond it, whatever is
// not known here is an error: nothing passes because nobody looked at it. Property names and values themselves are not checked; cfn-lint does that.
package template

import (
	"fmt"
	"os"
)

// Template is a template as it was written. Functions stand in their long form, whatever the text has: !Ref X is map[string]any{"Ref": "X"} and
// !GetAtt A.B is map[string]any{"Fn::GetAtt": []any{"A", "B"}}. Other values are string, int, float64, bool, []any and map[string]any.
type Template struct {
	Description string
	Parameters  map[string]Parameter
	Order       []string          // names of the parameters in the order of the text
	Groups      []Group           // how a console groups the parameters (AWS::CloudFormation::Interface)
	Labels      map[string]string // what a console calls each parameter (AWS::CloudFormation::Interface)
	Metadata    map[string]any
	Mappings    map[string]any // by name, first key and second key
	Conditions  map[string]any
	Rules       map[string]any // each with RuleCondition and Assertions
	Resources   map[string]Raw
	Outputs     map[string]any // each with Value, Description, Export and Condition
}

// Group is a heading of the console and the parameters below it.
type Group struct {
	Label      string
	Parameters []string
}

// Raw is a resource as it was written.
type Raw struct {
	Type, Condition                     string
	DependsOn                           []string
	DeletionPolicy, UpdateReplacePolicy string
	Metadata, Properties                any // map[string]any; empty without the attribute
	Line                                int // of its logical ID, from 1
}

// Read is Parse of a file.
func Read(path string) (*Template, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read template: %w", err)
	}
	t, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}
