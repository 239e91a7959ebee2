package registration_test

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/registration"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/simulator"
)

var screenshots = flag.String("screenshots", "", "folder that gets a picture of each state of the page")

// buyer is what a buyer types.
var buyer = map[string]string{
	"contactName":  "Zoë Ångström",
	"contactEmail": "zoe@buyer.example",
	"companyName":  "Buyer & Sons <Ltd>",
	"useCase":      "Reports, \"monthly\", and 100% of them",
}

func only(names ...string) map[string]string {
	some := map[string]string{}
	for _, n := range names {
		some[n] = buyer[n]
	}
	return some
}

// TestBrowser is the page in a buyer's browser, from the button in AWS Marketplace on.
func TestBrowser(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T){
		"filled and submitted": testFilled,
		"required missing":     testMended,
		"pasted text":          testPasted,
		"refused token":        testRefused,
		"expired token":        testExpired,
		"JavaScript off":       testWithoutScript,
		"320 pixels":           testNarrow,
		"twice the text size":  testLargeText,
		"try again":            testBusy,
		"keyboard only":        testKeyboard,
		"accessibility":        testAccessibility,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

func testFilled(t *testing.T) {
	s := openShop(t, continues)
	v := visitorOf(t, s)
	v.arrivesAtForm(v.click(s, url.Values{"offerType": {"free-trial"}}), s)
	v.says("Example Software", "Example Insights")
	v.fill(buyer)
	v.registered(s)
	next := run(v, chromedp.AttributeValue(chromedp.CSS("main a[href^='https:']"), "href"))
	if next.Value != "https://app.example.com/start" {
		t.Errorf("the way on leads to %s", next.Value)
	}
	v.told(s, buyer)
}

// arrivesAtForm looks at the first page: the token is in it, and not in its address.
func (v *visitor) arrivesAtForm(status int, s *shop) {
	v.Helper()
	if at := run(v, chromedp.Location()); status != http.StatusOK || at != s.page {
		v.Fatalf("arrived at %s with status %d:\n%s", at, status, v.text())
	}
	if p := s.profile(v.T, license); p != nil {
		v.Fatalf("written down before anything was submitted: %+v", p)
	}
}

// registered presses the button and is a subscriber.
func (v *visitor) registered(s *shop) {
	v.Helper()
	if status := v.arrive(pressButton()); status != http.StatusOK {
		v.Fatalf("the answer has status %d:\n%s", status, v.text())
	}
	subscriber, err := s.store.Subscriber(v.Context(), license, account)
	if err != nil || subscriber == nil || subscriber.ProductCode != product {
		v.Fatalf("subscriber %+v, %v", subscriber, err)
	}
	if at, _, _ := strings.Cut(run(v, chromedp.Location()), "#"); at != s.page {
		v.Errorf("ended at %s", at)
	}
}

// told holds what was written down.
func (v *visitor) told(s *shop, want map[string]string) {
	v.Helper()
	p := s.profile(v.T, license)
	if p == nil {
		v.Fatal("nothing was written down")
	}
	if diff := cmp.Diff(want, p.Fields); diff != "" {
		v.Errorf("written down (-want +got):\n%s", diff)
	}
}

// What was typed is there after an answer that asks for more.
func testMended(t *testing.T) {
	s := openShop(t)
	v := visitorOf(t, s)
	v.arrivesAtForm(v.click(s, nil), s)
	v.fill(only("contactName", "companyName", "useCase"))
	v.fill(map[string]string{"contactEmail": "zoe"})
	if status := v.arrive(pressButton()); status != http.StatusUnprocessableEntity {
		t.Fatalf("status %d:\n%s", status, v.text())
	}
	if title := run(v, chromedp.Title()); !strings.HasPrefix(title, "Error: ") {
		t.Errorf("title %q", title)
	}
	for name, want := range map[string]string{
		"contactName": buyer["contactName"], "companyName": buyer["companyName"], "useCase": buyer["useCase"], "contactEmail": "zoe",
	} {
		if got := run(v, chromedp.Value(field(name))); got != want {
			t.Errorf("%s is %q after the error, want %q", name, got, want)
		}
	}
	if role := run(v, chromedp.Evaluate[string](`document.activeElement.role`)); role != "alert" {
		t.Errorf("after the error a screen reader begins at %q", role)
	}
	v.do(chromedp.Click(chromedp.CSS("main a[href^='#']"))) // the summary leads to the field
	if focused := run(v, chromedp.Evaluate[string](`document.activeElement.name`)); focused != "contactEmail" {
		t.Errorf("the summary leads to %q", focused)
	}
	v.do(chromedp.Clear(field("contactEmail")))
	v.fill(only("contactEmail"))
	v.registered(s)
	v.told(s, buyer)
}

// A text that is far too long comes back in the form to be shortened, and a spreadsheet's tab costs nothing.
func testPasted(t *testing.T) {
	s := openShop(t)
	v := visitorOf(t, s)
	v.arrivesAtForm(v.click(s, nil), s)
	v.fill(only("contactName", "contactEmail"))
	v.fill(map[string]string{"companyName": "Buyer &\tSons", "useCase": strings.Repeat("語", 8000)})
	if status := v.arrive(pressButton()); status != http.StatusUnprocessableEntity {
		t.Fatalf("status %d:\n%s", status, v.text())
	}
	v.says("it has 8000 characters, and there is room for 1000")
	if got := len([]rune(run(v, chromedp.Value(field("useCase"))))); got != 8000 {
		t.Errorf("%d characters came back", got)
	}
	v.do(chromedp.Clear(field("useCase")))
	v.registered(s)
	want := only("contactName", "contactEmail")
	want["companyName"] = "Buyer & Sons"
	v.told(s, want)
}

func testRefused(t *testing.T) {
	s := openShop(t)
	v := visitorOf(t, s)
	v.open(s, nil)
	if err := s.sim.Reset(); err != nil { // the token is unknown from here on
		t.Fatal(err)
	}
	if status := v.arrive(pressButton()); status != http.StatusBadRequest {
		t.Errorf("status %d", status)
	}
	v.says("AWS Marketplace", "Set up your account")
	v.turnedAway(s)
}

// The token has expired when the buyer arrives, or while the form was being filled in.
func testExpired(t *testing.T) {
	t.Run("at the click", func(t *testing.T) {
		t.Parallel()
		s := openShop(t)
		v := visitorOf(t, s)
		if status := v.click(s, url.Values{"expired": {"true"}}); status != http.StatusBadRequest {
			t.Errorf("status %d", status)
		}
		v.says("expired", "Set up your account")
		v.turnedAway(s)
	})
	t.Run("at the form", func(t *testing.T) {
		t.Parallel()
		s := openShop(t)
		v := visitorOf(t, s)
		v.arrivesAtForm(v.click(s, nil), s)
		v.fill(buyer)
		if err := s.sim.Advance(5 * time.Hour); err != nil {
			t.Fatal(err)
		}
		if status := v.arrive(pressButton()); status != http.StatusBadRequest {
			t.Errorf("status %d", status)
		}
		v.says("expired", "Set up your account")
		v.turnedAway(s)
	})
}

// turnedAway: nothing was written down, and there is nothing to submit.
func (v *visitor) turnedAway(s *shop) {
	v.Helper()
	if p := s.profile(v.T, license); p != nil {
		v.Errorf("written down: %+v", p)
	}
	if forms := run(v, chromedp.Evaluate[int](`document.forms.length`)); forms != 0 {
		v.Errorf("there are %d forms left", forms)
	}
}

func testWithoutScript(t *testing.T) {
	s := openShop(t)
	v := visitorOf(t, s)
	send(v, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	v.open(s, nil)
	if on := run(v, chromedp.Evaluate[bool](`matchMedia("(scripting: enabled)").matches`)); on {
		t.Fatal("scripts run")
	}
	v.arrivesAtForm(v.arrive(pressButton()), s)
	v.fill(only("contactName", "contactEmail"))
	v.registered(s)
	v.told(s, only("contactName", "contactEmail"))
}

// Trouble that passes costs the buyer one more press of the button.
func testBusy(t *testing.T) {
	s := openShop(t)
	v := visitorOf(t, s)
	v.arrivesAtForm(v.click(s, nil), s)
	v.fill(buyer)
	s.sim.Inject(simulator.Fault{Kind: simulator.Throttle})
	if status := v.arrive(pressButton()); status != http.StatusServiceUnavailable {
		t.Fatalf("status %d:\n%s", status, v.text())
	}
	v.says("Nothing is lost")
	s.sim.ClearFaults()
	v.registered(s)
	v.told(s, buyer)
}

// each looks at every state of the page, as it was answered to whoever brought it about.
func each(t *testing.T, look func(v *visitor, name string)) {
	states := append(pageStates(), pageState{name: "long names", status: http.StatusOK, change: func(o *office) {
		o.Seller.Name, o.Seller.Product = strings.Repeat("Software", 12), strings.Repeat("Insights ", 11)
		o.Seller.Support = "https://" + strings.Repeat("support", 8) + ".example.com/help"
		o.Fields, _ = registration.ParseFields("contactPhone*," + strings.Repeat("averylongname", 4) + ",website,comments")
	}, form: func(t *testing.T, o *office) url.Values { return alone(o.licensed(t)) }})
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	var pages []string
	for _, st := range states {
		_, answered := show(t, st)
		path := "/" + strings.ReplaceAll(st.name, " ", "-")
		pages = append(pages, server.URL+path)
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			maps.Copy(w.Header(), answered.Header())
			w.WriteHeader(answered.Code)
			_, _ = w.Write(answered.Body.Bytes())
		})
	}
	v := tab(t, pages...)
	for i, st := range states {
		t.Run(st.name, func(t *testing.T) {
			v := &visitor{T: t, ctx: v.ctx}
			v.do(chromedp.EmulateViewport(1280, 800))
			if status := v.arrive(chromedp.Navigate(pages[i])); status != st.status {
				t.Fatalf("status %d, want %d:\n%s", status, st.status, v.text())
			}
			look(v, st.name)
		})
	}
}

