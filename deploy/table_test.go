package deploy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/dynamodb"
	"github.com/awsmp/metering/internal/template"
)

const tableType = "AWS::DynamoDB::Table"

// tableShape is what the code relies on in a table. The order of attributes and of indexes says nothing.
type tableShape struct {
	Name, Billing string
	Keys          []string
	Attributes    map[string]string
	Indexes       map[string]indexShape
}

type indexShape struct {
	Keys       []string
	Projection string
	Carries    []string
}

// shapeOfCode is that of a CreateTable input.
func shapeOfCode(in *sdk.CreateTableInput) tableShape {
	keys := func(schema []types.KeySchemaElement) (list []string) {
		for _, k := range schema {
			list = append(list, string(k.KeyType)+" "+aws.ToString(k.AttributeName))
		}
		return list
	}
	shape := tableShape{
		Name: aws.ToString(in.TableName), Billing: string(in.BillingMode), Keys: keys(in.KeySchema),
		Attributes: map[string]string{}, Indexes: map[string]indexShape{},
	}
	for _, a := range in.AttributeDefinitions {
		shape.Attributes[aws.ToString(a.AttributeName)] = string(a.AttributeType)
	}
	for _, i := range in.GlobalSecondaryIndexes {
		shape.Indexes[aws.ToString(i.IndexName)] = indexShape{
			Keys: keys(i.KeySchema), Projection: string(i.Projection.ProjectionType), Carries: slices.Sorted(slices.Values(i.Projection.NonKeyAttributes)),
		}
	}
	return shape
}

// shapeOfTemplate is that of a resource.
func shapeOfTemplate(r template.Resource) tableShape {
	keys := func(schema any) (list []string) {
		for _, k := range objects(schema) {
			list = append(list, fmt.Sprintf("%v %v", k["KeyType"], k["AttributeName"]))
		}
		return list
	}
	shape := tableShape{
		Name: r.Text("TableName"), Billing: r.Text("BillingMode"), Keys: keys(r.Get("KeySchema")),
		Attributes: map[string]string{}, Indexes: map[string]indexShape{},
	}
	for _, a := range objects(r.Get("AttributeDefinitions")) {
		shape.Attributes[fmt.Sprint(a["AttributeName"])] = fmt.Sprint(a["AttributeType"])
	}
	for _, properties := range objects(r.Get("GlobalSecondaryIndexes")) {
		i := template.Resource{Properties: properties}
		shape.Indexes[i.Text("IndexName")] = indexShape{
			Keys: keys(i.Get("KeySchema")), Projection: i.Text("Projection", "ProjectionType"),
			Carries: slices.Sorted(slices.Values(oneOrMore(i.Get("Projection", "NonKeyAttributes")))),
		}
	}
	return shape
}

// codeTable is the table that the code makes by the same name.
func codeTable(id, name string) *sdk.CreateTableInput {
	switch id {
	case "UsageTable":
		return dynamodb.UsageTable(name)
	case "AggregatedUsageTable":
		return dynamodb.AggregatedUsageTable(name)
	case "SubscribersTable":
		return dynamodb.SubscribersTable(name)
	case "CustomerProfileTable":
		return dynamodb.CustomerProfileTable(name)
	}
	return nil
}

// daysOf is the parameter that says how long a table's items are kept; the others keep theirs for ever.
func daysOf(id string) string {
	return map[string]string{"UsageTable": "UsageTableTtlDays", "AggregatedUsageTable": "AggregatedUsageTableTtlDays"}[id]
}

