package standin_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/remote"
	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/standin"
)

// tab opens a tab that ends with the test.
func tab(t *testing.T) context.Context {
	t.Helper()
	ctx, disconnect := remote.NewAllocator(context.Background(), standin.Chromium(t))
	t.Cleanup(disconnect)
	ctx, end := chromedp.NewContext(ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(end)
	return ctx
}

// axe-core in Chromium finds what is wrong with a page, and nothing where nothing is.
func TestAxe(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body string
		want []string
	}{
		"in order":            {body: `<main><h1>Registration</h1><label for="a">Name</label><input id="a" autocomplete="name"></main>`},
		"field without label": {body: `<main><h1>Registration</h1><input id="a"></main>`, want: []string{"label"}},
		"faint text":          {body: `<main><h1 style="color:#999;background:#fff">Registration</h1></main>`, want: []string{"color-contrast"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html; charset=utf-8")
				_, _ = fmt.Fprint(w, `<!doctype html><html lang="en"><title>A page</title>`, tt.body)
			}))
			t.Cleanup(s.Close)
			ctx := tab(t)
			if err := chromedp.Do(ctx, chromedp.Navigate(s.URL), chromedp.Evaluate[chromedp.Void](standin.Axe(t))); err != nil {
				t.Fatal(err)
			}
			got, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](`axe.run().then(r => r.violations.map(v => v.id))`, chromedp.EvalAwaitPromise))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(append([]string{}, tt.want...), got); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

// A page that asks for anything beyond this machine does not get it, whatever network the machine has.
func TestChromiumStaysHere(t *testing.T) {
	t.Parallel()
	err := chromedp.Do(tab(t), chromedp.Navigate("http://aws.amazon.com/"))
	if err == nil || !strings.Contains(err.Error(), "ERR_NAME_NOT_RESOLVED") {
		t.Errorf("the visit ended with %v, want a name that leads nowhere", err)
	}
}

// A Chromium that is named and not there is missing, and so is one of which no name is on the PATH.
func TestChromiumIsMissing(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ set, want string }{
		"named":      {set: "CHROMIUM=no-such-program", want: "missing: no-such-program\n"},
		"not named":  {set: "PATH=" + t.TempDir(), want: "missing: chromium\n"},
		"ends early": {set: "CHROMIUM=false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), sh, "serve.sh")
			cmd.Env = append(os.Environ(), "CHROMIUM=", tt.set)
			got, err := cmd.Output()
			if err != nil || string(got) != tt.want {
				t.Errorf("printed %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}
