//go:build linux

package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// load is what is sent where.
type load struct {
	name    string
	gateway string // which one, "" for the echo
	path    string
	bodies  [][]byte
	expect  string
	depth   int     // messages in flight on each of pipeConns connections to the socket; 0: HTTP
	share   float64 // of the rate of the load after: sent when due; 0: the next request goes out when an answer has come
	after   string  // load that has to be measured first, with as many connections, because this one is made by its rate

	// prepare makes what the requests need, before anything is measured. The function that it gives ends that and says
	// what was not as it has to be, "" if nothing. Both may be nil.
	prepare func(ctx context.Context, r *ratioRun, g *child, d *drive) (done func() string, err error)

	// work starts what runs in this process instead, without a server; nil for all others.
	work    func(ctx context.Context, r *ratioRun) (*work, error)
	unit    string // of its rate; "" for MB/s
	plugins bool   // needs the plugins' program; a gateway's flags say so themselves
}

// needsPlugin says whether the load needs the plugins' program.
func (l *load) needsPlugin() bool {
	flags := gatewayFlags[l.gateway]
	return l.plugins || slices.Contains(flags, "--authorizers") || slices.Contains(flags, "--subscriber")
}

// pipeConns is how many connections to the socket there are.
const pipeConns = 8

// quietShare is how much of the rate of S1 the open loops send: the machine has time left, so that latencies are not
// those of an overload.
const quietShare = 0.4

// at is how many connections a load has in the rows for so many.
func (l *load) at(conns int) int {
	if l.depth > 0 {
		return pipeConns
	}
	return conns
}

// gatewayFlags are the throw-away gateways: the flags of `bench gateway`.
var gatewayFlags = map[string][]string{
	"digest":     {"--args", "digest"},
	"redacted":   {"--args", "redacted"},
	"spend":      {"--args", "digest"}, // as digest; what it keeps of approvals and grants is in nobody else's way
	"plugin":     {"--args", "digest", "--authorizers", "1"},
	"plugins":    {"--args", "digest", "--authorizers", "4"},
	"excluded":   {"--args", "digest", "--authorizers", "4", "--match", "entitled/**"},
	"subscribed": {"--args", "digest", "--subscriber"},
	// as digest, with the history of subscribed: how much a log has taken tells in how it is written
	"unsubscribed": {"--args", "digest"},
	"rules-10":     {"--args", "digest", "--rules", "10"},
	"rules-1000":   {"--args", "digest", "--rules", "1000"},
	"rules-100000": {"--args", "digest", "--rules", "100000"},
}

const permitAnswer = `"effect":"PERMIT"`

func benchLoads() ([]load, error) {
	calls, err1 := authorizeBodies()
	clean, err2 := scanBodies(false)
	dirty, err3 := scanBodies(true)
	desk, err4 := deskBodies()
	const auth, scan = "/v1/authorize", "/v1/scan_output"
	loads := []load{
		{name: echoCalls, path: auth, bodies: calls, expect: `"agent_id":"support-`},
		{name: "govern-8x16", gateway: "digest", bodies: calls, expect: permitAnswer, depth: 16},
		{name: "govern-8x64", gateway: "digest", bodies: calls, expect: permitAnswer, depth: 64},
		{name: plainCalls, gateway: "digest", path: auth, bodies: calls, expect: permitAnswer},
		{name: "authorize-redacted", gateway: "redacted", path: auth, bodies: calls, expect: permitAnswer},
		{name: "redeem", gateway: "spend", path: auth, bodies: desk, expect: permitAnswer + `,"reason_code":"APPROVAL_CONSUMED"`, after: plainCalls, prepare: prepareRedeem},
		{name: "grant", gateway: "spend", path: auth, expect: permitAnswer + `,"reason_code":"STANDING_APPROVAL_CONSUMED"`, prepare: prepareGrants},
		{name: "authorize-quiet", gateway: "digest", path: auth, bodies: calls, expect: permitAnswer, share: quietShare, after: plainCalls},
		{name: "authorize-followed", gateway: "digest", path: auth, bodies: calls, expect: permitAnswer, share: quietShare, after: plainCalls, prepare: prepareAudience},
		{name: "authorize-plugin", gateway: "plugin", path: auth, bodies: calls, expect: permitAnswer},
		{name: "authorize-plugins", gateway: "plugins", path: auth, bodies: calls, expect: permitAnswer},
		{name: "authorize-excluded", gateway: "excluded", path: auth, bodies: calls, expect: permitAnswer},
		{name: "authorize-unsubscribed", gateway: "unsubscribed", path: auth, bodies: calls, expect: permitAnswer, share: quietShare, after: plainCalls},
		{name: "authorize-subscribed", gateway: "subscribed", path: auth, bodies: calls, expect: permitAnswer, share: quietShare, after: plainCalls},
		{name: "checks", work: startChecks, unit: "thousand/s", plugins: true},
		{name: echoScan, path: scan, bodies: clean, expect: `"output":"`},
		{name: "scan-clean", gateway: "digest", path: scan, bodies: clean, expect: `"outcome":"PASS"`},
		{name: "scan-dirty", gateway: "digest", path: scan, bodies: dirty, expect: `"outcome":"REDACTED"`},
		{name: "pass-5000", work: startPass},
		{name: "textbook-5000", work: startTextbook},
		{name: "sandbox-clean", work: startScan(false)},
		{name: "sandbox-dirty", work: startScan(true)},
	}
	err := errors.Join(err1, err2, err3, err4)
	for _, n := range []int{10, 1000, 100_000} {
		bodies, bad := ruledBodies(n)
		err = errors.Join(err, bad)
		name := fmt.Sprintf("rules-%d", n)
		loads = append(loads, load{name: name, gateway: name, path: auth, bodies: bodies,
			expect: permitAnswer + `,"reason_code":"RULE_PERMIT"`})
	}
	return loads, err
}

// prepareAudience lets subscribers follow the gateway while it is measured.
func prepareAudience(_ context.Context, _ *ratioRun, g *child, _ *drive) (func() string, error) {
	a, err := gather(g.socket, g.keys, idleSubscribers, stuckSubscribers)
	if err != nil {
		return nil, err
	}
	return a.leave, nil
}
