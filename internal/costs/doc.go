// Package costs says what the pipeline costs on AWS. Its tests play usage from rows in the table to billed records, count every
// request by stage, operation and resource, hold the counts to testdata/requests.json, and make prices of them with the figures
// that AWS publishes. docs/cost.md is for people and holds the same tables.
package costs
