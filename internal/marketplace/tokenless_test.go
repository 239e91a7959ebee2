package marketplace_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/marketplace"
)

// quoting is a way to the service that is down, and says so with the words of the request.
type quoting struct{ calls int }

func (q *quoting) Do(r *http.Request) (*http.Response, error) {
	q.calls++
	body, err := r.GetBody()
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var text [512]byte
	n, _ := body.Read(text[:])
	return nil, fmt.Errorf("cannot send %s", text[:n])
}

// An error that comes from this side of the wire may quote what was to be sent: the token does not show in it either.
func TestResolveErrorThatQuotesTheRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const token = "secret-token-of-a-buyer"
		way := &quoting{}
		client := marketplace.New(marketplace.Options{Region: "eu-west-1", HTTPClient: way})
		_, err := client.Resolve(t.Context(), token)
		if err == nil || way.calls == 0 || !strings.Contains(err.Error(), "cannot send") || strings.Contains(err.Error(), token) {
			t.Errorf("error %v of class %q after %d calls", err, awsapi.ClassOf(err), way.calls)
		}
	})
}