// 320 CSS pixels are also what a window of 1,280 has at a zoom of 400 % (WCAG 1.4.10).
func testNarrow(t *testing.T) {
	each(t, func(v *visitor, name string) {
		v.do(chromedp.EmulateViewport(320, 640))
		v.fits(320)
		v.picture(name + " 320")
	})
}

// A browser's setting for larger text changes the root's font size (WCAG 1.4.4).
func testLargeText(t *testing.T) {
	each(t, func(v *visitor, _ string) {
		v.do(chromedp.EmulateViewport(640, 800), chromedp.Evaluate[chromedp.Void](`document.documentElement.style.fontSize = "200%"`))
		v.fits(640)
		if size := run(v, chromedp.Evaluate[float64](`parseFloat(getComputedStyle(document.querySelector("main p, main label")).fontSize)`)); size < 28 {
			v.Errorf("text is %v pixels high at twice the size", size)
		}
	})
}

// beyond lists what reaches beyond the width, or is cut off within its own box.
const beyond = `[...document.querySelectorAll("body *")].filter(e => {
	const box = e.getBoundingClientRect(), style = getComputedStyle(e)
	if (!box.width || !box.height || style.clipPath != "none") return false // the latter is for screen readers alone
	const cut = style.overflowX != "visible" && e.scrollWidth > e.clientWidth && !e.matches("input, textarea")
	return box.left < -0.5 || box.right > %d + 0.5 || cut
}).map(e => e.outerHTML.slice(0, 120))`

