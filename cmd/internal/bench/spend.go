//go:build linux

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// What has to be there before approvals are redeemed and grants are spent: calls that were deferred and approved, each
// of them another one, and standing grants.

const (
	approvalBatch = 8192    // calls that wait for their approval at once
	mostApprovals = 120_000 // for one run, which ends early when they are spent
	approvalTime  = 5 * time.Minute
	approvalSpare = 1.1 // how many more approvals there are than the rate of plain calls asks for
)

// bearer is the header that names a key.
func bearer(key string) string { return "Authorization: Bearer " + key + "\r\n" }

// prepareRedeem makes as many approved calls as can be redeemed in the time. The run ends early if they do not suffice.
func prepareRedeem(ctx context.Context, r *ratioRun, g *child, d *drive) (func() string, error) {
	d.warm = r.seconds / 10 // preparing has warmed the gateway up
	rate := r.rates[rateKey{plainCalls, d.conns}]
	n := min(max(int(rate*approvalSpare*(d.warm+d.duration).Seconds()), 4*d.conns), mostApprovals)
	tokens, err := approved(ctx, g, d.bodies, d.conns, r.redeemed, n)
	if err != nil {
		return nil, fmt.Errorf("prepare approvals: %w", err)
	}
	d.first, d.limit, d.tokens = r.redeemed, n, tokens
	d.bodies = withToken(d.bodies, len(tokens[0]))
	r.redeemed += n
	return nil, g.calm(ctx)
}

// approved asks for calls that a rule defers, with the numbers from first on, and approves them. It gives their tokens.
func approved(ctx context.Context, g *child, bodies [][]byte, conns, first, n int) ([]string, error) {
	tokens := make([]string, 0, n)
	for len(tokens) < n {
		done := len(tokens)
		k := min(approvalBatch, n-done)
		tokens = tokens[:done+k]
		ask := &drive{addr: g.addr, path: "/v1/authorize", headers: bearer(g.keys.Agent), bodies: bodies,
			expect: `"effect":"DEFER"`, conns: conns, duration: approvalTime,
			first: first + done, limit: k, answer: func(n int, answer []byte) error {
				token, err := tokenOf(answer)
				tokens[n-first] = token
				return err
			}}
		if err := ask.all(ctx); err != nil {
			return nil, fmt.Errorf("defer: %w", err)
		}
		batch := tokens[done:]
		for _, t := range batch {
			if len(t) != len(tokens[0]) {
				return nil, fmt.Errorf("tokens of %d and %d bytes: requests are made for one length", len(t), len(tokens[0]))
			}
		}
		approve := &drive{addr: g.addr, path: "/v1/approve", headers: bearer(g.keys.Approver),
			bodies: withToken([][]byte{[]byte(`{"approved":true}`)}, len(tokens[0])),
			expect: `"status":"approved"`, conns: conns, duration: approvalTime, first: first + done, limit: k, tokens: batch}
		if err := approve.all(ctx); err != nil {
			return nil, fmt.Errorf("approve: %w", err)
		}
	}
	return tokens, nil
}

// all runs a drive with a limit and wants every answer to be good.
func (d *drive) all(ctx context.Context) error {
	out, err := d.run(ctx)
	switch {
	case err != nil:
		return err
	case out.bad > 0:
		return fmt.Errorf("%d of %d answers were wrong, the first: %s", out.bad, d.limit, out.firstBad)
	case out.all != d.limit:
		return fmt.Errorf("%d of %d answers in %s", out.all, d.limit, d.duration)
	}
	return nil
}

// tokenOf is the defer token in an answer.
func tokenOf(answer []byte) (string, error) {
	_, after, found := bytes.Cut(answer, []byte(`"defer_token":"`))
	token, _, closed := bytes.Cut(after, []byte{'"'})
	if !found || !closed || len(token) < len(tokenMark) {
		return "", fmt.Errorf("a deferred call without a token: %q", excerpt(answer))
	}
	return string(token), nil
}

// withToken puts room for a token of so many bytes into bodies.
func withToken(bodies [][]byte, length int) [][]byte {
	out := slices.Clone(bodies)
	for i, b := range bodies {
		out[i] = append(fmt.Appendf(nil, `{"defer_token":"%s",`, strings.Repeat(tokenMark[:1], length)), b[1:]...)
	}
	return out
}

// prepareGrants gives every connection's agent a standing grant without a limit of uses; once for a gateway.
func prepareGrants(ctx context.Context, r *ratioRun, g *child, d *drive) (_ func() string, err error) {
	for ; r.granted < d.conns; r.granted++ {
		if err := addGrant(ctx, g, holder(r.granted)); err != nil {
			return nil, fmt.Errorf("prepare grants: %w", err)
		}
	}
	d.bodies, err = grantBodies(d.conns)
	return nil, err
}

// holder is the agent of a connection that spends grants.
func holder(i int) string { return fmt.Sprintf("holder-%d", i) }

func addGrant(ctx context.Context, g *child, agent string) error {
	body, err := json.Marshal(map[string]any{"agent_id": agent, "tool_pattern": "desk/*", "ttl_seconds": 24 * 60 * 60})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+g.addr+"/v1/grants", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+g.keys.Operator)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d, %v: %q", resp.StatusCode, err, excerpt(text))
	}
	return nil
}
