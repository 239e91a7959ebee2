package dev_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/dev"
)

// A body that breaks off is no success, whatever could be read of it: whoever sent it may still listen.
func TestABodyThatBreaksOffIsNoSuccess(t *testing.T) {
	t.Parallel()
	m := start(t, t.TempDir())
	object := object("2026-03-10T14:00:00", 3)
	for _, c := range []struct{ path, kind, body, want string }{
		{"/v1/events", "", "", "nothing of it was applied"},
		{"/v1/events", "", `[{"source": "aws.agreement-marketplace"`, "nothing of it was applied"},
		{"/v1/usage", "application/json", "", "nothing of it was written"},
		{"/v1/usage", "application/json", object, "nothing of it was written"},
		{"/v1/usage", "application/x-ndjson", object, ""},
		{"/v1/usage", "text/csv", "licenseArn,customerAWSAccountId,", ""},
		{"/v1/refused/retry", "", `{"licenseArn": "x"}`, "the body broke off"},
		{"/v1/clock", "", `{"advance": "1h"}`, "the body broke off"},
		{"/_simulator/suspensions", "", `{"accountId": "111122223333", "suspended": true}`, ""},
		{"/register", "application/json", `{}`, "BadRequest"},
	} {
		for name, rest := range map[string]string{
			"malformed": fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\nzz\r\n", max(1, len(c.body)), c.body),
			"short":     fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(c.body)+10, c.body),
		} {
			response, text := m.raw(fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\n%s", methodOf(c.path), c.path, c.kind, rest))
			var p struct {
				dev.Problem
				Message string // of the registration
			}
			if err := json.Unmarshal([]byte(text), &p); err != nil || response.StatusCode != http.StatusBadRequest || !strings.Contains(p.Error, c.want) || p.Hint+p.Message == "" {
				t.Errorf("%s %s, %s: %s %s", c.path, c.kind, name, response.Status, text)
			}
		}
	}
	m.wantPlaces(0, nil)
}

func methodOf(path string) string {
	if strings.HasPrefix(path, "/_simulator/") {
		return http.MethodPut
	}
	return http.MethodPost
}

// raw sends bytes, closes its half of the connection and reads what is answered.
func (m *machine) raw(request string) (*http.Response, string) {
	m.t.Helper()
	c, err := net.Dial("tcp", m.server.Listener.Addr().String())
	if err != nil {
		m.t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		m.t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		m.t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		m.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		m.t.Fatal(err)
	}
	return response, string(text)
}
