// Command bootstrap is the Lambda binary of all functions: the handler name that Lambda finds in the function's configuration
// picks the one that runs (AWS Lambda developer guide, "Building Lambda functions with Go", provided.al2023).
package main

import (
	"context"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/functions"
	"github.com/awsmp/metering/internal/telemetry"
)

// version is set by the build of a release.
var version string

func main() {
	handler, err := functions.Open(context.Background(), functions.Process{
		Handler: os.Getenv("_HANDLER"),
		Getenv:  os.Getenv,
		Config:  awsapi.Config,
		Metrics: os.Stdout,
		Log:     os.Stderr,
		Version: versionOr(version),
		Now:     time.Now,
	})
	if err != nil {
		telemetry.NewLog(os.Stderr, slog.LevelInfo).Error("function cannot start", "error", err)
		os.Exit(1)
	}
	// Lambda's runtime logs errors and panics through package log: they are to be masked too.
	slog.SetLogLoggerLevel(slog.LevelError)
	slog.SetDefault(handler.Log())
	lambda.Start(handler)
}

// versionOr is the version given to the build, or what the build says of the module by itself.
func versionOr(given string) string {
	info, ok := debug.ReadBuildInfo()
	if given == "" && ok {
		return info.Main.Version
	}
	return given
}
