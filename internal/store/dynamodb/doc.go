// Package dynamodb keeps the tables in Amazon DynamoDB. It has a type for each, so that a stage builds only what it uses: Rows is the
// usage table, Records the aggregated-usage table, Subscribers the subscribers table, whose client may be of another Region, and
// Profiles the customer-profile table, which alone holds personal data and is written without a read.
//
// Reads of a table are consistent (F6); its index lags behind it. Every write that depends on what is there is one conditional
// UpdateItem or PutItem: where the condition can be said in an expression it needs no read, else the item is read and the write
// asks that everything judged is still as it was read. No write makes an item that was not there (F27), but a put, a flush, a profile
// and a change that is to make a subscriber.
// Attributes that a write does not name stay as they are, of whatever type.
//
// Nothing that a stage uses scans. Only Ledger does, for an operator's commands, which say the price first.
//
// Errors are *awsapi.Error, with the class that says whether to try again.
package dynamodb
