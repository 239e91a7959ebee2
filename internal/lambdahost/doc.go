// Package lambdahost is test support: it runs Lambda binaries as processes and drives them over the Lambda Runtime API, so that
// the binary that is shipped is the binary that is tested. A Function is what AWS Lambda is for one function; a Mapping is the
// event source mapping of a queue onto it.
//
// What AWS does comes from the AWS Lambda developer guide: "Using the Lambda runtime API for custom runtimes", "Understanding
// the Lambda execution environment lifecycle", "Defined runtime environment variables" and "Handling errors for an SQS event
// source in Lambda".
package lambdahost
