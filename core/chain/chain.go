// Package chain runs an operator's ordered list of steps over one call or one text and combines what they say. It is
// the one place where steps' errors become effects: a step that did not run is recorded as such with its on_error, and
// no error ends in PERMIT or "clean" unless the operator wrote so. It is pure: it owns no I/O, no clock and no store;
// steps do their own work behind the Checker and Scanner interfaces.
package chain

import (
	"context"
	"time"

	"github.com/yett-dev/yett/core/prefilter"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// Call is one call as the steps of an authorize chain see it. Steps must not change it nor keep it after they return.
type Call struct {
	KeyID, KeyName string
	AgentID        string
	SessionID      string
	ToolID         string // with the operation joined: "tool/operation"
	Operation      string
	CallID         string
	Args           exact.Value // an object, or absent
	Context        exact.Value // an object, or absent
	Digest         [32]byte
	Now            time.Time
	Generation     string // of the configuration that is asked, which a step may outlive; "" when there is none
	Turn           Turn   // among the calls that this process works on; nil: it has none
	Bound          Bound  // of the step that is asked in the caller's goroutine
}

// Checker is what an authorize step runs.
type Checker interface {
	// Check answers with a verdict; an error means the step did not run to its end. A DENY or DEFER that comes with one
	// says what it was about to look at: the step's on_error loosens neither. All else of such a verdict is not used.
	Check(ctx context.Context, c *Call) (sdk.Verdict, error)
}

// Input is one text as the steps of a scan chain see it.
type Input struct {
	Text        string
	ToolID      string
	AgentID     string
	ContentType string
	Whole       bool   // the text is one JSON value, for strict readers: what is released of it has its shape
	KeyID       string // of whom the text is, so that one key's texts do not keep those of others waiting; "" for nobody's
	Patient     bool   // nobody waits for the masked text: it may take what a scan may
	Masking     bool   // the findings are for what we keep ourselves: such scans have places of their own
	Turn        Turn   // among the requests that this process works on; it ends once the text is read. nil: it has none

	// MaskKey gives the key of {mask} in replacements; nil: the text has no session, and gets [{kind}] instead.
	MaskKey func() []byte
	// TokenKey is MaskKey for {token}.
	TokenKey func() []byte

	// Hits are the places where the scanner's own triggers occur, by offset, when HitsComplete says that these are all:
	// then it need not look elsewhere. They are valid until Scan returns.
	Hits         []prefilter.Hit
	HitsComplete bool
}

// Scanner is what a scan step runs.
type Scanner interface {
	// Scan finds spans in in.Text. An error means the whole text was not covered and the findings must not be used as
	// complete.
	Scan(ctx context.Context, in *Input) ([]sdk.Finding, error)
	// About identifies what runs, for receipts.
	About() About
}

// About identifies a step's code.
type About struct {
	Version string // the module's own version
	Digest  string // "sha256:<hex>" of the module's bytes
}
