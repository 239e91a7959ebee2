package desk

import "github.com/awsmp/metering/internal/pipeline"

// Which selects usage: all of the stages' re-driving and all of the desk's goes by the same rule.
type Which = pipeline.Which
