// Package sqlite keeps the tables in one SQLite file: the durable store of one machine.
//
// Inside, a license ARN, an account and a dimension stand once, in the table series; rows and records refer to them by a small
// number and name their time by a number too, so speed does not depend on how long the names are. Subscribers and profiles are few,
// and kept as the items that they are on AWS, in JSON. For people there are the views usage, aggregated_usage, subscribers and
// customer_profile, with the names that the tables have on AWS:
//
//	sqlite3 awsmp-data/usage.db "SELECT timestamp, dimension, quantity, meteringStatus FROM usage LIMIT 10"
//	sqlite3 awsmp-data/usage.db "SELECT licenseArn, subscriptionStatus, deprovisioningExpiry FROM subscribers"
//
// All changes pass through one goroutine, which puts those that wait together into one transaction and answers them when that is
// on the disk (synchronous=FULL). Reads go to connections of their own, page by page, and see every change that was answered.
// Several processes may have the file open: SQLite lets one of them write at a time, the others wait.
package sqlite
