package functions

import (
	"fmt"
	"strings"

	"github.com/awsmp/metering/internal/lifecycle"
)

// Read reads the function's settings. Its error names every variable that is missing or wrong, what it holds and what is wanted.
func (f Function) Read(getenv func(string) string) (Settings, error) {
	var s Settings
	var wrong []string
	daysRead, fieldsRead, named := true, true, map[string]string{}
	for _, v := range f.Variables {
		value := getenv(v.Name)
		if value == "" {
			value = v.Default
		}
		ok := value != "" && v.set(&s, value)
		switch v.Name {
		case usageDays.Name:
			daysRead = ok
		case aggregatedDays.Name:
			ok = ok && (!daysRead || s.recordsOutliveRows())
		case registrationFields.Name:
			fieldsRead = ok
		case promotedFields.Name:
			ok = ok || value != "" && !fieldsRead
		case subscribersTable.Name: // an invented event must never move what is billed
			ok = ok && (s.Mode != live || !lifecycle.AnyTestTable(value))
		case testStage.Name:
			ok = ok && (value == none || s.Mode != live && lifecycle.TestTable(s.SubscribersTable, value))
		case testAccounts.Name:
			ok = ok && (s.Mode != live || value == none)
		}
		if strings.HasPrefix(v.Want, wantTable) || v.Want == wantQueue {
			if other := named[value]; ok && other != "" {
				wrong = append(wrong, fmt.Sprintf("%s is %q, which %s is too", v.Name, value, other))
				continue
			}
			named[value] = v.Name
		}
		switch {
		case ok:
		case value == "":
			wrong = append(wrong, fmt.Sprintf("%s is not set, want %s", v.Name, v.Want))
		default:
			wrong = append(wrong, fmt.Sprintf("%s is %q, want %s", v.Name, value, v.Want))
		}
	}
	if len(wrong) > 0 {
		return Settings{}, fmt.Errorf("read settings of %s: %s. Try: aws lambda get-function-configuration --function-name NAME --query Environment (the stack's parameters set them)",
			f.Handler, strings.Join(wrong, "; "))
	}
	return s, nil
}

// recordsOutliveRows reports whether no row can be left whose record is gone: it would look as if it had never been billed.
func (s Settings) recordsOutliveRows() bool {
	return s.AggregatedDays == 0 || s.UsageDays > 0 && s.AggregatedDays >= s.UsageDays+keptLonger
}