func (v *visitor) fits(width int) {
	v.Helper()
	if got := run(v, chromedp.Evaluate[int](`document.documentElement.scrollWidth`)); got > width {
		v.Errorf("the page is %d pixels wide in a window of %d", got, width)
	}
	for _, e := range run(v, chromedp.Evaluate[[]string](fmt.Sprintf(beyond, width))) {
		v.Errorf("not all in the window: %s", e)
	}
}

// picture saves the page as it looks, where the flag asks for it.
func (v *visitor) picture(name string) {
	v.Helper()
	if *screenshots == "" {
		return
	}
	file := filepath.Join(*screenshots, strings.ReplaceAll(name, " ", "-")+".png")
	if err := os.WriteFile(file, run(v, chromedp.FullScreenshot(100)), 0o644); err != nil {
		v.Fatal(err)
	}
}

// A buyer without a mouse comes to each field in the order of the page, sees where they are, and submits with Enter.
func testKeyboard(t *testing.T) {
	s := openShop(t)
	v := visitorOf(t, s)
	v.open(s, nil)
	v.do(chromedp.KeyEvent(kb.Tab))
	v.arrivesAtForm(v.arrive(chromedp.KeyEvent(kb.Enter)), s)
	var visited []string
	for range 12 {
		v.do(chromedp.KeyEvent(kb.Tab))
		at := run(v, chromedp.Evaluate[string](`(document.activeElement.name || document.activeElement.localName)`))
		if at == "body" { // past the last one
			break
		}
		v.seesFocus(at)
		visited = append(visited, at)
		if text, ok := buyer[at]; ok {
			v.do(chromedp.KeyEvent(text))
		}
	}
	got := strings.Join(visited, " ")
	if want := "contactName contactEmail companyName useCase button"; !strings.Contains(got, want) {
		t.Fatalf("Tab leads to %s, want %s", got, want)
	}
	v.do(chromedp.Focus(field("companyName")))
	if status := v.arrive(chromedp.KeyEvent(kb.Enter)); status != http.StatusOK {
		t.Fatalf("status %d:\n%s", status, v.text())
	}
	v.told(s, buyer)
}

