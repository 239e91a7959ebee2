package standin

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// LateBody is an HTTP client whose answer begins before the request's body has been read, as a transport's may whose writing goroutine
// has no turn yet. The text is the answer.
type LateBody string

// Do answers.
func (l LateBody) Do(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: &lateAnswer{request: r, text: string(l)}, Request: r}, nil
}

// lateAnswer reads the request's body when it is read itself: after the SDK has done with the request.
type lateAnswer struct {
	request *http.Request
	text    string
	rest    io.Reader
}

func (a *lateAnswer) Read(p []byte) (int, error) {
	if a.rest == nil {
		if n, err := io.Copy(io.Discard, a.request.Body); err != nil || n != a.request.ContentLength {
			return 0, fmt.Errorf("send %d bytes of %d: %w", n, a.request.ContentLength, errors.Join(err, io.ErrUnexpectedEOF))
		}
		a.rest = strings.NewReader(a.text)
	}
	return a.rest.Read(p)
}

func (a *lateAnswer) Close() error { return nil }
