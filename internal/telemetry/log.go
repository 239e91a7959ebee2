package telemetry

import (
	"io"
	"log/slog"
	"strings"
)

// NewLog writes log lines as text, in UTC, with every identifier masked: attributes that hold one by their name, and wherever
// else in the line one is recognised (Mask).
//
// The lines are text and not JSON on purpose: where a Lambda function logs JSON under a level filter, lines of the embedded
// metric format have no level and are dropped.
func NewLog(w io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(slog.NewTextHandler(maskingWriter{w}, &slog.HandlerOptions{Level: level, ReplaceAttr: maskAttr}))
}

// maskAttr masks attributes that hold an identifier by their name, whatever it looks like: a legacy product's is any text.
func maskAttr(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime {
		a.Value = slog.TimeValue(a.Value.Time().UTC())
		return a
	}
	switch strings.ToLower(a.Key) {
	case "license", "licensearn", "account", "customerawsaccountid", "customeridentifier", "token", "x-amzn-marketplace-token":
		a.Value = slog.StringValue(masked(a.Value.String()))
	}
	return a
}

// maskingWriter masks what is written, line by line: the text handler writes each line in one piece.
type maskingWriter struct{ w io.Writer }

func (m maskingWriter) Write(line []byte) (int, error) {
	if _, err := io.WriteString(m.w, Mask(string(line))); err != nil {
		return 0, err
	}
	return len(line), nil
}
