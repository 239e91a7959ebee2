package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
)

// calls is the Marketplace's API as the submitter sees it: what it may not ask for is a violation of the law.
type calls struct {
	marketplace.API
	*network
}

// Call sends one call through the AWS SDK and the seam.
func (c calls) Call(ctx context.Context, call metering.Call) (metering.Answer, error) {
	if !c.seam.current.process.dead {
		c.check.call(call)
	}
	c.content = content(call)
	return c.API.Call(ctx, call)
}

// content names what a call asks for.
func content(call metering.Call) string {
	parts := make([]string, len(call.Records))
	for i, u := range call.Records {
		parts[i] = fmt.Sprintf("%s#%s#%v=%d", u.Account, u.Dimension, u.Second.Hour(), u.Quantity)
	}
	return strings.Join(parts, " ")
}

// network is the way to the simulator: calls that never arrive, and answers that never come back.
type network struct {
	seam    *seam
	check   *checker
	client  *http.Client
	content string // of the call that is being made
}

// Do is an HTTP call of the SDK.
func (n *network) Do(r *http.Request) (*http.Response, error) {
	return act(n.seam, "asks the Marketplace to bill "+n.content, "", func(string, *rand.Rand) (*http.Response, error) {
		began := n.seam.now
		res, err := n.client.Do(r.WithContext(context.WithoutCancel(r.Context())))
		if n.seam.now.After(began) {
			n.seam.faults[AnswerSlow]++
		}
		return res, err
	})
}
