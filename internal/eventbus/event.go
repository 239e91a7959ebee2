package eventbus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"

	"github.com/awsmp/metering/internal/awsapi"
)

// Event is an event as it is put on a bus. The bus gives it an id, an account and a Region of its own.
type Event struct {
	Source    string          `json:"source"`
	Type      string          `json:"detail-type"`
	Time      time.Time       `json:"time"`
	Resources []string        `json:"resources"`
	Detail    json.RawMessage `json:"detail"`
}

// Read reads an event from its envelope (Amazon EventBridge user guide, event structure).
func Read(text []byte) (Event, error) {
	var e Event
	if err := json.Unmarshal(text, &e); err != nil {
		return e, fmt.Errorf("read the event: %w", err)
	}
	switch {
	case e.Source == "", e.Type == "":
		return e, errors.New("it is no event: source or detail-type is missing")
	case !bytes.HasPrefix(e.Detail, []byte("{")):
		return e, errors.New("it is no event: detail is no object")
	}
	return e, nil
}

// Account is the buyer's account that the event is about; empty where it names none.
func (e Event) Account() string {
	var detail struct {
		Acceptor struct {
			AccountID string `json:"accountId"`
		} `json:"acceptor"`
	}
	_ = json.Unmarshal(e.Detail, &detail) // what is shaped otherwise names none
	return detail.Acceptor.AccountID
}

// errReserved guards what AWS guards too: sources of AWS's own are not for others.
var errReserved = errors.New("a source that begins with aws. is AWS's own")

// Put puts an event on a bus, and returns the id that the bus gave it. Errors are *awsapi.Error.
func Put(ctx context.Context, client *eventbridge.Client, bus string, e Event) (id string, err error) {
	const operation = "put the event on the bus"
	if strings.HasPrefix(e.Source, "aws.") {
		return "", &awsapi.Error{Class: awsapi.Invalid, Operation: operation, Resource: bus, Err: errReserved}
	}
	entry := types.PutEventsRequestEntry{
		EventBusName: &bus, Source: &e.Source, DetailType: &e.Type, Resources: e.Resources, Detail: aws.String(string(e.Detail)),
	}
	if !e.Time.IsZero() {
		entry.Time = &e.Time
	}
	out, err := client.PutEvents(ctx, &eventbridge.PutEventsInput{Entries: []types.PutEventsRequestEntry{entry}})
	if err != nil {
		return "", awsapi.Wrap(operation, bus, err)
	}
	if out.FailedEntryCount == 0 && len(out.Entries) == 1 {
		return aws.ToString(out.Entries[0].EventId), nil
	}
	failed := &awsapi.Error{Class: awsapi.Unknown, Operation: operation, Resource: bus, Err: errors.New("the bus did not take it"), Hint: "send it again"}
	if len(out.Entries) == 1 && out.Entries[0].ErrorCode != nil {
		failed.Err = fmt.Errorf("%s (%s)", aws.ToString(out.Entries[0].ErrorMessage), *out.Entries[0].ErrorCode)
	}
	return "", failed
}
