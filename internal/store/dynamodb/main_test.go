package dynamodb_test

import (
	"flag"
	"os"
	"testing"

	"github.com/awsmp/metering/internal/standin"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("12") // each operation is a request, and the stand-ins take a few hundred of them a second
	}
	code := m.Run()
	standin.Stop()
	os.Exit(code)
}
