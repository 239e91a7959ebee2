package registration

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/awsmp/metering/internal/metering"
)

// DefaultFields are what a buyer is asked for where the seller does not say, as ParseFields reads them.
const DefaultFields = "contactName*,contactEmail*,companyName,useCase"

// Limits of what a buyer may tell. A promoted copy is an index's key, of which DynamoDB takes 2,048 bytes (Amazon DynamoDB developer guide,
// constraints): 256 characters always fit, a text area's do not.
const (
	maxFields   = 20
	maxLine     = 256  // characters
	maxTextArea = 1000 // characters
)

// Field is something that a buyer is asked for.
type Field struct {
	Name     string // of the input, and in registrationData
	Required bool
}

// kind is how a field is asked for and checked.
type kind string

const (
	line     kind = "text"
	mail     kind = "email"
	phone    kind = "tel"
	address  kind = "url" // of a web page; taken as it is typed
	textArea kind = "textarea"
)

// kind goes by the field's name.
func (f Field) kind() kind {
	if known, ok := knownField(f.Name); ok {
		return known.kind
	}
	name := strings.ToLower(f.Name)
	ends := func(suffixes ...string) bool {
		return slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(name, s) })
	}
	switch {
	case ends("email", "mail"):
		return mail
	case ends("phone", "phonenumber"):
		return phone
	case ends("website", "url"):
		return address
	case ends("usecase", "comment", "comments", "notes", "message", "description"):
		return textArea
	}
	return line
}

func (f Field) limit() int {
	if f.kind() == textArea {
		return maxTextArea
	}
	return maxLine
}

// ParseFields reads a list of fields as settings write it: names with commas between them, each with a * behind it if it must be filled in. An
// empty text, or none, means no fields.
func ParseFields(text string) ([]Field, error) {
	var fields []Field
	for _, name := range list(text) {
		f := Field{Name: strings.TrimSuffix(name, "*")}
		f.Required = f.Name != name
		fields = append(fields, f)
	}
	return fields, checkFields(fields)
}

// ParsePromoted reads the names of those fields that become attributes of the profile of their own, with commas between them. An empty text, or
// none, means that there are none.
func ParsePromoted(text string, fields []Field) ([]string, error) {
	promoted := list(text)
	return promoted, checkPromoted(promoted, fields)
}

func list(text string) []string {
	if text = strings.TrimSpace(text); text == "" || text == "none" {
		return nil
	}
	names := strings.Split(text, ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	return names
}

func checkFields(fields []Field) error {
	var errs []error
	if len(fields) > maxFields {
		errs = append(errs, fmt.Errorf("there are %d registration fields: use at most %d", len(fields), maxFields))
	}
	form := regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_]{0,63}$`)
	for i, f := range fields {
		if !form.MatchString(f.Name) {
			errs = append(errs, fmt.Errorf("registration field %q: use up to 64 letters, digits and _, a letter first", f.Name))
		}
		if slices.ContainsFunc(fields[:i], func(g Field) bool { return g.Name == f.Name }) {
			errs = append(errs, fmt.Errorf("registration field %q is there twice", f.Name))
		}
	}
	return errors.Join(errs...)
}

func checkPromoted(promoted []string, fields []Field) error {
	var errs []error
	for i, name := range promoted {
		at := slices.IndexFunc(fields, func(f Field) bool { return f.Name == name })
		switch {
		case slices.Contains(promoted[:i], name):
			errs = append(errs, fmt.Errorf("promoted field %q is there twice", name))
		case metering.ReservedProfileField(name):
			errs = append(errs, fmt.Errorf("promoted field %q: an attribute of the profile itself has that name, give the field another", name))
		case at < 0:
			errs = append(errs, fmt.Errorf("promoted field %q is none of the registration fields: add it to them", name))
		case fields[at].kind() == textArea:
			errs = append(errs, fmt.Errorf("promoted field %q is a text area, which is too long for an index: promote another", name))
		}
	}
	return errors.Join(errs...)
}

// problem is what is wrong with what a buyer typed into a field.
type problem struct {
	Field string
	Text  string
}

// problems are those of the values, in the order of the fields.
func problems(fields []Field, values map[string]string) []problem {
	var found []problem
	for _, f := range fields {
		if text := f.problem(values[f.Name]); text != "" {
			found = append(found, problem{f.Name, text})
		}
	}
	return found
}

func (f Field) problem(value string) string {
	length := utf8.RuneCountInString(value)
	switch {
	case value == "" && f.Required:
		return f.ask()
	case length > f.limit():
		return tooLong(f.label(), length, f.limit())
	case value != "" && f.kind() == mail && !isMail(value):
		return mailForm
	case strings.ContainsFunc(value, steering):
		return notVisible(f.label())
	}
	return ""
}

// clean is a value as it is kept: without space around it, and with one character for each line end, which is a space where there is but one line.
// What is pasted from a spreadsheet or a document brings tabs and line ends of its own along.
func (f Field) clean(value string) string {
	lines := f.kind() == textArea
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch r {
		case '\n', '\r', '\v', '\f', '\u0085', '\u2028', '\u2029':
			if lines {
				return '\n'
			}
			return ' '
		case '\t', '\u00a0':
			if !lines {
				return ' '
			}
		}
		return r
	}, strings.ReplaceAll(value, "\r\n", "\n")))
}

// steering reports whether a character of a cleaned value is none that a person sees: one that steers a terminal, for instance.
func steering(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }

// visible is a value as the form shows it again: a person cannot find, and take out, what they do not see.
func visible(value string) string {
	return strings.Map(func(r rune) rune {
		if steering(r) {
			return -1
		}
		return r
	}, value)
}

// isMail tells what may be a mail address from what cannot. Whether one is there only a mail can tell.
func isMail(s string) bool {
	local, domain, found := strings.Cut(s, "@")
	if !found || local == "" || len(s) > 254 || strings.ContainsAny(s, " ,;:<>()[]\"\\\t\n") {
		return false
	}
	labels := strings.Split(domain, ".")
	return len(labels) > 1 && !slices.Contains(labels, "") && !strings.Contains(domain, "@") && !strings.ContainsFunc(s, unicode.IsSpace)
}
