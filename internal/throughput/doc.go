// Package throughput measures what one machine takes, from the writing of usage to its billing, and over HTTP. It holds
// benchmarks alone:
//
//	go test -run '^$' -bench . -benchtime 1x -timeout 30m ./internal/throughput
package throughput
