package chain

import (
	"context"
	"fmt"

	"github.com/yett-dev/yett/sdk"
)

// ScanArgs puts a scan chain in front of a step: it looks at the call's args, and what it would not release as it is,
// is denied, since a call's arguments cannot be redacted on the way. Otherwise the step itself speaks.
func ScanArgs(scan *ScanChain, next Checker) Checker { return &argScanner{scan, next} }

type argScanner struct {
	scan *ScanChain
	next Checker
}

// Check implements Checker.
func (a *argScanner) Check(ctx context.Context, c *Call) (sdk.Verdict, error) {
	if c.Args.Len() == 0 {
		return a.next.Check(ctx, c)
	}
	res := a.scan.Run(ctx, &Input{Text: string(c.Args.AppendCanonical(nil)), ToolID: c.ToolID, AgentID: c.AgentID,
		KeyID: c.KeyID, ContentType: "application/json"})
	if r := res.failed; r != nil {
		return sdk.Verdict{}, fmt.Errorf("the args could not be scanned: %w", r.Err)
	}
	if res.Code == sdk.ReasonScanUnavailable { // no failure: it will be so again
		return sdk.Verdict{Effect: sdk.Deny, Code: res.Code, Reason: "the args could not be scanned: " + res.Reason,
			Message: "The arguments could not be checked."}, nil
	}
	if res.Outcome == Denied || res.Outcome == Redacted {
		return sdk.Verdict{Effect: sdk.Deny, Code: res.Code, Reason: "the args hold what outputs may not: " + res.Reason,
			Message: "The arguments hold something that must not be passed on."}, nil
	}
	return a.next.Check(ctx, c)
}
