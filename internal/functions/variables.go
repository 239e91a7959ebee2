package functions

import (
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/registration"
)

// Variable is an environment variable.
type Variable struct {
	Name    string
	Meaning string
	Want    string // what its value looks like
	// Default is taken where it is not set; without one it must be set. What decides about money has none, so that a misspelt
	// name is an error and not another setting.
	Default string
	// Reserved variables are set by Lambda itself, which refuses them in a template.
	Reserved bool
	set      func(s *Settings, value string) bool
}

// Settings are what the environment says. Those of variables that a function does not read are zero.
type Settings struct {
	Region   string
	LogLevel slog.Level

	ProductCode string // empty in the events stack, which serves all products
	Mode        string // live or dry-run; empty where it makes no difference

	UsageTable, AggregatedTable               string
	SubscribersTable, SubscribersRegion       string
	WorkQueue, DeprovisionQueue, CleanupQueue string // addresses

	LockHours      int
	MaxRecords     int
	CallsPerSecond float64
	Paused         bool
	UsageDays      int // how long rows are kept; 0: for ever
	AggregatedDays int // how long billed records are kept; 0: for ever

	TestStage    string   // whose test events are applied; empty: of none
	TestAccounts []string // whose test events are applied

	ProfileTable string
	Registration registration.Settings
}

func (s Settings) dryRun() bool { return s.Mode == dryRun }

// registration are the settings of the registration function, whole.
func (s Settings) registration() registration.Settings {
	r := s.Registration
	r.ProductCode, r.Region = s.ProductCode, s.Region
	return r
}

const (
	live, dryRun    = "live", "dry-run"
	enabled, paused = "enabled", "paused"
	none            = "none" // where a variable has to be set and there is nothing to say

	// Amazon DynamoDB API reference, TableName; AWS Marketplace Metering API reference, ProductCode.
	tableForm   = `^[a-zA-Z0-9_.-]{3,255}$`
	productForm = `^[-a-zA-Z0-9/=:_.@]{1,255}$`
	regionForm  = `^[a-z]{2,}(-[a-z]+)+-[0-9]+$`
	queueForm   = `^https?://[^/\s]+(/[^/\s]+)+$`

	minKeptDays, maxKeptDays = 2, 3650
	// keptLonger is by how many days billed records outlive the rows that they were summed from.
	keptLonger        = 2
	maxRunRecords     = 1_000_000
	maxCallsPerSecond = 1000
)

