package stack_test

import (
	"os"
	"testing"

	"github.com/awsmp/metering/internal/standin"
)

func TestMain(m *testing.M) {
	code := m.Run()
	standin.Stop()
	os.Exit(code)
}
