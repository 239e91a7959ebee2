package lambdahost

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Kind is how an invocation failed.
type Kind string

const (
	Errored    Kind = "function error" // the function answered with an error
	InitFailed Kind = "init error"     // the process reported an error before its first invocation, or asked for none in time
	Died       Kind = "process died"
	TimedOut   Kind = "timed out" // and was killed
	Stopped    Kind = "function stopped"
)

// Failure is an invocation that failed. Payload is the error as the caller of AWS Lambda sees it: JSON with errorType and
// errorMessage.
type Failure struct {
	Kind     Kind
	Function string
	Payload  []byte
}

func (f *Failure) Error() string {
	return fmt.Sprintf("invoke %s: %s: %s", f.Function, f.Kind, strings.TrimSpace(string(f.Payload)))
}

// Failed reports whether err is a failed invocation of the given kind.
func Failed(err error, kind Kind) bool {
	var f *Failure
	return errors.As(err, &f) && f.Kind == kind
}

func (p *process) failure(kind Kind, errorType, message string) *Failure {
	payload, err := json.Marshal(struct {
		Type    string `json:"errorType"`
		Message string `json:"errorMessage"`
	}{errorType, message})
	if err != nil { // unreachable: two strings
		panic(err)
	}
	return &Failure{Kind: kind, Function: p.options.Name, Payload: payload}
}
