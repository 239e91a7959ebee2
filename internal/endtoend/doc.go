// Package endtoend holds no code of its own: its tests run all functions as processes of the real Lambda binary, on DynamoDB
// and SQS as moto serves them and against the simulator, each function behind a proxy that records what it asks for.
package endtoend