var (
	region = Variable{
		Name: "AWS_REGION", Meaning: "Region of the tables, the queues and the Metering Service", Want: "a Region such as us-east-1", Reserved: true,
		set: text(regionForm, func(s *Settings) *string { return &s.Region }),
	}
	logLevel = Variable{
		Name: "LOG_LEVEL", Meaning: "lines below this level are left out of the log", Want: "DEBUG, INFO, WARN or ERROR", Default: "INFO",
		set: func(s *Settings, v string) bool { return s.LogLevel.UnmarshalText([]byte(v)) == nil },
	}
	productCode = Variable{
		Name: "PRODUCT_CODE", Meaning: "product code: a dimension of the metrics, sent with legacy records, and what a registration token must be of", Want: "the product's code in AWS Marketplace, without spaces",
		set: text(productForm, func(s *Settings) *string { return &s.ProductCode }),
	}
	meteringMode = Variable{
		Name: "METERING_MODE", Meaning: "whether records are sent or only ended as they would have been sent; a dimension of the metrics", Want: "live or dry-run",
		set: text("^("+live+"|"+dryRun+")$", func(s *Settings) *string { return &s.Mode }),
	}
	usageTable = Variable{
		Name: "USAGE_TABLE", Meaning: "usage table", Want: wantTable,
		set: text(tableForm, func(s *Settings) *string { return &s.UsageTable }),
	}
	aggregatedTable = Variable{
		Name: "AGGREGATED_USAGE_TABLE", Meaning: "aggregated-usage table", Want: wantTable,
		set: text(tableForm, func(s *Settings) *string { return &s.AggregatedTable }),
	}
	subscribersTable = Variable{
		Name: "SUBSCRIBERS_TABLE", Meaning: "subscribers table of the events stack", Want: wantTable + "; without -test- where METERING_MODE is live",
		set: text(tableForm, func(s *Settings) *string { return &s.SubscribersTable }),
	}
	subscribersRegion = Variable{
		Name: "SUBSCRIBERS_TABLE_REGION", Meaning: "Region of the subscribers table", Want: "a Region such as us-east-1",
		set: text(regionForm, func(s *Settings) *string { return &s.SubscribersRegion }),
	}
	workQueue = Variable{
		Name: "WORK_QUEUE_URL", Meaning: "queue of groups to aggregate", Want: wantQueue,
		set: text(queueForm, func(s *Settings) *string { return &s.WorkQueue }),
	}
	deprovisionQueue = Variable{
		Name: "DEPROVISION_WORK_QUEUE_URL", Meaning: "queue of groups to aggregate of licenses in their last hour", Want: wantQueue,
		set: text(queueForm, func(s *Settings) *string { return &s.DeprovisionQueue }),
	}
	cleanupQueue = Variable{
		Name: "CLEANUP_QUEUE_URL", Meaning: "queue of labels for rows", Want: wantQueue,
		set: text(queueForm, func(s *Settings) *string { return &s.CleanupQueue }),
	}
	lockHours = Variable{
		Name: "METERING_LOCK_HOURS", Meaning: "how many hours, counted from its start, an hour is left open for late rows", Want: "a whole number from 1 to 20",
		set: whole(1, 20, func(s *Settings) *int { return &s.LockHours }),
	}
	maxRecords = Variable{
		Name: "MAX_RECORDS_PER_RUN", Meaning: "how many records of the ordinary backlog one run takes on", Want: "a whole number from 1 to 1000000",
		set: whole(1, maxRunRecords, func(s *Settings) *int { return &s.MaxRecords }),
	}
	callsPerSecond = Variable{
		Name:    "METERING_CALLS_PER_SECOND",
		Meaning: "pace of BatchMeterUsage; the service allows 10 to an account and Region, all products together",
		Want:    "a number above 0, up to 1000",
		set: func(s *Settings, v string) bool {
			n, err := strconv.ParseFloat(v, 64)
			s.CallsPerSecond = n
			return err == nil && n > 0 && n <= maxCallsPerSecond
		},
	}
	submission = Variable{
		Name: "SUBMISSION", Meaning: "paused sends nothing: records wait, and expire after 24 hours", Want: "enabled or paused",
		set: choice(enabled, paused, func(s *Settings) *bool { return &s.Paused }),
	}
	usageDays = Variable{
		Name: "USAGE_TTL_DAYS", Meaning: "how many days rows are kept; 0 is for ever", Want: "0, or a whole number of days from 2 to 3650",
		set: func(s *Settings, v string) bool {
			return whole(0, maxKeptDays, func(s *Settings) *int { return &s.UsageDays })(s, v) && (s.UsageDays == 0 || s.UsageDays >= minKeptDays)
		},
	}
	aggregatedDays = Variable{
		Name: "AGGREGATED_USAGE_TTL_DAYS", Meaning: "how many days billed records are kept; 0 is for ever", Want: "0, or from USAGE_TTL_DAYS + 2 to 3652; only 0 where that is 0",
		set: whole(0, maxKeptDays+keptLonger, func(s *Settings) *int { return &s.AggregatedDays }),
	}
)

// Variables of the subscription function.
var (
	testStage = Variable{
		Name:    "TEST_STAGE",
		Meaning: "stage whose test events are applied; those of another, or of a live one, never are",
		Want:    "a stage's name of small letters, digits and -, or none; only none where METERING_MODE is live, and else SUBSCRIBERS_TABLE must end in -test- and the name",
		set: orNone(func(s *Settings, v string) bool {
			s.TestStage = v
			return lifecycle.ValidStage(v)
		}),
	}
	testAccounts = Variable{
		Name: "TEST_ACCOUNTS", Meaning: "buyers' accounts whose test events are applied",
		Want: "accounts of 12 digits with commas between them, or none; only none where METERING_MODE is live",
		set: orNone(func(s *Settings, v string) bool {
			s.TestAccounts = strings.Split(v, ",")
			return !slices.ContainsFunc(s.TestAccounts, func(a string) bool { return !metering.ValidAccount(a) })
		}),
	}
)

