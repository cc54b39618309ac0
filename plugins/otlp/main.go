// Command yett-otlp is a subscriber that sends the audit log to an OpenTelemetry collector: OTLP log records over HTTP
// or gRPC. Batches come from the host, requests go to the configured endpoint and nowhere else. It acknowledges a batch
// only when the receiver has taken in every record of it, and never rounds, drops or reorders what a record says.
package main

import "github.com/yett-dev/yett/sdk/plugin"

func main() { plugin.Serve(newPlugin()) }
