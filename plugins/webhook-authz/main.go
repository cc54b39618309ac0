// Command webhook-authz is an authorizer that asks an HTTP service about each call. Requests are signed as Standard
// Webhooks says, and so may the answers be. Whatever is not exactly an answer of the contract is an error, never a
// permit: the host then does what its operator wrote. Calls come from the host; nothing is kept between them.
package main

import "github.com/yett-dev/yett/sdk/plugin"

func main() { plugin.Serve(newPlugin()) }
