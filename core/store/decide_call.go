package store

import (
	"time"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// DecideCall is what a decision is made from. The store never writes to it, so it may be committed once more, with a
// view that was missing.
type DecideCall struct {
	Call
	ID      string // the decision's
	DryRun  bool   // nothing is charged, spent or deferred
	NoDefer bool   // a DEFER makes no pending call, and no grant or approval is spent
	Policy  PolicyOutcome
	Names   RepeatNames
	Redeem  Redemption
	Grants  []*Grant // with a Defer verdict: what may be spent instead, the narrowest first, args_match looked at
	Defer   NewDefer
	Limits  CallLimits
	Record  CallRecord
	Action  ActionChange // what happens to an action in the same write; nil for a plain call
}

// Call says who asks for what.
type Call struct {
	Key       *Key
	By        Who
	AgentID   string
	SessionID string
	ToolID    string
	Operation string
	CallID    string // the caller's, or made
	Digest    [32]byte
	// of the canonical args, and ContextHash of the context; with a Defer verdict or a redemption
	ArgsHash    [32]byte
	ContextHash [32]byte
	Began       uint64 // what Store.Began was when the call began
}

// PolicyOutcome is what the chain said of the call.
type PolicyOutcome struct {
	Version string
	Verdict sdk.Verdict  // never Abstain
	Quorums []sdk.Quorum // with a Defer verdict: what has to be signed
	Checks  []wire.Check
}

// RepeatNames are the names under which a repeat of the call is found, hashed.
type RepeatNames struct {
	// of operation, key, agent and the caller's call_id, and of its Idempotency-Key, if it sent them
	Hashes [][16]byte
	Keyed  bool     // the last of Hashes is of an Idempotency-Key: a redemption is repeated under that, too
	Made   [16]byte // of a call_id that was made for the call; zero if the caller sent one
}

// Redemption names the approval that the call wants to spend, if it wants one.
type Redemption struct {
	Token    string   // of the deferred call
	CallID   string   // or its call_id ("-resume" form), if there is such a call
	CallHash [16]byte // the hash that such a call has among its Names
	Auto     bool     // or any approval of exactly this call, unless the key is Explicit: see redeemFound
}

// NewDefer is the pending call that a Defer verdict makes.
type NewDefer struct {
	Token string
	TTL   time.Duration
	// View is the call as approvers see it. It may be nil while grants or an approval may permit the call; if it is needed
	// after all, the decision says so.
	View   []byte
	Hidden Hidden // what View does not show
	Note   AgentNote
}

// CallLimits is what the call must stay within.
type CallLimits struct {
	Charges    []Charge // of a permit
	MaxPending int      // deferred calls that wait, per key
	MaxJoined  int      // actions that wait for one deferred call; 0 is no limit
}

// CallRecord is what only the audit record says of the call.
type CallRecord struct {
	Args         []byte         // as the audit policy stores them: JSON, or nil
	ArgsWithheld *wire.Withheld // why Args is not what the audit policy asks for; nil if it is
	Note         AgentNote      // as the audit policy stores it
	LatencyUS    int64
	TimeoutMS    int
}

// Decision is what was decided.
type Decision struct {
	// NeedsView: nothing is decided. No grant has permitted the call, or approvers are not shown all of it: commit the
	// call once more, with the view of it.
	NeedsView bool

	Effect     sdk.Effect
	Code       string
	Reason     string
	RuleID     string
	Message    string
	DecisionID string
	Token      string
	Expires    time.Time
	GrantID    string
	RetryAfter time.Duration // 0: nobody knows
	Repeat     bool
	Approved   bool // it is a Defer whose call is approved: ask again with the token
	joined     bool
}
