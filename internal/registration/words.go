package registration

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
)

// All that a person reads, but for the template's few words around it, stands in this file.

const (
	buttonContinue = "Set up my account"
	buttonAgain    = "Try again"

	mailForm     = "Enter an email address such as name@example.com."
	bodyUnread   = "The body could not be read."
	bodyEncoding = "The form is not encoded as forms are."
	bodyJSON     = "The body is not one JSON object."
	notUTF8      = "The text is not UTF-8."

	tokenUnreadable = "The field " + tokenField + " holds characters that are no text."

	comeBack = "Open AWS Marketplace in the AWS console, go to “Manage subscriptions” and choose “Set up your account”"
)

func sentTwice(name string) string { return fmt.Sprintf("The field %s is there twice.", name) }
func noText(name string) string    { return fmt.Sprintf("The field %s is no text.", name) }

func notVisible(label string) string {
	return fmt.Sprintf("“%s” held an invisible character that cannot be kept. Look it over and send it again.", label)
}

func tooLong(label string, length, limit int) string {
	return fmt.Sprintf("Shorten “%s”: it has %d characters, and there is room for %d.", label, length, limit)
}

// words are what a page or an answer in JSON says.
type words struct {
	Title   string // of the window
	Heading string
	Message string // what is the matter
	Hint    string // the way out, if there is one
}

// words are those for an end. Typed says that a buyer has filled in the page's fields for it.
func (h *Handler) words(end ending, typed bool) words {
	said := h.Seller.words(end, typed)
	said.Title = said.Heading
	if end.state == invalidFields {
		said.Title = "Error: " + said.Title
	}
	for _, name := range []string{h.Seller.Product, h.Seller.Name} {
		if name != "" {
			said.Title += " – " + name
		}
	}
	return said
}

func (s Seller) words(end ending, typed bool) words {
	product, seller := cmp.Or(s.Product, "the product"), cmp.Or(s.Name, "the seller")
	switch end.state {
	case welcome, missingToken:
		return words{
			Heading: "Start from AWS Marketplace",
			Message: "This page links " + product + " to your AWS account. AWS Marketplace has to bring you here, so that it is known which subscription is yours.",
			Hint:    comeBack + ".",
		}
	case details:
		return words{
			Heading: "Set up your account",
			Message: "Thank you for subscribing to " + product + " on AWS Marketplace. To get you started, " + seller + " needs to know a little about you.",
		}
	case invalidFields:
		w := words{Heading: "Set up your account", Message: "One answer needs another look.", Hint: "What else you typed is still there."}
		if n := len(end.problems); n > 1 {
			w.Message = fmt.Sprintf("%d answers need another look.", n)
		}
		return w
	case registered:
		w := words{Heading: "You’re all set", Message: "Your AWS account is now linked to " + product + "."}
		if s.Continue == "" {
			w.Hint = "There is nothing more to do here. You can close this page."
		}
		return w
	case early:
		w := words{
			Heading: "Almost there",
			Message: "AWS Marketplace is still completing your subscription. This usually takes a few minutes.",
			Hint:    "Come back a little later: " + lowerFirst(comeBack) + " again.",
		}
		if typed {
			w.Message += " Your details are kept with " + seller + ". When you come back, you will be asked for them once more."
		}
		return w
	}
	return s.trouble(end, typed, product, seller)
}

