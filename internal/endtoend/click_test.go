package endtoend_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	dynamosdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/functions"
	"github.com/awsmp/metering/internal/lambdahost"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/store/dynamodb"
	"github.com/awsmp/metering/simulator"
)

const (
	tokenField = "x-amzn-marketplace-token"
	elsewhere  = "eu-west-1"
	requestID  = "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"
)

// buyer is somebody invented, whom no log and no table but the profiles may know.
var buyer = url.Values{"contactName": {"Erika Mustermann"}, "contactEmail": {"erika@mustermann.example"}, "companyName": {"Mustermann & Söhne"}}

// firstClick goes the way of a buyer: the token from AWS, the form, the profile and the subscriber; and all that can be wrong with a token.
func firstClick(t *testing.T, s suite) {
	w := newWorld(t, s)
	license := w.license()
	token := w.token(simulator.Token{AccountID: account(license), LicenseARN: license})
	f := w.function(functions.Registration)

	page := w.click(f, url.Values{tokenField: {token}, "x-amzn-marketplace-offer-type": {"free-trial"}})
	if page.StatusCode != http.StatusOK || !strings.Contains(page.Body, "<form") || !strings.Contains(page.Body, "contactEmail") || !strings.Contains(page.Body, "Example Corp.") {
		t.Fatalf("to a token alone: %d %s", page.StatusCode, page.Body)
	}
	if n := len(f.aws.Calls()); n != 0 {
		t.Errorf("%d calls of DynamoDB for a form, want none", n)
	}
	if done := w.click(f, form(token, buyer, nil)); done.StatusCode != http.StatusOK || !strings.Contains(done.Body, "https://www.example.com/start") {
		t.Fatalf("to the form: %d %s", done.StatusCode, done.Body)
	}
	subscriber := w.subscriber(license)
	if diff := cmp.Diff([]string{standin.Region}, subscriber.Regions); diff != "" || subscriber.ProductCode != simulator.DefaultProductCode || subscriber.Status != "" {
		t.Errorf("subscriber %+v, %s", subscriber, diff)
	}
	w.profiled(standin.Region, license, map[string]string{
		"contactName": "Erika Mustermann", "contactEmail": "erika@mustermann.example", "companyName": "Mustermann & Söhne",
	})

	// Again, by a client that asks for JSON: an update of what it names.
	again := w.answer(f, events.APIGatewayProxyRequest{
		HTTPMethod: "POST", Path: "/register", Headers: map[string]string{"Content-Type": "application/json", "Accept": "application/json"},
		Body: text(t, map[string]string{tokenField: token, "contactName": "Max Mustermann", "contactEmail": "max@mustermann.example"}),
	})
	var told struct {
		Status, LicenseArn, CustomerAWSAccountID string
	}
	if err := json.Unmarshal([]byte(again.Body), &told); err != nil || again.StatusCode != http.StatusOK ||
		told.Status != "registered" || told.LicenseArn != license || told.CustomerAWSAccountID != account(license) {
		t.Errorf("registered again: %d %s (%v)", again.StatusCode, again.Body, err)
	}
	w.profiled(standin.Region, license, map[string]string{
		"contactName": "Max Mustermann", "contactEmail": "max@mustermann.example", "companyName": "Mustermann & Söhne",
	})
	if diff := cmp.Diff(subscriber, w.subscriber(license)); diff != "" {
		t.Errorf("registering again changed the subscriber: %s", diff)
	}

	// In another Region: a profile of its own there, and the same subscriber.
	there := w.dynamo.Options()
	there.Region = elsewhere
	fatal(t, dynamodb.Create(t.Context(), dynamosdk.New(there), dynamodb.CustomerProfileTable(w.profiles, "companyName")))
	if done := w.click(w.named("registration-elsewhere", functions.Registration, "AWS_REGION="+elsewhere), form(token, buyer, nil)); done.StatusCode != http.StatusOK {
		t.Errorf("in another Region: %d %s", done.StatusCode, done.Body)
	}
	if got := w.subscriber(license).Regions; !slices.Equal(got, []string{elsewhere, standin.Region}) {
		t.Errorf("registered in %v", got)
	}
	w.profiled(elsewhere, license, map[string]string{
		"contactName": "Erika Mustermann", "contactEmail": "erika@mustermann.example", "companyName": "Mustermann & Söhne",
	})

	// The Marketplace has no time: nothing that was typed is lost.
	w.sim.Inject(simulator.Fault{Kind: simulator.Throttle, Operation: "ResolveCustomer", Times: 3})
	if busy := w.click(f, form(token, buyer, nil)); busy.StatusCode != http.StatusServiceUnavailable || !strings.Contains(busy.Body, `value="Erika Mustermann"`) {
		t.Errorf("while AWS throttles: %d %s", busy.StatusCode, busy.Body)
	}
	w.measured(functions.Registration, "RegistrationFailed", 1, 0)

	// What is wrong with a token is said, and nothing is written.
	before := w.writes()
	expired := w.token(simulator.Token{AccountID: account(license), LicenseARN: license, TTL: -1})
	foreign := w.token(simulator.Token{AccountID: account(license), LicenseARN: license, ProductCode: "another-product"})
	for what, posted := range map[string]url.Values{
		"an expired token":                form(expired, nil, nil),
		"an expired token and a form":     form(expired, buyer, nil),
		"an invented token":               form("opaque+Mustermann/=%", nil, nil),
		"a token of another product":      form(foreign, buyer, nil),
		"a form without a token":          form("", buyer, nil),
		"a form without what is required": form(token, buyer, []string{"contactEmail"}),
	} {
		refused := w.click(f, posted)
		if refused.StatusCode < 400 || refused.StatusCode >= 500 || !strings.Contains(refused.Body, "<h1") {
			t.Errorf("%s: %d %s", what, refused.StatusCode, refused.Body)
		}
	}
	if n := w.writes() - before; n != 0 {
		t.Errorf("%d writes for what was refused", n)
	}
	w.measured(functions.Registration, "BuyerRegistered", 2, 0)
	w.nobodyAmongTheSubscribers()
}

