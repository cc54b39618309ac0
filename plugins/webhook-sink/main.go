// Command webhook-sink is a subscriber that posts the audit log to an HTTP service, signed as Standard Webhooks says.
// It owns nothing on disk. A record is acknowledged only when the service answered 2xx, and what comes twice has the
// same webhook-id. Records come from the host, in order; requests go to the one URL of the settings.
package main

import "github.com/yett-dev/yett/sdk/plugin"

func main() { plugin.Serve(newPlugin()) }