// checkTables: tables are those that the code was tested on, they are encrypted and can be restored, and none is ever deleted.
func checkTables(s *template.Stack) (wrong []string) {
	for _, r := range s.OfType(tableType) {
		name := r.Text("TableName")
		want := codeTable(r.ID, name)
		if want == nil {
			wrong = append(wrong, r.ID+" is a table that the code does not know")
			continue
		}
		if diff := cmp.Diff(shapeOfCode(want), shapeOfTemplate(r)); diff != "" || name == "" {
			wrong = append(wrong, fmt.Sprintf("%s is not the code's table: %s", r.ID, diff))
		}
		if r.Get("ProvisionedThroughput") != nil || r.Get("PointInTimeRecoverySpecification", "PointInTimeRecoveryEnabled") != true {
			wrong = append(wrong, r.ID+" is not on demand and recoverable to any point in time")
		}
		// DynamoDB encrypts every table (developer guide, "DynamoDB encryption at rest"). A key of KMS would be one more thing that can fail, that no role and no boundary here allows.
		if r.Get("SSESpecification") != nil {
			wrong = append(wrong, r.ID+" is not encrypted by DynamoDB's key of its own")
		}
		if r.DeletionPolicy != "RetainExceptOnCreate" || r.UpdateReplacePolicy != "Retain" {
			wrong = append(wrong, fmt.Sprintf("%s is not retained: deleted it is %q, replaced %q", r.ID, r.DeletionPolicy, r.UpdateReplacePolicy))
		}
		expires := false
		if days := daysOf(r.ID); days != "" {
			expires = s.Parameters[days] != "0"
		}
		if ttl := r.Get("TimeToLiveSpecification"); (ttl != nil) != expires {
			wrong = append(wrong, fmt.Sprintf("%s: items expire: %t, want %t", r.ID, ttl != nil, expires))
		} else if expires && (r.Text("TimeToLiveSpecification", "AttributeName") != metering.AttrTTL || r.Get("TimeToLiveSpecification", "Enabled") != true) {
			wrong = append(wrong, fmt.Sprintf("%s: items expire by %v, want %s", r.ID, ttl, metering.AttrTTL))
		}
	}
	return wrong
}

func TestTablesAreTheCodes(t *testing.T) {
	t.Parallel()
	upholds(t, checkTables,
		fault{"full live", "UsageTable", "customerAWSAccountId_dimension_timestamp, KeyType", "customerAWSAccountId, KeyType", "UsageTable is not the code's table"},
		fault{"full live", "UsageTable", "[customerAWSAccountId, dimension]", "[customerAWSAccountId]", "UsageTable is not the code's table"},
		fault{"direct-submit live", "AggregatedUsageTable", "sentQuantity, ", "", "AggregatedUsageTable is not the code's table"},
		fault{"direct-submit live", "AggregatedUsageTable", "[customerAWSAccountId,", "[manifest, customerAWSAccountId,", "AggregatedUsageTable is not the code's table"},
		fault{"direct-submit live", "AggregatedUsageTable", "meteringPending, AttributeType: S", "meteringPending, AttributeType: N", "AggregatedUsageTable is not the code's table"},
		fault{"events live", "SubscribersTable", "ProjectionType: KEYS_ONLY", "ProjectionType: ALL", "SubscribersTable is not the code's table"},
		fault{"events live", "SubscribersTable", "IndexName: agreementId-index", "IndexName: agreement-index", "SubscribersTable is not the code's table"},
		fault{"full live", "CustomerProfileTable", "PAY_PER_REQUEST", "PROVISIONED", "CustomerProfileTable is not the code's table"},
		fault{"full live", "CustomerProfileTable", "BillingMode: PAY_PER_REQUEST", "BillingMode: PAY_PER_REQUEST\n      SSESpecification: {SSEEnabled: true}", "key of its own"},
		fault{"full live", "UsageTable", "PointInTimeRecoveryEnabled: true", "PointInTimeRecoveryEnabled: false", "recoverable"},
		fault{"full live", "UsageTable", "DeletionPolicy: RetainExceptOnCreate", "DeletionPolicy: Delete", "UsageTable is not retained"},
		fault{"events test stage", "SubscribersTable", "UpdateReplacePolicy: Retain", "UpdateReplacePolicy: Delete", "SubscribersTable is not retained"},
		fault{"full live", "UsageTable", "AttributeName: ttl", "AttributeName: expires", "want ttl"},
		fault{"full live", "UsageTable", "      TimeToLiveSpecification: !If [RowsExpire, {AttributeName: ttl, Enabled: true}, !Ref AWS::NoValue]\n", "", "items expire: false, want true"},
		fault{"events live", "SubscribersTable", "      BillingMode", "      TimeToLiveSpecification: {AttributeName: ttl, Enabled: true}\n      BillingMode", "items expire: true, want false"},
		fault{"full live", "CustomerProfileTable", "      BillingMode", "      TimeToLiveSpecification: {AttributeName: ttl, Enabled: true}\n      BillingMode", "items expire: true, want false"},
	)
	// By default rows expire and records do not.
	for _, days := range []map[string]string{
		{"UsageTableTtlDays": "0"}, {"UsageTableTtlDays": "2", "AggregatedUsageTableTtlDays": "4"},
	} {
		for _, name := range []string{"full live", "direct-submit live"} {
			for _, problem := range checkTables(deploymentNamed(t, name).with(t, days)) {
				t.Errorf("%s, %v: %s", name, days, problem)
			}
		}
	}
}

