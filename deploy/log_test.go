package deploy_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/awsmp/metering/internal/template"
)

// checkLogs: every function writes to a log group of the stack, which is there before it does, keeps what it holds as long as was asked for, and is encrypted by
// the key that was given. A group that Lambda makes by itself keeps it for ever.
func checkLogs(s *template.Stack) (wrong []string) {
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	writers := map[string][]string{}
	for _, id := range slices.Sorted(maps.Keys(s.Resources)) {
		r := s.Resources[id]
		if r.Type != lambdaType && r.Type != apiStageType {
			continue // alarms watch groups, roles allow them
		}
		var groups []string
		for _, used := range r.Uses {
			if s.Resources[used].Type == logGroupType {
				groups = append(groups, used)
				writers[used] = append(writers[used], id)
			}
		}
		if len(groups) != 1 {
			note("%s refers to the log groups %q, want one", id, groups)
			continue
		}
		if name := s.Resources[groups[0]].Text("LogGroupName"); r.Type == lambdaType && (name != "/aws/lambda/"+r.Text("FunctionName") || r.Text("LoggingConfig", "LogGroup") != name) {
			note("%s logs to %q, and its group is %q", id, r.Text("LoggingConfig", "LogGroup"), name)
		}
	}
	for _, group := range s.OfType(logGroupType) {
		if len(writers[group.ID]) != 1 {
			note("%q write to %s, want one", writers[group.ID], group.ID)
		}
		if got, want := group.Text("RetentionInDays"), s.Parameters["LogRetentionInDays"]; got != want {
			note("%s keeps for %s days, want %s", group.ID, got, want)
		}
		var key any
		if given := s.Parameters["LogsKmsKeyArn"]; given != "" {
			key = given
		}
		if got := group.Get("KmsKeyId"); got != key {
			note("%s has the key %v, want %v", group.ID, got, key)
		}
	}
	return wrong
}

func TestLogsAreKeptAsAskedFor(t *testing.T) {
	t.Parallel()
	upholds(t, checkLogs,
		fault{"full live", "CleanupFunction", "!Ref CleanupLogs", "/aws/lambda/cleanup", "CleanupFunction refers to the log groups []"},
		fault{"full live", "CleanupFunction", "!Ref CleanupLogs", "!Ref AggregatorLogs", "write to AggregatorLogs, want one"},
		fault{"full live", "CleanupFunction", "!Ref CleanupLogs", "!GetAtt CleanupLogs.Arn", "CleanupFunction logs to"},
		fault{"full live", "CleanupFunction", "      LoggingConfig: {LogGroup: !Ref CleanupLogs, LogFormat: Text}\n", "", "CleanupFunction refers to the log groups []"},
		fault{"full live", "CleanupLogs", "${ProductCode}-cleanup", "${ProductCode}-clean-up", "CleanupFunction logs to"},
		fault{"events test stage", "SubscriptionLogs", "/aws/lambda/awsmp-subscription-test-${StageName}", "/aws/lambda/awsmp-subscription", "SubscriptionFunction logs to"},
		fault{"full live", "RegistrationAccessLogs", "      RetentionInDays: !Ref LogRetentionInDays\n", "", "RegistrationAccessLogs keeps for  days"},
		fault{"full live", "CleanupLogs", "!If [HasLogsKey, !Ref LogsKmsKeyArn, !Ref AWS::NoValue]", "!Ref LogsKmsKeyArn", "CleanupLogs has the key"},
	)
	given := map[string]string{"LogRetentionInDays": "7", "LogsKmsKeyArn": "arn:aws:kms:us-east-1:111122223333:key/00000000-0000-4000-8000-000000000000"}
	for _, d := range deployments() {
		for _, problem := range checkLogs(d.with(t, given)) {
			t.Errorf("%s: %s", d.name, problem)
		}
	}
	for _, f := range []fault{
		{"full live", "CleanupLogs", "      KmsKeyId: !If [HasLogsKey, !Ref LogsKmsKeyArn, !Ref AWS::NoValue]\n", "", "CleanupLogs has the key <nil>"},
		{"full live", "RegistrationAccessLogs", "!Ref LogRetentionInDays", "90", "RegistrationAccessLogs keeps for 90 days, want 7"},
	} {
		complains(t, checkLogs(f.stack(t, given)), f.says)
	}
}

// fates are what becomes of resources when they leave the stack: DeletionPolicy, and UpdateReplacePolicy where another takes their place. By type, or by logical ID.
// Whatever is not here goes with the stack and holds nothing.
func fates() map[string][2]string {
	kept, gone := [2]string{"RetainExceptOnCreate", "Retain"}, [2]string{"Delete", "Delete"}
	return map[string][2]string{
		tableType:    kept,
		queueType:    gone, // of groups, keys and events, which the tables or AWS Marketplace have too
		logGroupType: gone,
		// Of the account, and not of the stack alone: the access logs of all its APIs stop without them.
		// Also where the first deployment fails: the account's setting stays then, and must not name a role that is gone.
		"ApiGatewayLogRole": {"Retain", "Retain"}, accountType: {"Retain", "Retain"},
	}
}

// checkFates: what holds something has both policies, as stated, and nothing else has any.
func checkFates(tmpl *template.Template) (wrong []string) {
	for _, id := range slices.Sorted(maps.Keys(tmpl.Resources)) {
		raw := tmpl.Resources[id]
		want, byID := fates()[id]
		if !byID {
			want = fates()[raw.Type]
		}
		if got := [2]string{raw.DeletionPolicy, raw.UpdateReplacePolicy}; got != want {
			wrong = append(wrong, fmt.Sprintf("%s: DeletionPolicy and UpdateReplacePolicy are %q, want %q", id, got, want))
		}
	}
	return wrong
}

func TestWhatLeavesAStackIsKeptOrNot(t *testing.T) {
	t.Parallel()
	for _, file := range []string{eventsTemplate, meteringTemplate} {
		for _, problem := range checkFates(read(t, file)) {
			t.Errorf("%s: %s", file, problem)
		}
	}
	for _, f := range []fault{
		{"full live", "CustomerProfileTable", "    DeletionPolicy: RetainExceptOnCreate\n", "", "CustomerProfileTable: DeletionPolicy"},
		{"full live", "CustomerProfileTable", "    UpdateReplacePolicy: Retain\n", "", "CustomerProfileTable: DeletionPolicy"},
		{"full live", "UsageTable", "DeletionPolicy: RetainExceptOnCreate", "DeletionPolicy: Retain", "UsageTable: DeletionPolicy"},
		{"events live", "EventsQueue", "    DeletionPolicy: Delete\n", "", "EventsQueue: DeletionPolicy"},
		{"full live", "CleanupLogs", "DeletionPolicy: Delete", "DeletionPolicy: Retain", "CleanupLogs: DeletionPolicy"},
		{"full live", "ApiGatewayAccount", "    DeletionPolicy: Retain\n", "", "ApiGatewayAccount: DeletionPolicy"},
		{"full live", "CleanupRole", "Properties:", "DeletionPolicy: Retain\n    Properties:", "CleanupRole: DeletionPolicy"},
	} {
		complains(t, checkFates(brokenText(t, f)), f.says)
	}
}
