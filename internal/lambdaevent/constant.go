// Package lambdaevent knows the shapes in which AWS calls a Lambda function and what it answers in each: the constant input of a
// schedule, a batch of an SQS queue, and an HTTP request through API Gateway.
package lambdaevent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Constant reads the constant input of an EventBridge rule's target (Amazon EventBridge user guide, "Input transformation":
// constant JSON text). Nobody but a template writes it, so a field that T does not have is an error and not passed over.
func Constant[T any](payload []byte) (T, error) {
	var input T
	d := json.NewDecoder(bytes.NewReader(payload))
	d.DisallowUnknownFields()
	if err := d.Decode(&input); err != nil {
		return input, fmt.Errorf("read constant input: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return input, fmt.Errorf("read constant input: there is more than one JSON value")
	}
	return input, nil
}