// trouble is said of what went wrong.
func (s Seller) trouble(end ending, typed bool, product, seller string) words {
	const unharmed = " Your subscription is not affected."
	switch end.state {
	case invalidToken:
		return words{
			Heading: "Please come in through AWS Marketplace again",
			Message: "AWS Marketplace does not recognise the registration token that this request carries." + unharmed,
			Hint:    comeBack + " again.",
		}
	case expiredToken:
		w := words{
			Heading: "This page has expired",
			Message: "For your safety, AWS Marketplace keeps it open for a few hours only. Nothing is lost: your subscription is as it was.",
			Hint:    comeBack + " again.",
		}
		if typed {
			w.Hint += " Only the details on this page need to be entered once more."
		}
		return w
	case wrongProduct:
		return words{
			Heading: "This subscription is for another product",
			Message: "AWS Marketplace brought you here with a subscription to something other than " + product + ", so nothing was set up." + unharmed,
			Hint:    "Please let " + seller + " know: an address in their listing needs mending.",
		}
	case tryAgain:
		return words{
			Heading: "Please try once more",
			Message: "We could not finish just now, because a service that we need is busy. Nothing is lost.",
			Hint:    "Wait a few seconds, then send it again.",
		}
	case contactSeller:
		return words{
			Heading: "We could not set up your account",
			Message: "Something is not configured as it should be, and that is not your doing. Trying again will not help." + unharmed,
			Hint:    "Please contact " + seller + " and give them the reference below.",
		}
	case tooLarge:
		return words{
			Heading: "That was too much text",
			Message: fmt.Sprintf("More than %d KB arrived, which is more than the fields can hold.", maxBody>>10),
			Hint:    comeBack + " again, and keep your answers short.",
		}
	case unsupportedType:
		return words{
			Heading: "We could not read that",
			Message: "The request is neither a form nor JSON.",
			Hint:    "Send application/x-www-form-urlencoded or application/json, without a Content-Encoding.",
		}
	case methodNotAllowed:
		return words{
			Heading: "We could not read that",
			Message: "This address takes forms that are posted.",
			Hint:    "Send a POST with the field " + tokenField + ".",
		}
	}
	return words{
		Heading: "We could not read that",
		Message: strings.TrimSpace(end.detail + unharmed),
		Hint:    comeBack + " again. If a program of yours sent this, correct what it sends.",
	}
}

// known is what is said of a field of a common name.
type known struct {
	kind         kind
	label, ask   string
	autocomplete string // a token of the HTML standard's list, "autofill detail tokens"
}

func knownField(name string) (known, bool) {
	switch name {
	case "contactName", "fullName", "name":
		return known{line, "Your name", "Enter your name.", "name"}, true
	case "firstName":
		return known{line, "First name", "Enter your first name.", "given-name"}, true
	case "lastName":
		return known{line, "Last name", "Enter your last name.", "family-name"}, true
	case "contactEmail", "email", "workEmail":
		return known{mail, "Work email", "Enter your work email.", "email"}, true
	case "contactPhone", "phone", "phoneNumber":
		return known{phone, "Phone number", "Enter your phone number.", "tel"}, true
	case "companyName", "company", "organization":
		return known{line, "Company", "Enter your company.", "organization"}, true
	case "jobTitle":
		return known{line, "Job title", "Enter your job title.", "organization-title"}, true
	case "country":
		return known{line, "Country", "Enter your country.", "country-name"}, true
	case "website", "companyWebsite":
		return known{address, "Website", "Enter your website.", "url"}, true
	case "useCase":
		return known{textArea, "What do you plan to use it for?", "Say what you plan to use it for.", "off"}, true
	}
	return known{}, false
}

func (f Field) label() string {
	if k, ok := knownField(f.Name); ok {
		return k.label
	}
	return spelledOut(f.Name)
}

func (f Field) ask() string {
	if k, ok := knownField(f.Name); ok {
		return k.ask
	}
	return fmt.Sprintf("Fill in “%s”.", f.label())
}

func (f Field) autocomplete() string {
	if k, ok := knownField(f.Name); ok {
		return k.autocomplete
	}
	return "off" // somebody else's mail or phone may be asked for
}

func (f Field) hint() string {
	if f.kind() == textArea {
		return "A sentence or two is plenty."
	}
	return ""
}

// spelledOut makes a label of a name: billing_contact and billingContact are both Billing contact, purchaseOrderID is Purchase order ID.
func spelledOut(name string) string {
	letters := []rune(name)
	var b strings.Builder
	for i, r := range letters {
		before := i > 0 && (unicode.IsLower(letters[i-1]) || unicode.IsDigit(letters[i-1]))
		after := i+1 < len(letters) && unicode.IsLower(letters[i+1])
		switch {
		case r == '_':
			b.WriteRune(' ')
		case i == 0:
			b.WriteRune(unicode.ToUpper(r))
		case unicode.IsUpper(r) && (before || after):
			if letters[i-1] != '_' {
				b.WriteRune(' ')
			}
			if after {
				r = unicode.ToLower(r)
			}
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	return strings.TrimSpace(b.String())
}

func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }
