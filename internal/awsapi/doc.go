// Package awsapi is what the adapters of AWS services share: how their clients are set up, and what their errors mean.
package awsapi
