package stacktest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// mappings holds whether the event source mappings of Lambda are enabled. For moto they never are: it would run the functions in containers, and take
// messages out of their queues for that.
type mappings struct {
	next http.RoundTripper

	mu sync.Mutex
	on map[string]bool // by UUID
}

const mappingsPath = "/2015-03-31/event-source-mappings"

// RoundTrip passes a request on.
func (m *mappings) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasPrefix(r.URL.Path, mappingsPath) {
		return m.next.RoundTrip(r)
	}
	asked, err := m.ask(r)
	if err != nil {
		return nil, err
	}
	resp, err := m.next.RoundTrip(r)
	if err != nil || resp.StatusCode >= http.StatusBadRequest {
		return resp, err
	}
	return resp, m.answer(resp, asked)
}

// ask takes out of a request whether a mapping is to be enabled; nil where it does not say.
func (m *mappings) ask(r *http.Request) (enabled *bool, err error) {
	if r.Method != http.MethodPost && r.Method != http.MethodPut {
		return nil, nil
	}
	body, err := read(r.Body)
	if err != nil {
		return nil, fmt.Errorf("read what is asked of a mapping: %w", err)
	}
	switch is := body["Enabled"].(type) {
	case bool:
		enabled = &is
	default:
		if on := true; r.Method == http.MethodPost {
			enabled = &on
		}
	}
	body["Enabled"] = false
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return enabled, nil
}

// answer says of each mapping in an answer what was asked of it last.
func (m *mappings) answer(resp *http.Response, asked *bool) error {
	body, err := read(resp.Body)
	if err != nil {
		return fmt.Errorf("read an answer about mappings: %w", err)
	}
	list, _ := body["EventSourceMappings"].([]any)
	if _, one := body["UUID"]; one {
		list = append(list, body)
	}
	m.mu.Lock()
	for _, item := range list {
		mapping, _ := item.(map[string]any)
		uuid, _ := mapping["UUID"].(string)
		if asked != nil {
			m.on[uuid] = *asked
		}
		mapping["State"] = "Disabled"
		if m.on[uuid] {
			mapping["State"] = "Enabled"
		}
	}
	m.mu.Unlock()
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	resp.Header.Set("Content-Length", strconv.Itoa(len(text)))
	return nil
}

func read(body io.ReadCloser) (map[string]any, error) {
	defer func() { _ = body.Close() }()
	d := json.NewDecoder(body)
	d.UseNumber()
	var members map[string]any
	err := d.Decode(&members)
	return members, err
}
