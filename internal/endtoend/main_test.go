package endtoend_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/lambdahost"
	"github.com/awsmp/metering/internal/standin"
)

var update = flag.Bool("update", false, "write what the functions call to "+callsFile)

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	standin.Stop()
	os.Exit(code)
}

// TestFunctions runs every scenario and then compares what the functions called, over all of them, with the list that their
// roles are made from.
func TestFunctions(t *testing.T) {
	s := suite{moto: standin.Moto(t), bootstrap: lambdahost.Build(t, "../../cmd/bootstrap"), book: newCallBook()}
	scenarios := []struct {
		name string
		run  func(*testing.T, suite)
	}{
		{"usage rows become a balanced ledger", usageBecomesABalancedLedger},
		{"the aggregator dies between the commit and its cleanup messages", aggregatorDiesAfterItsCommit},
		{"the answer to a commit is lost", answerToACommitIsLost},
		{"the cleaner dies in the middle of its labels", cleanerDiesHalfWay},
		{"the submitter dies after the mark", submitterDiesAfterTheMark},
		{"the submitter dies after the call was accepted", submitterDiesAfterTheCall},
		{"the answer to a call is lost", answerToACallIsLost},
		{"malformed messages among good ones", malformedMessages},
		{"inputs that no schedule sends", unknownInputs},
		{"expired credentials", expiredCredentials},
		{"a table that is not there", missingTable},
		{"a batch of messages is taken in part", batchTakenInPart},
		{"a page of rows fails", pageOfRowsFails},
		{"a page of the index fails", pageOfTheIndexFails},
		{"a buyer's first click", firstClick},
		{"a first click before there is a license", firstClickWithoutALicense},
		{"events in any order, and the last hour", eventsAndTheLastHour},
		{"the subscribers table is not there", missingSubscribersTable},
	}
	t.Run("all", func(t *testing.T) {
		for _, scenario := range scenarios {
			t.Run(scenario.name, func(t *testing.T) {
				t.Parallel()
				scenario.run(t, s)
				s.book.ran()
			})
		}
	})
	s.book.check(t, len(scenarios))
}

// suite is what the scenarios share.
type suite struct {
	moto      string
	bootstrap string // path of the binary
	book      *callBook
}

// patience is how long a scenario waits for what must happen.
const patience = 30 * time.Second

// eventually waits until ok says "", and fails with what it said last.
func eventually(t *testing.T, what string, ok func() string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		problem := ok()
		if problem == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen: %s", what, problem)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// problemf is a problem for eventually unless ok.
func problemf(ok bool, format string, args ...any) string {
	if ok {
		return ""
	}
	return fmt.Sprintf(format, args...)
}
