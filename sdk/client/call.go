package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"time"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// again says when an operation may be sent a second time although the first may have been seen.
type again uint8

const (
	always again = iota // reads, scans and kills: a repeat changes nothing more; decisions carry a call_id
	// over HTTP, where an Idempotency-Key makes it safe; over the socket only what was certainly not seen
	withKey
)

// operation is where one operation is served. An empty path or name says that this transport does not have it.
type operation struct {
	name         string // as errors say it
	method, path string // of HTTP; {id} stands for one segment
	socket       string
	again        again
}

// The operations, and where they are served.
var (
	opAuthorize   = operation{"authorize", "POST", "/v1/authorize", "govern", always}
	opScan        = operation{"scan_output", "POST", "/v1/scan_output", "scan_output", always}
	opApprove     = operation{"approve", "POST", "/v1/approve", "approve_defer", withKey}
	opDeferStatus = operation{"defer status", "POST", "/v1/defer/status", "poll_defer", always}
	opApprovals   = operation{"approvals", "GET", "/v1/approvals", "", always}
	opApproval    = operation{"approval", "GET", "/v1/approvals/call", "approval_get", always}
	opGrantAdd    = operation{"grant add", "POST", "/v1/grants", "standing_grant_add", withKey}
	opGrantRevoke = operation{"grant revoke", "POST", "/v1/grants/revoke", "standing_grant_revoke", withKey}
	opGrantList   = operation{"grant list", "GET", "/v1/grants", "standing_grant_list", always}
	opKill        = operation{"kill", "POST", "/v1/kill", "kill", always}
	opUnkill      = operation{"unkill", "POST", "/v1/kill", "kill", withKey}
	opKillList    = operation{"kill list", "GET", "/v1/kill", "", always}
	opSubmit      = operation{"submit action", "POST", "/v1/actions", "", withKey}
	opGetAction   = operation{"get action", "GET", "/v1/actions/{id}", "", always}
	opListActions = operation{"list actions", "GET", "/v1/actions", "", always}
	opStart       = operation{"start action", "POST", "/v1/actions/{id}/start", "", withKey}
	opResult      = operation{"result of action", "POST", "/v1/actions/{id}/result", "", withKey}
	opAnswer      = operation{"action approval", "POST", "/v1/actions/{id}/approval", "", withKey}
	opReveal      = operation{"reveal", "POST", "/v1/reveal", "", always}
	opWhoami      = operation{"whoami", "GET", "/v1/whoami", "", always}
	opEvents      = operation{"events of action", "GET", "/v1/actions/{id}/events", "", always}
	opGate        = operation{"gate decide", "POST", "/v1/gate/decide", "", withKey}
)

// request is one logical call.
type request struct {
	op    operation
	id    string     // for {id} in the path
	query url.Values // of a GET over HTTP
	body  []byte     // a JSON object; nil for none
	wait  time.Duration
	list  bool // the answer is an array
	once  bool // redeems an approval: not sent again once it may have been seen
}

// reply is one answer that is no error.
type reply struct {
	root   exact.Value
	status int
	header func(name string) string // of HTTP; "" always over the socket
	again  bool                     // an attempt before this one may have been seen, and its answer was lost
}

// do makes one logical call: as many attempts as are safe and help, within ctx and Options.
func (c *Client) do(ctx context.Context, r *request) (*reply, error) {
	send, keyed, err := c.transport(r)
	if err != nil {
		return nil, err
	}
	idempotency := ""
	if keyed && r.op.again == withKey {
		idempotency = newID("idem_")
	}
	deadline := time.Now().Add(c.opts.RetryFor + r.wait)
	for n := 0; ; n++ {
		if c.closed.Load() {
			return nil, ErrClosed
		}
		rep, err := c.attempt(ctx, r, send, idempotency)
		if err == nil {
			rep.again = n > 0
			return rep, nil
		}
		err = fmt.Errorf("%s: %w", r.op.name, err)
		if ctx.Err() != nil {
			return nil, joined(ctx, err)
		}
		sure := r.op.again == always && !r.once || idempotency != "" || unseen(err)
		if n >= c.opts.Retries || !sure || !retryable(err) {
			return nil, err
		}
		wait := backoff(n, retryAfter(err))
		if time.Now().Add(wait).After(deadline) {
			return nil, err
		}
		if !c.pause(ctx, wait) {
			return nil, joined(ctx, err)
		}
	}
}

// joined says that the context ended, and what had gone wrong until then.
func joined(ctx context.Context, err error) error {
	if errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("%w; before that: %w", context.Cause(ctx), err)
}

type sender func(ctx context.Context, r *request, idempotency string) (*reply, error)

func (c *Client) attempt(ctx context.Context, r *request, send sender, idempotency string) (*reply, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout+r.wait)
	defer cancel()
	return send(ctx, r, idempotency)
}

// transport picks HTTP where it is configured and has the operation, else the socket.
func (c *Client) transport(r *request) (send sender, keyed bool, err error) {
	switch {
	case c.closed.Load():
		return nil, false, ErrClosed
	case c.http != nil && r.op.path != "":
		if c.opts.Key == "" {
			return nil, false, &Error{Code: sdk.CodeUnauthenticated,
				Detail: "there is no API key: set Options.Key or YETT_API_KEY"}
		}
		return c.http.send, true, nil
	case c.socket != nil && r.op.socket != "":
		return c.socket.send, false, nil
	case r.op.path != "":
		return nil, false, &TransportError{Op: r.op.name, Needs: "URL"}
	}
	return nil, false, &TransportError{Op: r.op.name, Needs: "Socket"}
}

// pauser waits, and reports false when ctx ended first.
type pauser func(ctx context.Context, d time.Duration) bool

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// backoff is how long to wait before attempt n+2: doubling from 100 ms to 5 s, each wait drawn from the upper half, and
// never less than the server asked for.
func backoff(n int, asked time.Duration) time.Duration {
	top := min(100*time.Millisecond<<min(n, 10), 5*time.Second)
	return max(top/2+rand.N(top/2), asked)
}

func retryAfter(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// pathOf puts the id in its place. An id that could be read as another path is refused.
func pathOf(path, id string) (string, error) {
	if !strings.Contains(path, "{id}") {
		return path, nil
	}
	if id == "" || id == "." || id == ".." || strings.ContainsAny(id, "/?#%\\") {
		return "", fieldErr(sdk.CodeInvalidField, "id", "want the whole id of an action")
	}
	return strings.Replace(path, "{id}", url.PathEscape(id), 1), nil
}
