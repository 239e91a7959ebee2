package lambdaevent

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"
)

// Serve answers a request of an API Gateway REST API with h (API Gateway developer guide, "Lambda proxy integrations", input and
// output format). It fails only if the event is no such request, and says so without a word of what the event holds: that is a buyer's.
// A panic of h is not caught: the process ends, and API Gateway answers 502.
//
// A body in malformed base64 is the caller's fault and h's to answer: reading it fails with ErrBody (F49). The id that API Gateway gave
// the request is in its header HeaderRequestID, and in RequestContext.
//
// A response that is not UTF-8 text, or that carries a Content-Encoding, is given in base64; API Gateway makes bytes of it again
// only for the media types that the API declares as binary.
func Serve(ctx context.Context, h http.Handler, payload []byte) (events.APIGatewayProxyResponse, error) {
	r, err := request(ctx, payload)
	if err != nil {
		return events.APIGatewayProxyResponse{}, fmt.Errorf("read API Gateway event: %w", err)
	}
	w := response{header: http.Header{}}
	h.ServeHTTP(&w, r)
	return w.proxy(r.Method), nil
}

// HeaderRequestID holds API Gateway's own id of a request. A caller cannot set it.
const HeaderRequestID = "X-Amzn-Requestid"

// ErrBody is the error of reading a body that is malformed.
var ErrBody = errors.New("the body is not the base64 that its event says it is")

type contextKey struct{}

// RequestContext is what API Gateway says about the request that ctx belongs to: its id, stage and caller's address.
func RequestContext(ctx context.Context) (events.APIGatewayProxyRequestContext, bool) {
	rc, ok := ctx.Value(contextKey{}).(events.APIGatewayProxyRequestContext)
	return rc, ok
}

func request(ctx context.Context, payload []byte) (*http.Request, error) {
	var e events.APIGatewayProxyRequest
	if err := json.Unmarshal(payload, &e); err != nil {
		return nil, fault(err)
	}
	if e.HTTPMethod == "" || !strings.HasPrefix(e.Path, "/") {
		return nil, errors.New("it is no request of a REST API: it has no httpMethod or no path (an HTTP API must use payload format 1.0)")
	}
	target := url.URL{Path: e.Path, RawQuery: values(e.MultiValueQueryStringParameters, e.QueryStringParameters).Encode()}
	if path, err := url.PathUnescape(e.Path); err == nil && path != e.Path {
		target.Path, target.RawPath = path, e.Path
	}
	ctx = context.WithValue(ctx, contextKey{}, e.RequestContext)
	r, err := http.NewRequestWithContext(ctx, e.HTTPMethod, "/", body(e))
	if err != nil {
		return nil, errors.New("its httpMethod is none")
	}
	if r.ContentLength == 0 && r.Body != http.NoBody {
		r.ContentLength = -1 // not known, as a server says it
	}
	r.URL = &target // not by its text: a path of two slashes would be read as a host
	for name, list := range values(e.MultiValueHeaders, e.Headers) {
		for _, v := range list {
			r.Header.Add(name, v)
		}
	}
	if r.Host = r.Header.Get("Host"); r.Host == "" {
		r.Host = e.RequestContext.DomainName
	}
	r.Header.Del("Host") // as a server leaves it
	r.Header.Del(HeaderRequestID)
	if e.RequestContext.RequestID != "" {
		r.Header.Set(HeaderRequestID, e.RequestContext.RequestID)
	}
	r.RemoteAddr = e.RequestContext.Identity.SourceIP
	r.RequestURI = target.RequestURI()
	return r, nil
}

// fault is where the event is not what it should be, without its text.
func fault(err error) error {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return fmt.Errorf("%s is of another type than %s", kind.Field, kind.Type)
	}
	return errors.New("it is no JSON object")
}

// body is what the caller sent.
func body(e events.APIGatewayProxyRequest) io.Reader {
	if !e.IsBase64Encoded {
		return strings.NewReader(e.Body)
	}
	decoded, err := base64.StdEncoding.DecodeString(e.Body)
	if err != nil {
		return malformed{}
	}
	return bytes.NewReader(decoded)
}

type malformed struct{}

func (malformed) Read([]byte) (int, error) { return 0, ErrBody }

// values joins the two forms in which the event carries names and values. The one of several values holds everything; a console
// test or an older client may bring the other alone.
func values(several map[string][]string, single map[string]string) url.Values {
	all := url.Values{}
	for name, v := range single {
		all[name] = []string{v}
	}
	maps.Copy(all, several)
	return all
}

// response is what a handler writes.
type response struct {
	header http.Header // the handler's
	sent   http.Header // as they were when the status was written
	status int
	body   bytes.Buffer
}

func (w *response) Header() http.Header { return w.header }

func (w *response) WriteHeader(status int) {
	if w.status != 0 || status < 200 { // informational responses have no form here
		return
	}
	w.status, w.sent = status, w.header.Clone()
}

func (w *response) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.body.Len() == 0 && w.sent.Get("Content-Type") == "" && w.sent.Get("Content-Encoding") == "" {
		w.sent.Set("Content-Type", http.DetectContentType(p)) // as a server does
	}
	return w.body.Write(p)
}

func (w *response) proxy(method string) events.APIGatewayProxyResponse {
	w.WriteHeader(http.StatusOK)
	w.sent.Del("Content-Length") // API Gateway counts by itself, and gives a handler's count another name
	answer := events.APIGatewayProxyResponse{StatusCode: w.status, MultiValueHeaders: w.sent}
	if method == http.MethodHead || w.status == http.StatusNoContent || w.status == http.StatusNotModified {
		return answer
	}
	if body := w.body.Bytes(); utf8.Valid(body) && w.sent.Get("Content-Encoding") == "" {
		answer.Body = string(body)
	} else {
		answer.Body, answer.IsBase64Encoded = base64.StdEncoding.EncodeToString(body), true
	}
	return answer
}
