package lambdaevent_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/lambdaevent"
)

// seen is what a handler finds in its request.
type seen struct {
	Method, Path, URI, Host, From, Body string
	Query                               map[string][]string
	Header                              http.Header
	RequestID, Stage                    string
}

func serve(t *testing.T, payload string) (seen, error) {
	t.Helper()
	var got seen
	_, err := lambdaevent.Serve(t.Context(), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		rc, _ := lambdaevent.RequestContext(r.Context())
		got = seen{
			Method: r.Method, Path: r.URL.Path, URI: r.RequestURI, Host: r.Host, From: r.RemoteAddr, Body: string(body),
			Query: r.URL.Query(), Header: r.Header, RequestID: rc.RequestID, Stage: rc.Stage,
		}
		if r.ContentLength != int64(len(body)) {
			t.Errorf("content length %d of %d bytes", r.ContentLength, len(body))
		}
	}), []byte(payload))
	return got, err
}

func TestServeReadsARequest(t *testing.T) {
	t.Parallel()
	sample, err := os.ReadFile("testdata/rest-api-request.json")
	if err != nil {
		t.Fatal(err)
	}
	got, err := serve(t, string(sample))
	want := seen{
		Method: "POST", Path: "/register", URI: "/register?from=a+b&from=c%26d&lang=en", Host: "abcde12345.execute-api.us-east-1.amazonaws.com",
		From: "203.0.113.7", Body: "x-amzn-marketplace-token=abc%2Bdef%3D%3D&company=Ex%C3%A4mple",
		Query: map[string][]string{"from": {"a b", "c&d"}, "lang": {"en"}},
		Header: http.Header{
			"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"text/html", "application/json;q=0.5"}, "Cookie": {"a=1; b=2"},
			"X-Amzn-Requestid": {"c6af9ac6-7b61-11e6-9a41-93e8deadbeef"},
		},
		RequestID: "c6af9ac6-7b61-11e6-9a41-93e8deadbeef", Stage: "prod",
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, %s", err, diff)
	}
}

func TestServeReadsTheFormsOfARequest(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, payload string
		want          seen
	}{
		{
			"the smallest, as the console's test sends it",
			`{"httpMethod":"GET","path":"/"}`,
			seen{Method: "GET", Path: "/", URI: "/"},
		},
		{
			"single values alone",
			`{"httpMethod":"GET","path":"/","headers":{"accept":"text/html","Host":"h"},"queryStringParameters":{"q":"1&2"}}`,
			seen{Method: "GET", Path: "/", URI: "/?q=1%262", Host: "h", Query: map[string][]string{"q": {"1&2"}}, Header: http.Header{"Accept": {"text/html"}}},
		},
		{
			"null where there is nothing",
			`{"httpMethod":"GET","path":"/","headers":null,"multiValueHeaders":null,"multiValueQueryStringParameters":null,"body":null}`,
			seen{Method: "GET", Path: "/", URI: "/"},
		},
		{
			"a path with an escaped slash",
			`{"httpMethod":"GET","path":"/a%2Fb/c%20d"}`,
			seen{Method: "GET", Path: "/a/b/c d", URI: "/a%2Fb/c%20d"},
		},
		{
			"a path that is no escaped one",
			`{"httpMethod":"GET","path":"/100%"}`,
			seen{Method: "GET", Path: "/100%", URI: "/100%25"},
		},
		{
			"two slashes at its start are no host",
			`{"httpMethod":"GET","path":"//evil.example/x"}`,
			seen{Method: "GET", Path: "//evil.example/x", URI: "//evil.example/x"},
		},
		{
			"a caller's own request id is not API Gateway's",
			`{"httpMethod":"GET","path":"/","multiValueHeaders":{"x-amzn-requestid":["forged"]}}`,
			seen{Method: "GET", Path: "/", URI: "/"},
		},
		{
			"API Gateway's request id beside a caller's own",
			`{"httpMethod":"GET","path":"/","headers":{"x-amzn-RequestId":"forged"},"requestContext":{"requestId":"id-1"}}`,
			seen{Method: "GET", Path: "/", URI: "/", RequestID: "id-1", Header: http.Header{"X-Amzn-Requestid": {"id-1"}}},
		},
		{
			"a body in base64",
			`{"httpMethod":"POST","path":"/","isBase64Encoded":true,"body":"` + base64.StdEncoding.EncodeToString([]byte("\x00\xffä")) + `"}`,
			seen{Method: "POST", Path: "/", URI: "/", Body: "\x00\xffä"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := serve(t, test.payload)
			if test.want.Query == nil {
				test.want.Query = map[string][]string{}
			}
			if test.want.Header == nil {
				test.want.Header = http.Header{}
			}
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("error %v, %s", err, diff)
			}
		})
	}
}

// What is no request is an error that says so, and repeats nothing of it: Lambda's runtime logs it.
func TestServeRefusesOtherEvents(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ payload, want string }{
		"no JSON":             {`GET /4155550123`, "it is no JSON object"},
		"an SQS event":        {`{"Records":[{"messageId":"4155550123"}]}`, "no httpMethod"},
		"HTTP API format 2.0": {`{"version":"2.0","rawPath":"/4155550123","requestContext":{"http":{"method":"GET","path":"/"}}}`, "payload format 1.0"},
		"a bad method":        {`{"httpMethod":"GE T 4155550123","path":"/"}`, "its httpMethod is none"},
		"no path":             {`{"httpMethod":"GET","body":"4155550123"}`, "no path"},
		"a number as a body":  {`{"httpMethod":"POST","path":"/","body":4155550123}`, "body is of another type than string"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := serve(t, test.payload)
			if err == nil || got.Method != "" || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "4155550123") {
				t.Errorf("error %v, want one with %q and nothing of the event; the handler saw %+v", err, test.want, got)
			}
		})
	}
}