// TestPromotedFieldsHaveTheirIndex: the marked block is right as it stands there, once the comment signs are gone.
func TestPromotedFieldsHaveTheirIndex(t *testing.T) {
	t.Parallel()
	text := fileText(t, meteringTemplate)
	const begin, end = "      # BEGIN PROMOTED FIELDS\n", "      # END PROMOTED FIELDS\n"
	before, rest, found := strings.Cut(text, begin)
	block, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatal("the marks of the block are gone")
	}
	promoted := func(fields ...string) tableShape {
		var lines, indexes strings.Builder
		for line := range strings.Lines(block) {
			plain, comment := strings.CutPrefix(line, "      # ")
			if !comment {
				t.Fatalf("%q is no comment", line)
			}
			lines.WriteString("      " + plain)
		}
		definitions, index, ok := strings.Cut(lines.String(), "      GlobalSecondaryIndexes:\n")
		if !ok {
			t.Fatalf("no indexes in\n%s", lines.String())
		}
		body := definitions
		for _, field := range fields[1:] { // "one line and one index" for each
			body += strings.ReplaceAll(definitions, "companyName", field)
			indexes.WriteString(strings.ReplaceAll(index, "companyName", field))
		}
		body += "      GlobalSecondaryIndexes:\n" + index + indexes.String()
		tmpl, err := template.Parse([]byte(before + body + after))
		if err != nil {
			t.Fatal(err)
		}
		s, err := tmpl.Resolve(deploymentNamed(t, "full live").all(map[string]string{"PromotedProfileFields": strings.Join(fields, ",")}), template.Place{})
		if err != nil {
			t.Fatal(err)
		}
		return shapeOfTemplate(s.Resources["CustomerProfileTable"])
	}
	const name = "awsmp-" + product + "-customer-profile"
	for _, fields := range [][]string{{"companyName"}, {"companyName", "contactEmail"}} {
		if diff := cmp.Diff(shapeOfCode(dynamodb.CustomerProfileTable(name, fields...)), promoted(fields...)); diff != "" {
			t.Errorf("%v: %s", fields, diff)
		}
	}
}

// lostTables are the tables of one stack that an update to the other would delete or replace.
func lostTables(from, to *template.Stack) (wrong []string) {
	for _, r := range from.OfType(tableType) {
		next, stays := to.Resources[r.ID]
		switch {
		case stays && !cmp.Equal(shapeOfTemplate(r), shapeOfTemplate(next)):
			wrong = append(wrong, r.ID+" is changed by the switch")
		case !stays && r.DeletionPolicy != "Retain" && r.DeletionPolicy != "RetainExceptOnCreate":
			wrong = append(wrong, r.ID+" is deleted by the switch")
		}
	}
	return wrong
}

// TestASwitchOfTheModeLosesNoTable: whichever mode a product's stack is switched to, its tables stay as they are; the usage table is let go of and kept.
func TestASwitchOfTheModeLosesNoTable(t *testing.T) {
	t.Parallel()
	modes := map[string]*template.Stack{}
	for _, d := range deployments() {
		if d.file == meteringTemplate {
			modes[d.name] = d.whole(t)
		}
	}
	for from, a := range modes {
		for to, b := range modes {
			for _, problem := range lostTables(a, b) {
				t.Errorf("from %s to %s: %s", from, to, problem)
			}
		}
	}
	full, direct := modes["full live"], modes["direct-submit live"]
	if _, there := direct.Resources["UsageTable"]; there || full.Resources["UsageTable"].ID == "" {
		t.Error("the usage table is of the full pipeline alone")
	}
	for _, f := range []fault{
		{"full live", "UsageTable", "DeletionPolicy: RetainExceptOnCreate", "DeletionPolicy: Delete", "UsageTable is deleted"},
		{"full live", "AggregatedUsageTable", "${ProductCode}-aggregated-usage", "${ProductCode}-aggregated", "AggregatedUsageTable is changed"},
	} {
		if problems := lostTables(f.stack(t, nil), direct); len(problems) != 1 || !strings.Contains(problems[0], f.says) {
			t.Errorf("%q, want %q", problems, f.says)
		}
	}
}
