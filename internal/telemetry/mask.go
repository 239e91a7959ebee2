package telemetry

import (
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/awsmp/metering/internal/metering"
)

// Mask masks every identifier that it recognises in a text down to its last four characters: license ARNs, accounts of twelve
// digits wherever they stand (in sort keys, in the addresses of queues, in ARNs), and values by the name that stands before
// them. Any number of twelve digits counts as an account, unless it ends a UUID: those are the ids of requests, by which a line is
// found. Masking twice is masking once.
//
// A legacy product's identifiers look like any word: they are recognised by name alone.
func Mask(text string) string {
	for _, i := range identifiers() {
		text = i.mask(text)
	}
	return text
}

// identifier is a form in which an identifier stands in text. What the group "id" holds is masked, the rest stays: of a
// queue's address or a table's ARN only the account, and all of a match in which the group has no part.
type identifier struct {
	form   *regexp.Regexp
	id     int // of the group
	length int // of the identifier, where only one length makes it one
}

// identifiers are compiled when the first line is written: a function that logs nothing starts without them.
var identifiers = sync.OnceValue(func() []identifier {
	list := []identifier{
		// A license's ARN, also in the bare form of some events, and its id alone.
		{form: regexp.MustCompile(`(?P<id>(?:arn:)?aws[a-z-]*:license-manager:[a-z0-9-]*:[0-9]*:license[:/][A-Za-z0-9:_/+=,@.-]*[A-Za-z0-9])`)},
		{form: regexp.MustCompile(`\b(?P<id>l-[0-9a-f]{32})\b`)},
		// The account in front of a sort key, a valid one or not: account#dimension#hour.
		{form: regexp.MustCompile(`(?P<id>[^\s#"'=(]+)#[^\n]*?#\d{4}-\d{2}-\d{2}T\d{2}`)},
		// A value by its name: in a message body, in a form, quoted by the log or not.
		{form: regexp.MustCompile(`\b(?:[lL]icenseArn|[cC]ustomerAWSAccountId|[cC]ustomerIdentifier|x-amzn-marketplace-token|[tT]oken)` +
			`(?:=|\\?"\s*:\s*)\\?"?(?P<id>[^\s"'\\,;&})]+)`)},
		// A value that AWS did not accept: Value '…' at 'usageRecords.1.member.customerIdentifier' failed to satisfy constraint.
		{form: regexp.MustCompile(`(?i)value '(?P<id>[^']*)' at '[^']*(?:licenseArn|accountId|customerIdentifier|token)'`)},
		{form: regexp.MustCompile(`\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b|(?P<id>[0-9]+)`), length: 12},
	}
	for i := range list {
		list[i].id = list[i].form.SubexpIndex("id")
	}
	return list
})

func (i identifier) mask(text string) string {
	var b strings.Builder
	done := 0
	for _, at := range i.form.FindAllStringSubmatchIndex(text, -1) {
		from, to := at[2*i.id], at[2*i.id+1]
		if from < 0 || i.length > 0 && to-from != i.length {
			continue
		}
		b.WriteString(text[done:from])
		b.WriteString(masked(text[from:to]))
		done = to
	}
	if done == 0 {
		return text
	}
	return b.String() + text[done:]
}

// masked is metering.Masked, for what is perhaps masked already, or absent.
func masked(id string) string {
	if id == "" || strings.HasPrefix(id, metering.Masked("")) && utf8.RuneCountInString(id) <= 5 {
		return id
	}
	return metering.Masked(id)
}
