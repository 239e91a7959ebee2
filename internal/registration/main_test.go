package registration_test

import (
	"fmt"
	"net/http"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/awsmp/metering/internal/standin"
)

func TestMain(m *testing.M) {
	code := m.Run()
	standin.Stop()
	http.DefaultClient.CloseIdleConnections() // of chromedp, to the DevTools
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