// F49: malformed base64 is the handler's to answer. (The seed's answer was an exception, 502 to the buyer.)
func TestF49MalformedBase64IsTheHandlersToAnswer(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"%%%", "YQ", "Y", "YWI=YWI=", "é", " "} {
		payload, err := json.Marshal(map[string]any{"httpMethod": "POST", "path": "/", "isBase64Encoded": true, "body": body})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := lambdaevent.Serve(t.Context(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if got, err := io.ReadAll(r.Body); !errors.Is(err, lambdaevent.ErrBody) || len(got) > 0 || r.ContentLength != -1 {
				t.Errorf("%q of length %d is read as %q, error %v", body, r.ContentLength, got, err)
			}
			w.WriteHeader(http.StatusBadRequest)
		}), payload)
		if err != nil || answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: answer %+v, error %v", body, answer, err)
		}
	}
}

func TestServeAnswers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, method string
		handler      http.HandlerFunc
		want         events.APIGatewayProxyResponse
	}{
		{
			name:    "nothing",
			handler: func(http.ResponseWriter, *http.Request) {},
			want:    events.APIGatewayProxyResponse{StatusCode: 200, MultiValueHeaders: http.Header{}},
		},
		{
			name: "text, its type recognised",
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "15")
				fmt.Fprint(w, "<html>", "ä</html>")
			},
			want: events.APIGatewayProxyResponse{
				StatusCode: 200, Body: "<html>ä</html>", MultiValueHeaders: http.Header{"Content-Type": {"text/html; charset=utf-8"}},
			},
		},
		{
			name: "status, and several values of a header",
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Add("Set-Cookie", "a=1")
				w.Header().Add("Set-Cookie", "b=2")
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				w.Header().Set("Too-Late", "x")
				w.WriteHeader(http.StatusOK)
				fmt.Fprint(w, `{}`)
			},
			want: events.APIGatewayProxyResponse{
				StatusCode: 400, Body: "{}", MultiValueHeaders: http.Header{"Set-Cookie": {"a=1", "b=2"}, "Content-Type": {"application/json"}},
			},
		},
		{
			name: "bytes",
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "image/x-icon")
				_, _ = w.Write([]byte{0, 0xff})
			},
			want: events.APIGatewayProxyResponse{
				StatusCode: 200, Body: "AP8=", IsBase64Encoded: true, MultiValueHeaders: http.Header{"Content-Type": {"image/x-icon"}},
			},
		},
		{
			name: "encoded text",
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "br")
				fmt.Fprint(w, "ab")
			},
			want: events.APIGatewayProxyResponse{
				StatusCode: 200, Body: "YWI=", IsBase64Encoded: true, MultiValueHeaders: http.Header{"Content-Encoding": {"br"}},
			},
		},
		{
			name: "to HEAD no body", method: "HEAD",
			handler: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "text") },
			want: events.APIGatewayProxyResponse{
				StatusCode: 200, MultiValueHeaders: http.Header{"Content-Type": {"text/plain; charset=utf-8"}},
			},
		},
		{
			name: "no content",
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusEarlyHints)
				w.WriteHeader(http.StatusNoContent)
			},
			want: events.APIGatewayProxyResponse{StatusCode: 204, MultiValueHeaders: http.Header{}},
		},
		{
			name:    "an error as net/http writes it",
			handler: http.NotFound,
			want: events.APIGatewayProxyResponse{
				StatusCode: 404, Body: "404 page not found\n",
				MultiValueHeaders: http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "X-Content-Type-Options": {"nosniff"}},
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			method := test.method
			if method == "" {
				method = "GET"
			}
			got, err := lambdaevent.Serve(t.Context(), test.handler, []byte(`{"httpMethod":"`+method+`","path":"/"}`))
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("error %v, %s", err, diff)
			}
		})
	}
}

// The answer on the wire, in the members that API Gateway reads.
func TestServeAnswersInTheFormOfAPIGateway(t *testing.T) {
	t.Parallel()
	answer, err := lambdaevent.Serve(t.Context(), http.RedirectHandler("/done", http.StatusSeeOther), []byte(`{"httpMethod":"POST","path":"/"}`))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(answer)
	const want = `{"statusCode":303,"headers":null,"multiValueHeaders":{"Location":["/done"]},"body":""}`
	if string(text) != want || err != nil {
		t.Errorf("%s, error %v, want %s", text, err, want)
	}
}

// A panic must end the process: what it left half done is not to be answered.
func TestServeDoesNotCatchAPanic(t *testing.T) {
	t.Parallel()
	defer func() {
		if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "broken") {
			t.Errorf("recovered %v", r)
		}
	}()
	_, err := lambdaevent.Serve(t.Context(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("broken") }), []byte(`{"httpMethod":"GET","path":"/"}`))
	t.Errorf("answered, error %v", err)
}
