package costs

import (
	"flag"
	"os"
	"testing"

	"github.com/awsmp/metering/internal/standin"
)

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	standin.Stop()
	os.Exit(code)
}
