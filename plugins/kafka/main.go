// Command yett-kafka is a subscriber that sends the audit log to a Kafka topic. Batches come from the host, records go
// to the configured brokers and nowhere else. It acknowledges a batch only when all in-sync replicas have every record
// of it, and within a partition no record ever comes before one that precedes it in the log for the first time.
package main

import "github.com/yett-dev/yett/sdk/plugin"

func main() { plugin.Serve(newPlugin()) }