// firstClickWithoutALicense: AWS may send a buyer before their license is there. What they typed is kept, and they are told to come back.
func firstClickWithoutALicense(t *testing.T, s suite) {
	w := newWorld(t, s)
	license := w.license()
	early := w.token(simulator.Token{AccountID: account(license)})
	f := w.function(functions.Registration)
	if told := w.click(f, form(early, buyer, nil)); told.StatusCode != http.StatusOK && told.StatusCode != http.StatusAccepted {
		t.Errorf("%d %s", told.StatusCode, told.Body)
	}
	w.profiled(standin.Region, simulator.DefaultProductCode, map[string]string{
		"contactName": "Erika Mustermann", "contactEmail": "erika@mustermann.example", "companyName": "Mustermann & Söhne",
	}, account(license))
	w.measured(functions.Registration, "RegistrationWithoutLicense", 1, 0)
	w.measured(functions.Registration, "BuyerRegistered", 0, 0)
	w.nobodyAmongTheSubscribers()
}

// token issues a token, and makes it and what a buyer types private.
func (w *world) token(t simulator.Token) string {
	w.t.Helper()
	token, err := w.sim.IssueToken(t)
	fatal(w.t, err)
	w.private = append(w.private, token, url.QueryEscape(token), token[10:30], "Mustermann", "mustermann", "erika", "Erika", "Söhne")
	return token
}

// form is what a browser posts: the token and the fields, without some of them.
func form(token string, fields url.Values, without []string) url.Values {
	all := url.Values{tokenField: {token}}
	for name, v := range fields {
		if !slices.Contains(without, name) {
			all[name] = v
		}
	}
	return all
}

// click posts a form to the function through API Gateway.
func (w *world) click(f *function, form url.Values) events.APIGatewayProxyResponse {
	w.t.Helper()
	return w.answer(f, lambdahost.Posted("/register", requestID, form))
}

// answer is what the function answers to an event of API Gateway. What every answer has is looked at here.
func (w *world) answer(f *function, e events.APIGatewayProxyRequest) (answer events.APIGatewayProxyResponse) {
	w.t.Helper()
	payload, err := f.Invoke(w.t.Context(), []byte(text(w.t, e)))
	fatal(w.t, err)
	fatal(w.t, json.Unmarshal(payload, &answer))
	h := http.Header(answer.MultiValueHeaders)
	if h.Get("Cache-Control") != "no-store" || h.Get("Content-Security-Policy") == "" || h.Get("X-Content-Type-Options") != "nosniff" {
		w.t.Errorf("headers %v of %s", h, answer.Body)
	}
	return answer
}

func text(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	fatal(t, err)
	return string(text)
}

// subscriber is the license's, which must be there.
func (w *world) subscriber(license string) metering.Subscriber {
	w.t.Helper()
	s, err := w.closing.Subscriber(w.t.Context(), license, account(license))
	fatal(w.t, err)
	if s == nil {
		w.t.Fatal("there is no subscriber")
	}
	return *s
}

// profiled fails unless a Region's profile of a license holds the fields, and the promoted one as an attribute of its own too.
func (w *world) profiled(region, license string, fields map[string]string, of ...string) {
	w.t.Helper()
	options := w.dynamo.Options()
	options.Region = region
	if of == nil {
		of = []string{account(license)}
	}
	p, err := dynamodb.NewProfiles(dynamosdk.New(options), w.profiles).Profile(w.t.Context(), license, of[0])
	fatal(w.t, err)
	if p == nil {
		w.t.Fatalf("there is no profile in %s", region)
	}
	if diff := cmp.Diff(fields, p.Fields); diff != "" {
		w.t.Errorf("profile in %s (-want +got):\n%s", region, diff)
	}
	if diff := cmp.Diff(map[string]string{"companyName": fields["companyName"]}, p.Promoted); diff != "" {
		w.t.Errorf("promoted in %s (-want +got):\n%s", region, diff)
	}
}

// nobodyAmongTheSubscribers looks through the whole table for what is private.
func (w *world) nobodyAmongTheSubscribers() {
	w.t.Helper()
	out, err := w.dynamo.Scan(w.t.Context(), &dynamosdk.ScanInput{TableName: &w.subscribers})
	fatal(w.t, err)
	items := text(w.t, out.Items)
	for _, secret := range w.private {
		if strings.Contains(items, secret) {
			w.t.Errorf("the subscribers table holds %q: %s", secret, items)
		}
	}
}
