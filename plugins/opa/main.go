// Command opa is an authorizer that lets Rego policies decide calls, with Open Policy Agent's own evaluator. Policies
// come from a bundle on disk, from files, or from the settings, and are loaded anew when their content changes. It
// never permits what it could not evaluate: every error is handed to the gateway, which decides by the step's on_error.
package main

import "github.com/yett-dev/yett/sdk/plugin"

func main() { plugin.Serve(newPlugin()) }
