package simulator

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
)

// Endpoint is a base address for clients that use Client, whose transport looks at no host.
const Endpoint = "http://metering.marketplace.simulator"

// ErrConnection is the error of an in-process call whose connection a fault has broken. It does not say whether the call was
// handled, as with a real one.
var ErrConnection = errors.New("connection broken by the simulator")

// Client is an HTTP client whose calls reach the simulator in the caller's own goroutine, without a socket. It works
// inside a testing/synctest bubble and honours the request's context.
func (s *Simulator) Client() *http.Client { return &http.Client{Transport: transport{s}} }

type transport struct{ handler http.Handler }

func (t transport) RoundTrip(r *http.Request) (res *http.Response, err error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	defer r.Body.Close()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	defer func() {
		if p := recover(); p == http.ErrAbortHandler {
			res, err = nil, r.Context().Err()
			if err == nil {
				err = fmt.Errorf("call the simulator: %w", ErrConnection)
			}
		} else if p != nil {
			panic(p)
		}
	}()
	// A handler may see only what came over the wire, and must not change what the caller still owns.
	server := r.Clone(r.Context())
	if server.URL.Path == "" {
		server.URL.Path = "/" // as on the wire
	}
	w := &memoryResponse{header: http.Header{}, status: http.StatusOK}
	t.handler.ServeHTTP(w, server)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return &http.Response{
		Status:        strconv.Itoa(w.status) + " " + http.StatusText(w.status),
		StatusCode:    w.status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        w.header,
		Body:          io.NopCloser(&w.body),
		ContentLength: int64(w.body.Len()),
		Request:       r,
	}, nil
}

type memoryResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (m *memoryResponse) Header() http.Header         { return m.header }
func (m *memoryResponse) WriteHeader(status int)      { m.status = status }
func (m *memoryResponse) Write(p []byte) (int, error) { return m.body.Write(p) }

func requestID() string {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], rand.Uint64())
	binary.LittleEndian.PutUint64(b[8:], rand.Uint64())
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
