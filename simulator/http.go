package simulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	targetPrefix = "AWSMPMeteringService."
	contentType  = "application/x-amz-json-1.1"
	// readLimit bounds what is read of a body: far over the API's limit, so that an oversized call gets the API's answer.
	readLimit = 64 << 20
)

// arrival is a call that has reached the service.
type arrival struct {
	at        time.Time
	operation string
	records   []submitted
}

// answer is what goes back on the wire.
type answer struct {
	value any   // nil with err
	err   error // an *exception
	lost  bool  // break the connection in place of an answer
	delay time.Duration
}

// ServeHTTP answers the API at POST /, and the control endpoints under /_simulator/.
func (s *Simulator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, controlPrefix) {
		s.control.ServeHTTP(w, r)
		return
	}
	if r.URL.Path != "/" || r.Method != http.MethodPost {
		controlError(w, http.StatusNotFound, fmt.Sprintf("%s %s is not served here", r.Method, r.URL.Path),
			"this is a local AWS Marketplace Metering Service: point an AWS SDK's endpoint at it (calls are POST /), or GET "+controlPrefix)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, readLimit))
	if err != nil {
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			s.write(w, answer{err: validation("the request is larger than %d bytes", tooLarge.Limit)})
			return
		}
		panic(http.ErrAbortHandler) // the caller went away in the middle of its request
	}
	a := s.handle(r, body)
	if a.delay > 0 {
		if s.options.Sleep(r.Context(), a.delay) != nil {
			panic(http.ErrAbortHandler) // the caller gave up; what it sent has been handled
		}
	}
	if a.lost {
		panic(http.ErrAbortHandler)
	}
	s.write(w, a)
}

func (s *Simulator) handle(r *http.Request, body []byte) answer {
	operation := strings.TrimPrefix(r.Header.Get("X-Amz-Target"), targetPrefix)
	var batch batchRequest
	var token string
	var shape error
	switch operation {
	case batchMeterUsage:
		batch, shape = decodeBatch(body)
	case resolveCustomer:
		token, shape = decodeResolve(body)
	default:
		return answer{err: refuse(unknownOperation, "X-Amz-Target %q: this simulator has %s%s and %s%s",
			r.Header.Get("X-Amz-Target"), targetPrefix, batchMeterUsage, targetPrefix, resolveCustomer)}
	}
	if got, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); got != contentType {
		shape = serialization("Content-Type %q: AWS JSON 1.1 needs %s", r.Header.Get("Content-Type"), contentType)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	call := arrival{at: s.now(), operation: operation, records: batch.records}
	if s.fires(Unreachable, call) != nil {
		s.log.stats.Unreachable++
		return answer{lost: true}
	}
	entry := Call{At: call.at, Operation: operation, Records: len(batch.records), Bytes: len(body)}
	a := answer{delay: s.delay(call)}
	if a.err = s.gate(call); a.err == nil {
		a.err = shape
	}
	if a.err == nil {
		if operation == resolveCustomer {
			a.value, a.err = s.resolve(token, call.at)
		} else if int64(len(body)) >= s.options.MaxRequestBytes {
			a.err = validation("the request has %d bytes: it must stay under %d, send fewer records", len(body), s.options.MaxRequestBytes)
		} else {
			a.value, a.err = s.meter(batch, s.unprocessed(call), call.at)
		}
	}
	if refused := new(exception); errors.As(a.err, &refused) {
		entry.Exception = refused.name
	} else if s.fires(LoseReply, call) != nil {
		a.lost, entry.ReplyLost = true, true
	}
	s.log.add(entry)
	return a
}

// gate refuses calls before their content matters.
func (s *Simulator) gate(call arrival) error {
	switch {
	case s.options.Disabled || s.fires(Disabled, call) != nil:
		return refuse(disabledAPI, "the API is not enabled in this Region")
	case s.fires(Throttle, call) != nil:
		return refuse(throttlingException, "Rate exceeded")
	case call.operation == batchMeterUsage && s.limiter != nil && !s.limiter.AllowN(call.at, 1):
		return refuse(throttlingException, "Rate exceeded: more than %v calls a second", s.options.CallsPerSecond)
	case s.fires(InternalError, call) != nil:
		return refuse(internalServiceError, "an internal error was injected")
	}
	return nil
}

func (s *Simulator) write(w http.ResponseWriter, a answer) {
	status := http.StatusOK
	h := w.Header()
	if refused := new(exception); errors.As(a.err, &refused) {
		status = refused.status()
		h.Set("X-Amzn-Errortype", refused.name)
		a.value = map[string]string{"__type": refused.name, "message": refused.message}
	}
	body, err := json.Marshal(a.value)
	if err != nil {
		panic(fmt.Sprintf("encode an answer: %v", err)) // only strings, integers and valid numbers are in it
	}
	h.Set("Content-Type", contentType)
	h.Set("X-Amzn-Requestid", requestID())
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a caller that went away does not hear it
}
