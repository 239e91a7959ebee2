package standin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

var (
	chromium = service{command: []string{"sh", "serve.sh"}, hint: "apt-get install --no-install-recommends chromium", tidies: true}

	axe = sync.OnceValues(func() (string, error) {
		at, err := folder()
		if err != nil {
			return "", err
		}
		script, err := os.ReadFile(filepath.Join(at, "node_modules/axe-core/axe.min.js"))
		if errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("axe-core: %w. Try: %s", errMissing, npm)
		}
		return string(script), err
	})
)

// Chromium returns the address of the DevTools of a headless Chromium, for chromedp's remote allocator. It starts Chromium at first
// use, the one that the variable CHROMIUM names or one on the PATH. That reaches this machine's loopback interface and nothing else.
// Tests share the process: each takes a tab in a browser context of its own.
func Chromium(t testing.TB) string { t.Helper(); return chromium.url(t) }

// Axe returns the script of axe-core, which looks at the page it is evaluated in for what keeps people out.
func Axe(t testing.TB) string {
	t.Helper()
	script, err := axe()
	installed(t, err)
	return script
}
