// Command notify is a subscriber that tells approvers about deferred calls, by Slack, signed webhooks and mail, and
// tells them again when a call is settled. A message links to the console, where an approver signs in; nothing in it
// approves, and no token of a deferred call is ever in it. Records come from the host; what was sent is kept in one
// state file.
package main

import "github.com/yett-dev/yett/sdk/plugin"

func main() { plugin.Serve(newPlugin()) }
