package awsapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// KeepBodies gives each request a body of its own, which nobody closes while it is sent, and lets an answer that breaks off say
// whose doing that is.
//
// The SDK closes a request's body as soon as the head of the answer is there (smithy-go, transport/http, ClientHandler.Handle). The
// transport may not have seen the end of that body by then, on a machine with little processor time for instance: it takes the
// closed body for a failed write, closes the connection, and the answer to a call that was done is lost. With a body of which there
// is a copy the transport can also send again, by itself, what met a kept connection that the other side had closed meanwhile, since
// nothing of it was written.
//
// A client's timeout is a deadline on a context (net/http, Client.Timeout), so that an answer cut short by it fails as if the caller's
// own time were over.
func KeepBodies(client aws.HTTPClient) aws.HTTPClient { return bodyKeeper{client} }

type bodyKeeper struct{ client aws.HTTPClient }

// Do sends the request. Bodies here are small and in memory already.
func (k bodyKeeper) Do(r *http.Request) (*http.Response, error) {
	own := r
	if r.Body != nil && r.Body != http.NoBody {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, fmt.Errorf("read the request's body: %w", err)
		}
		own = r.WithContext(r.Context())
		own.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		own.Body, _ = own.GetBody()
	}
	resp, err := k.client.Do(own)
	if err == nil && resp.Body != nil {
		resp.Body = &answerBody{resp.Body, r.Context()}
	}
	return resp, err
}

// answerBody is an answer that is being read on behalf of a caller.
type answerBody struct {
	io.ReadCloser
	caller context.Context
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && b.caller.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		err = cutShort{err.Error()}
	}
	return n, err
}

// cutShort is an answer that the client's own time ended. It is no error of the caller's context, and wraps none.
type cutShort struct{ cause string }

func (e cutShort) Error() string { return "the answer was not read in time: " + e.cause }
func (e cutShort) Timeout() bool { return true }

// Temporary is what net.Error asks for.
func (e cutShort) Temporary() bool { return true }

var _ net.Error = cutShort{}
