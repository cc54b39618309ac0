// Command authorizer-go is an authorizer in fifteen lines: it denies every call that deletes something and abstains
// from all others.
package main

import (
	"context"
	"strings"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/plugin"
)

func main() { plugin.Serve(authorizer) }

var authorizer = plugin.Authorizer{
	Info: plugin.Info{Name: "no-delete", Version: "1.0.0", Description: "denies calls that delete"},
	Check: func(_ context.Context, c *plugin.Call) (sdk.Verdict, error) {
		if strings.HasSuffix(c.ToolID, "/delete") {
			return sdk.Verdict{Effect: sdk.Deny, Code: "NO_DELETE", Reason: "nothing is deleted here"}, nil
		}
		return sdk.Verdict{}, nil // abstains: others decide
	},
}
