package functions_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/functions"
)

const (
	token   = "opaque+token/with=everything%"
	name    = "Erika Mustermann"
	mail    = "erika@example.org"
	company = "Mustermann & Söhne"
)

// posted is the event of a form that a buyer's browser posts.
func posted(t *testing.T, form url.Values) []byte {
	t.Helper()
	return eventOf(t, events.APIGatewayProxyRequest{
		HTTPMethod: "POST", Path: "/register", Body: form.Encode(),
		Headers:        map[string]string{"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html,*/*;q=0.8"},
		RequestContext: events.APIGatewayProxyRequestContext{RequestID: "id-of-the-request"},
	})
}

func eventOf(t *testing.T, e events.APIGatewayProxyRequest) []byte {
	t.Helper()
	payload, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

func answerOf(t *testing.T, o opened, payload []byte) events.APIGatewayProxyResponse {
	t.Helper()
	text, err := o.Invoke(t.Context(), payload)
	if err != nil {
		t.Fatal(err)
	}
	var answer events.APIGatewayProxyResponse
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

func filled() url.Values {
	return url.Values{"x-amzn-marketplace-token": {token}, "contactName": {name}, "contactEmail": {mail}, "companyName": {company}}
}

// F52: the profile is written here and the subscriber in the subscribers' Region; what a buyer typed goes into the profile and nowhere
// else, and neither log nor metrics hold any of it, or the token.
func TestF52ARegistrationKeepsWhatIsPersonalInTheProfile(t *testing.T) {
	t.Parallel()
	o := open(t, functions.Registration, nil)
	requests := map[string]string{}
	o.service.answer = func(operation, request string) string {
		switch {
		case operation == "ResolveCustomer":
			return `{"CustomerAWSAccountId":"` + buyer + `","LicenseArn":"` + license + `","ProductCode":"example"}`
		case strings.Contains(request, "awsmp-example-customer-profile"):
			requests["profile"] += request
		default:
			requests["subscriber"] += request
		}
		return ""
	}
	answer := answerOf(t, o, posted(t, filled()))
	if answer.StatusCode != http.StatusOK || !strings.Contains(answer.Body, "https://www.example.com/start") || !strings.Contains(answer.Body, "Example Corp.") {
		t.Errorf("answer %d %s", answer.StatusCode, answer.Body)
	}
	want := []string{
		"eu-west-1 aws-marketplace ResolveCustomer", "eu-west-1 dynamodb UpdateItem", "us-east-1 dynamodb GetItem", "us-east-1 dynamodb UpdateItem",
	}
	if diff := cmp.Diff(want, slices.Compact(slices.Sorted(slices.Values(o.service.seen())))); diff != "" {
		t.Error(diff)
	}
	for _, typed := range []string{name, mail, "Mustermann", "erika", token, "opaque"} {
		for what, text := range map[string]string{"log": o.log.String(), "metrics": o.metrics.String(), "subscriber": requests["subscriber"]} {
			if strings.Contains(text, typed) {
				t.Errorf("the %s holds %q: %s", what, typed, text)
			}
		}
	}
	if strings.Contains(o.log.String(), buyer) || strings.Contains(o.log.String(), license) {
		t.Errorf("the log shows identifiers: %s", o.log.String())
	}
	if p := requests["profile"]; !strings.Contains(p, mail) || strings.Contains(p, "opaque") || strings.Count(p, "Mustermann \\u0026")+strings.Count(p, "Mustermann &") != 2 {
		t.Errorf("the profile is %s, want what was typed with the promoted field twice, and no token", p)
	}
	if !strings.Contains(o.metrics.String(), `"BuyerRegistered":1`) || !strings.Contains(o.metrics.String(), `"ProductCode":"example"`) {
		t.Errorf("metrics %s", o.metrics.String())
	}
	if last := lastLine(o.log.String()); !strings.Contains(last, "run ended") || !strings.Contains(last, "status=200") {
		t.Errorf("log ends with %s", last)
	}
}

// F49: malformed base64 is answered, with the headers of every answer, and nobody is asked anything.
func TestF49MalformedBase64IsAnswered400(t *testing.T) {
	t.Parallel()
	for accept, kind := range map[string]string{"application/json": "application/json", "text/html": "text/html"} {
		o := open(t, functions.Registration, nil)
		answer := answerOf(t, o, eventOf(t, events.APIGatewayProxyRequest{
			HTTPMethod: "POST", Path: "/register", Body: "%%%", IsBase64Encoded: true,
			Headers: map[string]string{"Content-Type": "application/x-www-form-urlencoded", "Accept": accept},
		}))
		h := http.Header(answer.MultiValueHeaders)
		if answer.StatusCode != http.StatusBadRequest || !strings.HasPrefix(h.Get("Content-Type"), kind) {
			t.Errorf("%s: answer %d of type %s: %s", accept, answer.StatusCode, h.Get("Content-Type"), answer.Body)
		}
		for header, want := range map[string]string{
			"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
			"Strict-Transport-Security": "max-age=", "Content-Security-Policy": "default-src 'none'",
		} {
			if !strings.Contains(h.Get(header), want) {
				t.Errorf("%s: %s is %q, want %s", accept, header, h.Get(header), want)
			}
		}
		var told struct{ Error, Message string }
		if kind == "application/json" && (json.Unmarshal([]byte(answer.Body), &told) != nil || told.Error == "" || told.Message == "") {
			t.Errorf("body %s, want the error's code and message", answer.Body)
		}
		if calls := o.service.seen(); len(calls) > 0 {
			t.Errorf("called %v", calls)
		}
	}
}

// What fails at AWS is answered in words with API Gateway's id of the request, which the log has too.
func TestAFailedRegistrationHasAReference(t *testing.T) {
	t.Parallel()
	o := open(t, functions.Registration, nil)
	o.service.fail = func(string) (int, string) {
		return http.StatusBadRequest, `{"__type":"AccessDeniedException","message":"User: arn:aws:sts::` + buyer + `:assumed-role/x is not authorized"}`
	}
	answer := answerOf(t, o, posted(t, filled()))
	if answer.StatusCode < 500 || !strings.Contains(answer.Body, "id-of-the-request") || !strings.Contains(answer.Body, "help@example.com") {
		t.Errorf("answer %d %s", answer.StatusCode, answer.Body)
	}
	log := o.log.String()
	if !strings.Contains(log, "id-of-the-request") || !strings.Contains(log, "aws-marketplace:ResolveCustomer") || strings.Contains(log, buyer) || strings.Contains(log, "opaque") || strings.Contains(log, "Mustermann") {
		t.Errorf("log %s", log)
	}
}
