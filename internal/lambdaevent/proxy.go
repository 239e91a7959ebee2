package lambdaevent

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"
)

// Serve answers a request of an API Gateway REST API with h (API Gateway developer guide, "Lambda proxy integrations", input and
// output format). It fails only if the event is no such request. A panic of h is not caught: the process ends, and API Gateway
// answers 502.
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

type contextKey struct{}

// RequestContext is what API Gateway says about the request that ctx belongs to: its id, stage and caller's address.
func RequestContext(ctx context.Context) (events.APIGatewayProxyRequestContext, bool) {
	rc, ok := ctx.Value(contextKey{}).(events.APIGatewayProxyRequestContext)
	return rc, ok
}

func request(ctx context.Context, payload []byte) (*http.Request, error) {
	var e events.APIGatewayProxyRequest
	if err := json.Unmarshal(payload, &e); err != nil {
		return nil, err
	}
	if e.HTTPMethod == "" || !strings.HasPrefix(e.Path, "/") {
		return nil, errors.New("it is no request of a REST API: it has no httpMethod or no path (an HTTP API must use payload format 1.0)")
	}
	body := []byte(e.Body)
	if e.IsBase64Encoded {
		var err error
		if body, err = base64.StdEncoding.DecodeString(e.Body); err != nil {
			return nil, fmt.Errorf("decode body: %w", err)
		}
	}
	target := url.URL{Path: e.Path, RawQuery: values(e.MultiValueQueryStringParameters, e.QueryStringParameters).Encode()}
	if path, err := url.PathUnescape(e.Path); err == nil && path != e.Path {
		target.Path, target.RawPath = path, e.Path
	}
	ctx = context.WithValue(ctx, contextKey{}, e.RequestContext)
	r, err := http.NewRequestWithContext(ctx, e.HTTPMethod, "/", bytes.NewReader(body))
	if err != nil {
		return nil, err
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
	r.RemoteAddr = e.RequestContext.Identity.SourceIP
	r.RequestURI = target.RequestURI()
	return r, nil
}

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