// seesFocus holds that the focused element looks otherwise than it does without the focus, in both colors.
func (v *visitor) seesFocus(name string) {
	v.Helper()
	for _, scheme := range []string{"dark", "light"} {
		v.colors(scheme)
		if ring := run(v, chromedp.Evaluate[string](`(() => {
			const s = getComputedStyle(document.activeElement)
			return s.outlineStyle != "none" && parseFloat(s.outlineWidth) >= 2 ? s.outlineColor : s.boxShadow
		})()`)); ring == "none" || strings.HasPrefix(ring, "rgba(0, 0, 0, 0)") {
			v.Errorf("nothing shows the focus on %s in %s colors: %s", name, scheme, ring)
		}
	}
}

// testAccessibility has axe-core look at each state in both colors. What it cannot decide is a failure too, but for the contrast of text
// without letters: the check mark has that of the digit beside it.
func testAccessibility(t *testing.T) {
	type finding struct{ ID, Node, Why string }
	const look = `axe.run({
		runOnly: {type: "tag", values: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"]},
		rules: {"target-size": {enabled: true}},
	}).then(r => [...r.violations, ...r.incomplete].flatMap(f => f.nodes.filter(n => n.any[0]?.data?.messageKey != "nonBmp")
		.map(n => ({ID: f.id, Node: n.html, Why: n.failureSummary}))))`
	each(t, func(v *visitor, name string) {
		v.do(chromedp.Evaluate[chromedp.Void](standin.Axe(t)))
		for _, scheme := range []string{"dark", "light"} {
			v.colors(scheme)
			for _, f := range run(v, chromedp.Evaluate[[]finding](look, chromedp.EvalAwaitPromise)) {
				v.Errorf("%s: %s: %s\n%s", scheme, f.ID, f.Node, f.Why)
			}
			v.picture(name + " 1280 " + scheme)
		}
	})
}
