package standin_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	dynamotypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// quirk is one question to AWS and to the stand-ins, with the answer that AWS's documentation gives and the answers that they
// give. docs/stand-ins.md holds the same rows; a changed answer changes both.
type quirk[C any] struct {
	question string
	aws      string
	moto     string
	other    string // dynalite or fauxqs
	source   string // where AWS says so
	answer   func(t *testing.T, c C) string
}

// ask puts every question to the stand-ins, whose answers are taken from each quirk in the same order.
func ask[C any](t *testing.T, quirks []quirk[C], standins map[string]C) {
	page, err := os.ReadFile("../../docs/stand-ins.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(string(page), "\n")
	for _, q := range quirks {
		t.Run(q.question, func(t *testing.T) {
			t.Parallel()
			for name, c := range standins {
				want := q.other
				if name == "moto" {
					want = q.moto
				}
				if got := q.answer(t, c); got != want {
					t.Errorf("%s: %s, want %s", name, got, want)
				}
			}
			row := fmt.Sprintf("| %s | %s | %s | %s | %s |", q.question, q.aws, q.moto, q.other, q.source)
			for _, r := range rows {
				if r == row {
					return
				}
			}
			t.Errorf("docs/stand-ins.md lacks the row\n%s", row)
		})
	}
}

// said is the answer of a call: what it returned, or the name of its exception.
func said(answer string, err error) string {
	var failed *dynamotypes.ConditionalCheckFailedException
	var canceled *dynamotypes.TransactionCanceledException
	var api smithy.APIError
	var http *smithyhttp.ResponseError
	switch {
	case err == nil:
		return answer
	case errors.As(err, &failed) && len(failed.Item) > 0,
		errors.As(err, &canceled) && len(canceled.CancellationReasons) > 0 && len(canceled.CancellationReasons[0].Item) > 0:
		_ = errors.As(err, &api)
		return api.ErrorCode() + " with the item"
	case errors.As(err, &http) && http.HTTPStatusCode() >= 500:
		return fmt.Sprint("status ", http.HTTPStatusCode())
	case errors.As(err, &api):
		return api.ErrorCode()
	}
	return err.Error()
}

// unique keeps what one run makes apart from what another made in the same process.
func unique(name string) string { return name + "-" + strings.ToLower(rand.Text()[:8]) }
