package marketplace_test

import (
	"testing"

	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/standin"
)

// The verdicts of a call whose request is still being sent when the answer begins are not lost.
func TestAnswerBeforeTheCallIsSent(t *testing.T) {
	t.Parallel()
	late := standin.LateBody(`{"Results":[{"Status":"Success","MeteringRecordId":"id-1"}]}`)
	client := marketplace.New(marketplace.Options{Region: "us-east-1", Endpoint: "http://127.0.0.1", HTTPClient: late})
	got, err := client.Call(t.Context(), metering.Call{Records: []metering.UsageRecord{{License: licenseA, Account: buyer, Dimension: "api_calls", Quantity: 5}}})
	if err != nil || len(got.Results) != 1 || got.Results[0].RecordID != "id-1" {
		t.Errorf("%+v, %v", got, err)
	}
}
