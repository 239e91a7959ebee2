package stack

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/telemetry"
)

// counted are the metrics that bear the product code. Those of events have none, since the events stack serves all products.
func counted() []metering.Metric {
	return []metering.Metric{
		metering.MetricRowLate, metering.MetricRowRejected, metering.MetricRowExpired, metering.MetricCoveredRowChanged, metering.MetricPendingRepaired, metering.MetricManifestUnreadable,
		metering.MetricBilled, metering.MetricDuplicate, metering.MetricNotSubscribed, metering.MetricUnprocessed, metering.MetricResultUnmatched, metering.MetricException, metering.MetricInDoubt,
		metering.MetricSubmissionExpired, metering.MetricDryRun, metering.MetricDeprovisioningLookup, metering.MetricSubmissionPaused,
		metering.MetricRegistered, metering.MetricRegistrationRefused, metering.MetricRegistrationEarly, metering.MetricRegistrationFailed,
	}
}

// question is a metric that is asked for, as a whole or for one cause.
type question struct {
	metric metering.Metric
	cause  string
}

// questions are all metrics as a whole, and what is in doubt of what has expired: it may be billed, and nobody may book it again.
func questions() (list []question) {
	for _, m := range counted() {
		list = append(list, question{metric: m})
	}
	return append(list, question{metering.MetricSubmissionExpired, metering.VerdictUnknown})
}

// dimensions are those under which the functions publish it. Only a stack that is live can be in doubt.
func (q question) dimensions(product string) []types.Dimension {
	list := []types.Dimension{{Name: aws.String(telemetry.DimensionProductCode), Value: &product}}
	if q.cause != "" {
		list = append(list, types.Dimension{Name: aws.String(telemetry.DimensionMeteringMode), Value: aws.String("live")},
			types.Dimension{Name: aws.String(telemetry.DimensionReason), Value: &q.cause})
	}
	return list
}

// Counted are the metrics of the product between two instants, in whole hours, by the hour in which they were counted: in order, and without what is 0. It is one
// question of some forty metrics, at $0.01 a thousand (Amazon CloudWatch pricing, GetMetricData).
func (s *Stack) Counted(ctx context.Context, from, to time.Time) ([]desk.Count, error) {
	asked := questions()
	var ask []types.MetricDataQuery
	for i, q := range asked {
		for _, of := range []struct{ kind, suffix string }{{"items", ""}, {"units", "Units"}} {
			ask = append(ask, types.MetricDataQuery{Id: aws.String(fmt.Sprintf("%s%d", of.kind, i)), MetricStat: &types.MetricStat{
				Period: aws.Int32(3600), Stat: aws.String("Sum"),
				Metric: &types.Metric{
					Namespace: aws.String(telemetry.Namespace), MetricName: aws.String(string(q.metric) + of.suffix),
					Dimensions: q.dimensions(s.ProductCode),
				},
			}})
		}
	}
	type key struct {
		hour   metering.Hour
		metric int
	}
	found := make(map[key]desk.Count)
	pages := cloudwatch.NewGetMetricDataPaginator(s.here.cloudwatch, &cloudwatch.GetMetricDataInput{
		MetricDataQueries: ask, StartTime: aws.Time(metering.HourOf(from).Start()), EndTime: aws.Time(to), ScanBy: types.ScanByTimestampAscending,
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, awsapi.Wrap("read the metrics", "", err)
		}
		for _, r := range page.MetricDataResults {
			var i int
			var kind string
			if _, err := fmt.Sscanf(aws.ToString(r.Id), "items%d", &i); err == nil {
				kind = "items"
			} else if _, err := fmt.Sscanf(aws.ToString(r.Id), "units%d", &i); err != nil {
				continue
			}
			for n, at := range r.Timestamps[:min(len(r.Timestamps), len(r.Values))] {
				k := key{metering.HourOf(at), i}
				c := found[k]
				c.Hour, c.Metric, c.Cause = k.hour, asked[i].metric, asked[i].cause
				if kind == "items" {
					c.Items += int64(math.Round(r.Values[n]))
				} else {
					c.Units += int64(math.Round(r.Values[n]))
				}
				found[k] = c
			}
		}
	}
	var keys []key
	for k, c := range found {
		if c.Items != 0 || c.Units != 0 {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b key) int {
		if a.hour != b.hour {
			return int(a.hour - b.hour)
		}
		return a.metric - b.metric
	})
	list := make([]desk.Count, len(keys))
	for i, k := range keys {
		list[i] = found[k]
	}
	return list, nil
}