// Variables of the registration function. What a buyer is shown may be none, and is left out then.
var (
	profileTable = Variable{
		Name: "CUSTOMER_PROFILE_TABLE", Meaning: "customer-profile table, of personal data", Want: wantTable,
		set: text(tableForm, func(s *Settings) *string { return &s.ProfileTable }),
	}
	registrationFields = Variable{
		Name: "REGISTRATION_FIELDS", Meaning: "what a buyer is asked for; with none they are registered at once",
		Want: "names with commas between them, a * behind those that must be filled in, such as contactName*,companyName; or none",
		set: orNone(func(s *Settings, v string) bool {
			fields, err := registration.ParseFields(v)
			s.Registration.Fields = fields
			return err == nil
		}),
	}
	promotedFields = Variable{
		Name: "PROMOTED_FIELDS", Meaning: "those of them that the profile holds as attributes of their own too, for indexes",
		Want: "names out of REGISTRATION_FIELDS, none that is an attribute of the profile itself, with commas between them; or none",
		set: orNone(func(s *Settings, v string) bool {
			promoted, err := registration.ParsePromoted(v, s.Registration.Fields)
			s.Registration.Promoted = promoted
			return err == nil
		}),
	}
	sellerName = Variable{
		Name: "SELLER_NAME", Meaning: "who sells, on the page", Want: wantPhrase,
		set: orNone(shown(func(r *registration.Settings) *string { return &r.Seller.Name })),
	}
	productName = Variable{
		Name: "PRODUCT_NAME", Meaning: "what is sold, on the page", Want: wantPhrase,
		set: orNone(shown(func(r *registration.Settings) *string { return &r.Seller.Product })),
	}
	supportContact = Variable{
		Name: "SUPPORT_CONTACT", Meaning: "where a buyer whom the page cannot help finds help", Want: "a mail address, an address https://…, or none",
		set: orNone(shown(func(r *registration.Settings) *string { return &r.Seller.Support })),
	}
	continueURL = Variable{
		Name: "CONTINUE_URL", Meaning: "where a registered buyer goes on from the page", Want: "an address https://…, or none",
		set: orNone(shown(func(r *registration.Settings) *string { return &r.Seller.Continue })),
	}
	allowedOrigin = Variable{
		Name: "ALLOWED_ORIGIN", Meaning: "web page that may register buyers by script (CORS)", Want: "an origin such as https://www.example.com, or none",
		set: orNone(shown(func(r *registration.Settings) *string { return &r.AllowedOrigin })),
	}
)

const (
	wantPhrase = "up to 100 characters in one line, or none"

	wantTable = "a table's name: 3 to 255 letters, digits, _ . and -"
	wantQueue = "a queue's address, https://…"
)

func text(form string, field func(*Settings) *string) func(*Settings, string) bool {
	return func(s *Settings, v string) bool {
		*field(s) = v
		return regexp.MustCompile(form).MatchString(v)
	}
}

// shown is a setting that the registration itself judges.
func shown(field func(*registration.Settings) *string) func(*Settings, string) bool {
	return func(s *Settings, v string) bool {
		alone := registration.Settings{ProductCode: "any", Region: "any"} // so that what is wrong with it is wrong with this setting
		*field(&alone), *field(&s.Registration) = v, v
		return alone.Check() == nil
	}
}

// orNone is a setting that may be said not to be there.
func orNone(set func(*Settings, string) bool) func(*Settings, string) bool {
	return func(s *Settings, v string) bool { return v == none || set(s, v) }
}

func choice(off, on string, field func(*Settings) *bool) func(*Settings, string) bool {
	return func(s *Settings, v string) bool {
		*field(s) = v == on
		return v == on || v == off
	}
}

func whole(from, to int, field func(*Settings) *int) func(*Settings, string) bool {
	return func(s *Settings, v string) bool {
		n, err := strconv.Atoi(v)
		*field(s) = n
		return err == nil && n >= from && n <= to
	}
}
