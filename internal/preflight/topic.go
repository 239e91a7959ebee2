package preflight

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sns/types"
)

// topicARN is the pattern of the template's parameter AlertsTopicArn, without nothing.
var topicARN = regexp.MustCompile(`^arn:[a-z-]+:sns:([a-z0-9-]+):([0-9]{12}):[A-Za-z0-9_-]{1,256}$`)

// topic looks at where alarms go: a topic of the Region that is there, that CloudWatch may publish to and that somebody hears.
func (l *look) topic(ctx context.Context) {
	const name = "alerts topic"
	if l.Topic == "" {
		return
	}
	parts := topicARN.FindStringSubmatch(l.Topic)
	if parts == nil {
		l.add(name, Problem, "aws sns list-topics --region "+l.here.Region, "%q is no ARN of a standard topic", l.Topic)
		return
	}
	if parts[1] != l.here.Region {
		l.add(name, Problem, "aws sns create-topic --region "+l.here.Region+" --name awsmp-alerts", "%s is in %s: alarms notify a topic of their own Region", l.Topic, parts[1])
		return
	}
	out, err := sns.NewFromConfig(l.here).GetTopicAttributes(ctx, &sns.GetTopicAttributesInput{TopicArn: &l.Topic})
	if err != nil {
		if isNotFound(err) {
			l.add(name, Problem, "aws sns create-topic --region "+l.here.Region+" --name "+l.Topic[strings.LastIndexByte(l.Topic, ':')+1:], "there is no topic %s", l.Topic)
			return
		}
		l.failed(name, "sns:GetTopicAttributes", err)
		return
	}
	a := out.Attributes
	result, found, try := OK, "it is there, CloudWatch may publish to it, and somebody hears it", ""
	switch {
	case a["KmsMasterKeyId"] == "alias/aws/sns":
		result, found, try = Problem, "it is encrypted with SNS's own key, which CloudWatch may not use: alarms never arrive", "a key of yours, as deploy/README.md, 4, has it"
	case !Publishes(a["Policy"], l.report.Account):
		result, found = Problem, "its policy does not let CloudWatch publish"
		try = `add this statement to its policy (aws sns set-topic-attributes --attribute-name Policy): {"Effect": "Allow", "Principal": {"Service": "cloudwatch.amazonaws.com"}, "Action": "sns:Publish", "Resource": "` +
			l.Topic + `", "Condition": {"StringEquals": {"aws:SourceAccount": "` + l.report.Account + `"}}}`
	case !l.heard(ctx, a["SubscriptionsConfirmed"]):
		result, found = Warning, "nobody hears it: no subscription is confirmed"
		try = "aws sns subscribe --region " + l.here.Region + " --topic-arn " + l.Topic + " --protocol email --notification-endpoint alerts@example.com, and confirm the mail"
	case a["KmsMasterKeyId"] != "":
		result, found, try = Warning, "it is encrypted: the policy of its key has to let CloudWatch use it", "aws kms get-key-policy --region "+l.here.Region+" --policy-name default --key-id "+a["KmsMasterKeyId"]
	}
	if result != Problem {
		l.parameter("AlertsTopicArn=" + l.Topic)
	}
	l.add(name, result, try, "%s: %s", l.Topic, found)
}

// heard reports whether a subscription is confirmed. The number in the topic's attributes lags, so where it is 0 the list is looked at, if the caller
// may; one that waits has no ARN there (Amazon SNS API reference, ListSubscriptionsByTopic).
func (l *look) heard(ctx context.Context, confirmed string) bool {
	if confirmed != "" && confirmed != "0" {
		return true
	}
	out, err := sns.NewFromConfig(l.here).ListSubscriptionsByTopic(ctx, &sns.ListSubscriptionsByTopicInput{TopicArn: &l.Topic})
	return err == nil && slices.ContainsFunc(out.Subscriptions, func(s types.Subscription) bool { return strings.HasPrefix(aws.ToString(s.SubscriptionArn), "arn:") })
}

// isNotFound reports whether the topic is not there.
func isNotFound(err error) bool {
	var missing *types.NotFoundException
	return errors.As(err, &missing)
}

// statement is one of a policy.
type statement struct {
	Effect    string
	Principal principals
	Action    texts
	Condition map[string]map[string]any
}

type principals map[string]texts

func (p *principals) UnmarshalJSON(b []byte) error {
	var all string
	if json.Unmarshal(b, &all) == nil {
		*p = principals{"AWS": {all}}
		return nil
	}
	return json.Unmarshal(b, (*map[string]texts)(p))
}

// texts is a text or a list of them.
type texts []string

func (l *texts) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*l = texts{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(l))
}

// Publishes reports whether a topic's policy lets the alarms of an account publish: by name of CloudWatch, or of whoever acts for the owner, as the
// policy that a topic is made with does (Amazon CloudWatch user guide, alarms and SNS). Conditions other than on the account are taken as met by
// nobody, denials as meant for CloudWatch where they are meant for all.
func Publishes(policy, account string) bool {
	var p struct{ Statement []statement }
	if json.Unmarshal([]byte(policy), &p) != nil {
		return false
	}
	allowed := false
	for _, s := range p.Statement {
		publish := slices.ContainsFunc(s.Action, func(a string) bool {
			a = strings.ToLower(a)
			return a == "*" || a == "sns:*" || a == "sns:publish"
		})
		service := slices.Contains(s.Principal["Service"], "cloudwatch.amazonaws.com")
		anyone := slices.Contains(s.Principal["AWS"], "*")
		if !publish || !service && !anyone {
			continue
		}
		switch {
		case s.Effect == "Deny" && len(s.Condition) == 0:
			return false
		case s.Effect == "Allow" && s.ofAccount(account):
			allowed = true
		}
	}
	return allowed
}

// ofAccount reports whether all conditions are that the account is the owner's, or one of its alarms.
func (s statement) ofAccount(account string) bool {
	for operator, keys := range s.Condition {
		if !strings.HasPrefix(operator, "StringEquals") && !strings.HasPrefix(operator, "StringLike") && !strings.HasPrefix(operator, "ArnLike") && !strings.HasPrefix(operator, "ArnEquals") {
			return false
		}
		for key, value := range keys {
			var wanted []string
			switch v := value.(type) {
			case string:
				wanted = []string{v}
			case []any:
				for _, one := range v {
					text, _ := one.(string)
					wanted = append(wanted, text)
				}
			}
			switch strings.ToLower(key) {
			case "aws:sourceowner", "aws:sourceaccount":
				if !slices.Contains(wanted, account) {
					return false
				}
			case "aws:sourcearn":
				if !slices.ContainsFunc(wanted, func(w string) bool {
					return w == "*" || strings.Contains(w, ":cloudwatch:") && strings.Contains(w, ":"+account+":")
				}) {
					return false
				}
			default:
				return false
			}
		}
	}
	return true
}
