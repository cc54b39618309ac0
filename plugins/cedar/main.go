// Command cedar is an authorizer that lets Cedar policies decide calls, evaluated by cedar-go. Policies, entities and a
// schema come from files or from the settings, and are loaded anew when their content changes. It never rounds a number
// to make it fit Cedar's, and never lets a forbid that could not be evaluated pass unnoticed: every error is a denial
// or is handed to the gateway, which decides by the step's on_error.
package main

import "github.com/yett-dev/yett/sdk/plugin"

func main() { plugin.Serve(newPlugin()) }
