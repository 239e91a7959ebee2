package registration

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// state is where a request has come to: each has its page, and its name is the code of an answer in JSON and the cause of a metric.
type state string

// The states.
const (
	welcome          state = "Welcome"
	details          state = "Details"
	registered       state = "Registered"
	early            state = "NoLicenseYet"
	missingToken     state = "MissingToken"
	invalidToken     state = "InvalidToken"
	expiredToken     state = "ExpiredToken"
	wrongProduct     state = "WrongProduct"
	invalidFields    state = "InvalidFields"
	malformed        state = "BadRequest"
	tooLarge         state = "TooLarge"
	unsupportedType  state = "UnsupportedMediaType"
	methodNotAllowed state = "MethodNotAllowed"
	tryAgain         state = "TryAgain"
	contactSeller    state = "ContactSeller"
)

func (s state) status() int {
	switch s {
	case welcome, details, registered:
		return http.StatusOK
	case early:
		return http.StatusAccepted
	case invalidFields:
		return http.StatusUnprocessableEntity
	case tooLarge:
		return http.StatusRequestEntityTooLarge
	case unsupportedType:
		return http.StatusUnsupportedMediaType
	case methodNotAllowed:
		return http.StatusMethodNotAllowed
	case tryAgain:
		return http.StatusServiceUnavailable
	case contactSeller:
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}

// reply is an answer in JSON.
type reply struct {
	Status      string            `json:"status,omitempty"` // registered or waiting, and where it is neither:
	Error       state             `json:"error,omitempty"`
	License     string            `json:"licenseArn,omitempty"`
	Account     string            `json:"customerAWSAccountId,omitempty"`
	Identifier  string            `json:"customerIdentifier,omitempty"`
	ProductCode string            `json:"productCode,omitempty"`
	Continue    string            `json:"continueUrl,omitempty"`
	Message     string            `json:"message,omitempty"`
	Hint        string            `json:"hint,omitempty"`
	Fields      map[string]string `json:"fields,omitempty"` // what is wrong with each
	Reference   string            `json:"reference,omitempty"`
}

// answer writes how a request ended, in the form that is wanted.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, v visit, end ending) {
	if v.data && end.state == welcome { // a program has no use for a page that says how to come here
		end.state = missingToken
	}
	body, media := []byte(nil), ""
	if v.data {
		body, media = h.reply(end), "application/json"
	} else {
		body, media = h.page(v, end), "text/html; charset=utf-8"
	}
	if end.state == tryAgain {
		w.Header().Set("Retry-After", retryAfter)
	}
	w.Header().Set("Content-Type", media)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(end.state.status())
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // a buyer who has gone needs no answer
	}
}

func (h *Handler) reply(end ending) []byte {
	said := h.words(end, false)
	a := reply{Message: said.Message, Hint: said.Hint}
	switch end.state {
	case registered, early:
		a.Status = "waiting"
		a.License, a.Account, a.Identifier, a.ProductCode = end.customer.License, end.customer.Account, end.customer.CustomerIdentifier, h.ProductCode
		if end.state == registered {
			a.Status, a.Continue = "registered", h.Seller.Continue
		}
	default:
		a.Error = end.state
	}
	for _, p := range end.problems {
		if a.Fields == nil {
			a.Fields = map[string]string{}
		}
		a.Fields[p.Field] = p.Text
	}
	if end.state.showsReference() {
		a.Reference = end.reference
	}
	text, err := json.Marshal(a)
	if err != nil { // unreachable: it holds text alone
		panic(err)
	}
	return append(text, '\n')
}

// showsReference reports whether the buyer may have to ask the seller.
func (s state) showsReference() bool { return s == tryAgain || s == contactSeller || s == wrongProduct }
