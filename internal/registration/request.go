package registration

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tokenField is the form field in which AWS Marketplace sends a token (AWS Marketplace seller guide, SaaS customer onboarding). The
// others that it sends, as x-amzn-marketplace-offer-type, are nothing that a browser could be trusted with.
const tokenField = "x-amzn-marketplace-token"

// maxBody is twice what the fields hold at most, so that a token fits too, and so that a text that is a good deal too long comes back in the form to
// be shortened. Twenty text areas of 1,000 characters of 4 bytes, each byte written as %F0, or each character as \ud83d\ude00 in JSON, are
// 20 × 1,000 × 12 = 240,000 bytes, and their names with what stands around them 20 × 70 more.
const maxBody = 512 << 10

// visit is what a request asks for.
type visit struct {
	token  string
	values map[string]string // of the fields that it names, cleaned; the empty ones too
	data   bool              // it comes from a program, which is answered in JSON
}

// submitted reports whether the fields were filled in, as far as the buyer wanted: a browser that comes from AWS Marketplace names none.
func (v visit) submitted() bool { return v.data || len(v.values) > 0 }

// told are the values that are there.
func (v visit) told() map[string]string {
	told := make(map[string]string, len(v.values))
	for name, value := range v.values {
		if value != "" {
			told[name] = value
		}
	}
	return told
}

// read reads a posted request, or says how it ends.
func (h *Handler) read(w http.ResponseWriter, r *http.Request) (visit, *ending) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		media = ""
	}
	inJSON := media == "application/json"
	v := visit{data: inJSON || prefersJSON(r)}
	if !inJSON && media != "application/x-www-form-urlencoded" || !plain(r.Header.Get("Content-Encoding")) {
		return v, &ending{state: unsupportedType}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return v, &ending{state: tooLarge}
	case err != nil: // the body breaks off, or is not the base64 that its event says it is
		return v, badRequest(bodyUnread)
	}
	decode := decodeForm
	if inJSON {
		decode = h.decodeJSON
	}
	raw, fault := decode(body)
	if fault != "" {
		return v, badRequest(fault)
	}
	end := h.take(&v, raw)
	return v, end
}

// asked reports whether a field of the request is one that means something here.
func (h *Handler) asked(name string) bool {
	return name == tokenField || slices.ContainsFunc(h.Fields, func(f Field) bool { return f.Name == name })
}

// take makes a visit of the fields as they came. What nobody asked for is left where it is.
func (h *Handler) take(v *visit, raw map[string][]string) *ending {
	v.values = map[string]string{}
	for _, f := range h.Fields {
		got, named := raw[f.Name]
		if !named {
			continue
		}
		switch {
		case len(got) > 1:
			return badRequest(sentTwice(f.Name))
		case !utf8.ValidString(got[0]):
			return badRequest(notUTF8)
		}
		v.values[f.Name] = f.clean(got[0])
	}
	got := raw[tokenField]
	switch {
	case len(got) == 0 || got[0] == "" && len(got) == 1:
		return &ending{state: missingToken}
	case len(got) > 1:
		return badRequest(sentTwice(tokenField))
	case !utf8.ValidString(got[0]):
		return badRequest(notUTF8)
	case strings.ContainsFunc(got[0], unicode.IsControl):
		return badRequest(tokenUnreadable)
	}
	v.token = got[0]
	return nil
}

func decodeForm(body []byte) (raw map[string][]string, fault string) {
	raw, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, bodyEncoding // the library's words quote the body
	}
	return raw, ""
}

// decodeJSON reads an object of texts. Of names that were not asked for the values may be anything.
func (h *Handler) decodeJSON(body []byte) (raw map[string][]string, fault string) {
	if !utf8.Valid(body) {
		return nil, notUTF8
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, bodyJSON
	}
	raw = map[string][]string{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, bodyJSON
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, bodyJSON
		}
		text, _ := name.(string)
		if !h.asked(text) || string(value) == "null" {
			continue
		}
		var s string
		if json.Unmarshal(value, &s) != nil {
			return nil, noText(text)
		}
		raw[text] = append(raw[text], s)
	}
	if _, err := d.Token(); err != nil {
		return nil, bodyJSON
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, bodyJSON
	}
	return raw, ""
}

func plain(encoding string) bool { return encoding == "" || strings.EqualFold(encoding, "identity") }

// prefersJSON reports whether a request says that it likes JSON better than a page.
func prefersJSON(r *http.Request) bool {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	data, dataNamed := liking(accept, "application/json")
	page, pageNamed := liking(accept, "text/html")
	return data > page || data == page && data > 0 && dataNamed && !pageNamed
}

// liking is how much an Accept header likes a media type, from 0 to 1, and whether it names it (RFC 9110, section 12.5.1).
func liking(accept, media string) (q float64, named bool) {
	family, _, _ := strings.Cut(media, "/")
	rank := 0
	for entry := range strings.SplitSeq(accept, ",") {
		name, parameters, _ := strings.Cut(entry, ";")
		name = strings.ToLower(strings.TrimSpace(name))
		at := slices.Index([]string{"*/*", family + "/*", media}, name) + 1
		if at == 0 || at < rank {
			continue
		}
		rank, q = at, 1
		for p := range strings.SplitSeq(parameters, ";") {
			key, value, _ := strings.Cut(strings.TrimSpace(p), "=")
			if strings.EqualFold(key, "q") {
				if q, _ = strconv.ParseFloat(value, 64); !(q >= 0 && q <= 1) {
					q = 0
				}
			}
		}
	}
	return q, rank == 3
}
