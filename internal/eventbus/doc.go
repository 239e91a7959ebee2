// Package eventbus sends invented Marketplace events to a dry-run stage on AWS, over the account's own event bus. It asks the stage first
// whether it takes them: an invented event must never reach a stage that meters for real.
package eventbus
