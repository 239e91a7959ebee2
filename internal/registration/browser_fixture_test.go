package registration_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/remote"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/standin"
)

// patience is how long a step may take in the browser, on the busiest machine.
const patience = time.Minute

// shop is an office that browsers come to from AWS Marketplace: two sites, as they are in life.
type shop struct {
	*office
	aws  string // base address of the Marketplace
	page string // address of the registration page, under a stage's path

	mu    sync.Mutex
	stray []string // what else its site was asked for
}

func openShop(t *testing.T, change ...func(*office)) *shop {
	t.Helper()
	s := &shop{office: open(t, change...)}
	aws := httptest.NewServer(s.sim)
	t.Cleanup(aws.Close)
	mux := http.NewServeMux()
	mux.Handle("/stage/register", s.Handler)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.stray = append(s.stray, r.Method+" "+r.URL.Path)
		s.mu.Unlock()
		http.NotFound(w, r)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.aws, s.page = aws.URL, strings.Replace(server.URL, "127.0.0.1", "localhost", 1)+"/stage/register"
	return s
}

// firstClick is the address at which the Marketplace plays a first click, with what is said of the buyer.
func (s *shop) firstClick(buyer url.Values) string {
	q := url.Values{"to": {s.page}, "accountId": {account}, "licenseArn": {license}}
	for name, values := range buyer {
		q[name] = values
	}
	return s.aws + "/_simulator/first-click?" + q.Encode()
}

// profile is what was written down of the buyer with a license, nil if nothing was.
func (s *shop) profile(t *testing.T, license string) *metering.Profile {
	t.Helper()
	p, err := s.store.Profile(t.Context(), license, account)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// visitor is a buyer with a browser: a tab without history, cookies or cache, in which scripts run unless they are switched off.
type visitor struct {
	*testing.T
	ctx context.Context

	mu       sync.Mutex
	asked    []string // addresses of all requests
	problems []string // on the console
}

// visitorOf opens a tab for a shop.
func visitorOf(t *testing.T, s *shop) *visitor {
	t.Helper()
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, a := range s.stray {
			t.Errorf("asked the page's site for %s", a)
		}
	})
	return tab(t, s.page, s.aws+"/_simulator/first-click")
}

// tab opens a tab for some pages. At the test's end nothing may stand on the console, and nothing may have been asked for beside the pages.
func tab(t *testing.T, pages ...string) *visitor {
	t.Helper()
	v := &visitor{T: t}
	ctx, disconnect := remote.NewAllocator(context.Background(), standin.Chromium(t)) // the tab is closed when the test's own context has ended
	t.Cleanup(disconnect)
	ctx, end := chromedp.NewContext(ctx, chromedp.WithNewBrowserContext(), chromedp.WithListener(v.listen))
	t.Cleanup(end)
	v.ctx = ctx
	t.Cleanup(func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, p := range v.problems {
			t.Errorf("on the console: %s", p)
		}
		for _, a := range v.asked {
			if a, _, _ := strings.Cut(a, "?"); !slices.Contains(pages, a) {
				t.Errorf("asked for %s", a)
			}
		}
	})
	if err := chromedp.Do(ctx); err != nil { // opens it, for as long as the context lasts
		t.Fatal(err)
	}
	v.do(chromedp.EmulateViewport(1280, 800))
	return v
}

// listen runs on the connection's own goroutine, for every event.
func (v *visitor) listen(event any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		v.asked = append(v.asked, e.Request.URL)
	case *log.EventEntryAdded:
		if !strings.HasPrefix(e.Entry.Text, "Failed to load resource: the server responded with a status of") { // the page's own status
			v.problems = append(v.problems, fmt.Sprintf("%s: %s (%s)", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *runtime.EventConsoleAPICalled:
		v.problems = append(v.problems, fmt.Sprintf("console.%s", e.Type))
	case *runtime.EventExceptionThrown:
		v.problems = append(v.problems, e.ExceptionDetails.Text)
	}
}

func (v *visitor) do(steps ...chromedp.Action[chromedp.Void]) {
	v.Helper()
	run(v, chromedp.Steps(steps...))
}

func run[T any](v *visitor, action chromedp.Action[T]) T {
	v.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, patience)
	defer cancel()
	got, err := chromedp.Run(ctx, action)
	if err != nil {
		v.Fatal(err)
	}
	return got
}

func send[P, R any](v *visitor, command cdp.Command[P, R], params P) {
	v.Helper()
	run(v, func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, command, params) })
}

// arrive does what leads to another page, and returns that page's status.
func (v *visitor) arrive(steps ...chromedp.Action[chromedp.Void]) int {
	v.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, patience)
	defer cancel()
	response, err := chromedp.RunResponse(ctx, steps...)
	if err != nil {
		v.Fatalf("wait for a page: %v", err)
	}
	return int(response.Status)
}

// click comes from AWS Marketplace as a buyer of the given kind does.
func (v *visitor) click(s *shop, buyer url.Values) int {
	v.Helper()
	v.open(s, buyer)
	return v.arrive(pressButton())
}

func (v *visitor) open(s *shop, buyer url.Values) {
	v.Helper()
	if status := v.arrive(chromedp.Navigate(s.firstClick(buyer))); status != http.StatusOK {
		v.Fatalf("the Marketplace's page has status %d", status)
	}
}

func pressButton() chromedp.Action[chromedp.Void] {
	return chromedp.Click(chromedp.CSS("main form button"))
}

func field(name string) chromedp.CSS { return chromedp.CSS(fmt.Sprintf("[name=%q]", name)) }

// fill puts text into fields, all at once as a paste or an autofill does.
func (v *visitor) fill(values map[string]string) {
	v.Helper()
	for name, value := range values {
		v.do(chromedp.Focus(field(name)))
		send(v, input.InsertText, input.InsertTextParams{Text: value})
	}
}

// text is what the page says, in one line.
func (v *visitor) text() string {
	v.Helper()
	return strings.Join(strings.Fields(run(v, chromedp.Text(chromedp.CSS("body")))), " ")
}

func (v *visitor) says(want ...string) {
	v.Helper()
	text := v.text()
	for _, w := range want {
		if !strings.Contains(text, w) {
			v.Errorf("the page does not say %q:\n%s", w, text)
		}
	}
}

// colors sets what the buyer likes: light or dark, and at once.
func (v *visitor) colors(scheme string) {
	v.Helper()
	send(v, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
	})
}
