package preflight

import (
	"errors"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
)

// CodePattern is that of the template's parameter ProductCode.
const CodePattern = `[A-Za-z0-9-]{1,36}`

var (
	wholeCode = regexp.MustCompile(`^` + CodePattern + `$`)
	// usualCode is what product codes look like in the Management Portal, and productID what stands beside them there: prod- and letters, or for
	// older products a UUID.
	usualCode = regexp.MustCompile(`^[a-z0-9]{20,30}$`)
	productID = regexp.MustCompile(`^(prod-[a-z0-9]+|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$`)
)

// productCode looks at the code's shape. Whether the product exists is seen by no call that a seller may make before the first buyer.
func (l *look) productCode() {
	const name, portal = "product code", "copy Product code, not Product ID, from the product's page in the AWS Marketplace Management Portal"
	code := l.ProductCode
	switch {
	case code == "":
		l.add(name, Unknown, "--product-code with the code of the product", "none is named, so names and tables are not looked at")
	case !wholeCode.MatchString(code):
		l.add(name, Problem, portal, "%q is none: the template takes up to 36 letters, digits and -", code)
	case productID.MatchString(code):
		l.add(name, Problem, portal, "%s looks like a product ID; calls with it would be refused", code)
	case strings.HasSuffix(code, "-aggregated"), strings.HasSuffix(code, "-deprovision"):
		l.add(name, Warning, "", "names of %s meet those of another product whose code is the same without its end", code)
	case !usualCode.MatchString(code):
		l.add(name, Warning, portal, "%s is not what product codes look like: about 25 small letters and digits", code)
	default:
		l.add(name, OK, "", "%s looks like one", code)
	}
}

const (
	// inlineTemplate is the largest template that a call of CloudFormation itself carries, and storedTemplate the largest that it reads from S3
	// (AWS CloudFormation user guide, quotas).
	inlineTemplate = 51_200
	storedTemplate = 1_048_576
)

func (l *look) templateSize() {
	const name = "template size"
	if l.Template == "" {
		return
	}
	info, err := os.Stat(l.Template)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.add(name, Unknown, "run it in the folder of the repository, or name the file with --template", "there is no file %s here", l.Template)
	case err != nil:
		l.add(name, Unknown, "", "%v", err)
	case info.Size() > storedTemplate:
		l.add(name, Problem, "", "%s has %d bytes, and CloudFormation takes %d", l.Template, info.Size(), storedTemplate)
	case info.Size() > inlineTemplate:
		l.add(name, OK, "aws cloudformation deploy … --s3-bucket BUCKET", "%s has %d bytes: more than %d go by way of a bucket", l.Template, info.Size(), inlineTemplate)
	default:
		l.add(name, OK, "", "%s has %d bytes", l.Template, info.Size())
	}
}

// meteringRegions are those in which AWS Marketplace Metering Service exists (AWS Marketplace seller guide, metering service Regions).
func meteringRegions() []string {
	return []string{
		"af-south-1", "ap-east-1", "ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-south-1", "ap-south-2", "ap-southeast-1", "ap-southeast-2", "ap-southeast-3",
		"ap-southeast-4", "ca-central-1", "cn-northwest-1", "eu-central-1", "eu-central-2", "eu-north-1", "eu-south-1", "eu-south-2", "eu-west-1", "eu-west-2", "eu-west-3",
		"il-central-1", "me-central-1", "me-south-1", "sa-east-1", "us-east-1", "us-east-2", "us-west-1", "us-west-2",
	}
}

// region looks at whether the Region is one that usage can be metered in.
func (l *look) region() {
	const name = "Region"
	r := l.here.Region
	switch {
	case strings.HasPrefix(r, "us-gov-"), strings.HasPrefix(r, "us-iso"):
		l.add(name, Problem, "--region us-east-1, or another one of the commercial partition", "%s has no AWS Marketplace Metering Service", r)
	case strings.HasPrefix(r, "cn-"):
		l.add(name, Problem, "--region us-east-1, or another one of the commercial partition", "%s is of the China partition, which has no us-east-1 and so no events stack of this kind", r)
	case !slices.Contains(meteringRegions(), r):
		l.add(name, Warning, "getent hosts metering.marketplace."+r+".amazonaws.com; or --region us-east-1", "%s is not among the %d Regions that are known to have AWS Marketplace Metering Service", r, len(meteringRegions()))
	default:
		l.add(name, OK, "", "%s has AWS Marketplace Metering Service", r)
	}
	if l.EventsRegion != homeRegion {
		l.add("events Region", Problem, "leave --events-region out", "AWS Marketplace sends its events to %s alone, and not to %s", homeRegion, l.EventsRegion)
	}
}
