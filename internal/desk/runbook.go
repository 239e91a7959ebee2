package desk

import (
	"regexp"
	"strings"

	"github.com/awsmp/metering/docs"
)

// Advice is an entry of the runbook.
type Advice struct {
	Alarm string `json:"alarm"`
	Until string `json:"until"` // how long until money is lost
	Money string `json:"money"` // what it means in money
	Look  string `json:"look"`  // how to look
	Do    string `json:"do"`    // what to do
	Over  string `json:"over"`  // how to know that it is over
}

// Advise is the runbook's entry of an alarm, as plain text. Where the product code is known, it stands in the commands.
func Advise(alarm, product string) (Advice, bool) {
	a := Advice{Alarm: alarm, Until: Untils()[alarm]}
	_, text, found := strings.Cut(docs.Runbook, "\n## "+alarm+"\n")
	if !found {
		return a, false
	}
	for _, end := range []string{"\n## ", "\n# "} {
		text, _, _ = strings.Cut(text, end)
	}
	parts := []struct {
		lead string
		into *string
	}{
		{"**What it means in money.**", &a.Money}, {"**How to look.**", &a.Look}, {"**What to do.**", &a.Do}, {"**How to know that it is over.**", &a.Over},
	}
	for i, p := range parts {
		_, part, _ := strings.Cut(text, p.lead)
		if i+1 < len(parts) {
			part, _, _ = strings.Cut(part, parts[i+1].lead)
		}
		*p.into = plain(part, product)
	}
	return a, true
}

// Untils are the words on urgency of the runbook's list, by alarm.
func Untils() map[string]string {
	of := make(map[string]string)
	for _, row := range regexp.MustCompile(`(?m)^\| \[[^\]]+\]\(#([^)]+)\) \| (.+) \|$`).FindAllStringSubmatch(docs.Runbook, -1) {
		of[row[1]] = row[2]
	}
	return of
}

// Tools are the shell functions that the runbook's commands go by, set to a product and a Region where these are known.
func Tools(product, region string) string {
	_, text, _ := strings.Cut(docs.Runbook, "\n# Tools\n")
	_, text, _ = strings.Cut(text, "```sh\n")
	text, _, _ = strings.Cut(text, "```")
	if product != "" {
		text = strings.Replace(text, "PRODUCT=exampleproduct ", "PRODUCT="+Word(product)+" ", 1)
	}
	if region != "" {
		text = strings.Replace(text, "AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1", "AWS_REGION="+region+" AWS_DEFAULT_REGION="+region, 1)
	}
	return text
}

// plain is a part of an entry without the marks that only a reader of Markdown needs.
func plain(text, product string) string {
	text = regexp.MustCompile(`\[([^\]]+)\]\(([^)]+)\)`).ReplaceAllStringFunc(text, func(link string) string {
		match := regexp.MustCompile(`\[([^\]]+)\]\(([^)]+)\)`).FindStringSubmatch(link)
		if strings.HasPrefix(match[2], "#") {
			return match[1]
		}
		return match[1] + " (docs/" + match[2] + ")"
	})
	text = strings.ReplaceAll(text, "**", "")
	if product != "" {
		text = strings.ReplaceAll(text, "$M", "awsmp-"+product)
	}
	return strings.TrimRight(strings.TrimLeft(oneSpace(text), "\n"), " \n")
}

// oneSpace takes away the space between a lead and the sentence behind it, and leaves the indentation of a command.
func oneSpace(text string) string {
	if strings.HasPrefix(text, " ") {
		return text[1:]
	}
	return text
}
