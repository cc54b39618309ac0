//go:build linux

package bench

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// The requests that the benchmark sends. They come from a generator with a fixed seed, so that two runs send the same
// bytes: calls of the shapes that agents make, about 600 bytes at the median, and outputs of 4 KiB.

// benchBodies is how many different requests there are of each sort; they are sent in turn.
const benchBodies = 512

// scanBytes is the length of the scanned outputs, bytes.
const scanBytes = 4 << 10

var benchTools = []string{"files/read", "files/list", "db/query", "web/search", "web/fetch", "mail/read", "mail/draft",
	"calendar/list", "tickets/get",
	"tickets/comment", "orders/get", "orders/search", "flights/search", "reservations/get", "users/get", "notes/append",
	"code/search", "code/review", "build/status", "metrics/query"}

var benchWords = strings.Fields(`the order was placed on friday and has not been shipped yet because one item is out of stock so the customer would like to
change the address before it leaves our warehouse in the north please check whether this is still possible and tell them what it costs if
there are other open orders for the same person list them with their state and the day when they are due to arrive service report month team
summary of changes since the last release includes fixes for paging sorting and the search index returned an empty page for long names`)

type bodyMaker struct{ r *rand.Rand }

func newBodyMaker(seed uint64) *bodyMaker { return &bodyMaker{rand.New(rand.NewPCG(seed, 2))} }

func pick[T any](m *bodyMaker, from []T) T { return from[m.r.IntN(len(from))] }

// prose is words up to about n bytes.
func (m *bodyMaker) prose(n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(pick(m, benchWords))
		b.WriteByte(" \n "[m.r.IntN(12)/5])
	}
	return b.String()
}

// call is one request of /v1/authorize.
func (m *bodyMaker) call(i int) map[string]any {
	args := map[string]any{
		"path":   fmt.Sprintf("/srv/team-%d/%s/%s.md", m.r.IntN(40), pick(m, benchWords), pick(m, benchWords)),
		"limit":  10 * (1 + m.r.IntN(20)),
		"amount": json.Number(fmt.Sprintf("%d.%02d", m.r.IntN(900), m.r.IntN(100))),
		"filter": map[string]any{"state": pick(m, benchWords), "archived": m.r.IntN(2) == 0,
			"tags": []string{pick(m, benchWords), pick(m, benchWords)}}, "text": m.prose(190 + int(m.r.ExpFloat64()*150)),
	}
	if m.r.IntN(3) == 0 {
		args["ids"] = []int{m.r.IntN(1e6), m.r.IntN(1e6), m.r.IntN(1e6)}
	}
	return map[string]any{"agent_id": fmt.Sprintf("support-%d", i%32), "session_id": fmt.Sprintf("session-%06d", i%128),
		"tool_id": pick(m, benchTools), "args": args,
		"context": map[string]any{"user": fmt.Sprintf("u-%05d", m.r.IntN(1e5)),
			"channel": pick(m, []string{"chat", "mail", "phone"}), "turn": m.r.IntN(30)}}
}

// output is one text of scanBytes: prose, log lines and code. A dirty one holds one token-shaped string.
func (m *bodyMaker) output(dirty bool) string {
	var b strings.Builder
	for b.Len() < scanBytes {
		switch m.r.IntN(3) {
		case 0:
			fmt.Fprintf(&b, "2026-03-%02d 10:%02d:%02d info  worker %d: %s\n", 1+m.r.IntN(28), m.r.IntN(60), m.r.IntN(60),
				m.r.IntN(16), m.prose(50))
		case 1:
			fmt.Fprintf(&b, "func %s(n int) int {\n\tif n > %d {\n\t\treturn n * %d\n\t}\n\treturn 0\n}\n", pick(m, benchWords),
				m.r.IntN(100), m.r.IntN(9))
		default:
			b.WriteString(m.prose(300) + "\n")
		}
	}
	text := b.String()[:scanBytes]
	if dirty {
		at := strings.IndexByte(text[scanBytes/2:], '\n') + scanBytes/2 + 1
		text = text[:at] + "export GITHUB_TOKEN=" + m.token() + "\n" + text[at:]
	}
	return text
}

// plain is a text of about scanBytes in which no scanner finds anything to look at: prose and code without dates.
func (m *bodyMaker) plain() string {
	var b strings.Builder
	for b.Len() < scanBytes {
		if m.r.IntN(2) == 0 {
			fmt.Fprintf(&b, "func %s(n int) int {\n\tif n > %d {\n\t\treturn n * %d\n\t}\n\treturn 0\n}\n", pick(m, benchWords),
				m.r.IntN(100), m.r.IntN(9))
		} else {
			b.WriteString(m.prose(300) + "\n")
		}
	}
	return b.String()
}

// token is shaped like a GitHub token and is none.
func (m *bodyMaker) token() string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	var b strings.Builder
	b.WriteString("gh" + "p_")
	for range 36 {
		b.WriteByte(letters[m.r.IntN(len(letters))])
	}
	return b.String()
}

// authorizeBodies are the bodies for /v1/authorize.
func authorizeBodies() ([][]byte, error) {
	m := newBodyMaker(1)
	return m.encode(func(i int) any { return m.call(i) })
}

// scanBodies are the bodies for /v1/scan_output.
func scanBodies(dirty bool) ([][]byte, error) {
	m := newBodyMaker(3)
	return m.encode(func(i int) any {
		return map[string]any{"agent_id": fmt.Sprintf("support-%d", i%32), "tool_id": pick(m, benchTools),
			"output": m.output(dirty)}
	})
}

func (m *bodyMaker) encode(body func(i int) any) ([][]byte, error) {
	out := make([][]byte, benchBodies)
	for i := range out {
		var err error
		if out[i], err = json.Marshal(body(i)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// deskBodies are calls that a rule defers. No two requests made of them are the same call.
func deskBodies() ([][]byte, error) {
	m := newBodyMaker(5)
	return m.encode(func(i int) any { return m.deskCall(i, numberMark) })
}

// grantBodies are calls that a rule defers, of so many agents in turn.
func grantBodies(agents int) ([][]byte, error) {
	m := newBodyMaker(5)
	return m.encode(func(i int) any {
		call := m.deskCall(i, "A-17")
		call["agent_id"] = holder(i % agents)
		return call
	})
}

func (m *bodyMaker) deskCall(i int, order string) map[string]any {
	call := m.call(i)
	call["tool_id"] = pick(m, []string{"desk/refund", "desk/cancel", "desk/upgrade"})
	call["args"].(map[string]any)["order"] = order
	return call
}

// ruledBodies are calls each of which one of ruledRules(n) permits; together they use rules from all over the list.
func ruledBodies(n int) ([][]byte, error) {
	m := newBodyMaker(1)
	return m.encode(func(i int) any {
		rule := i % n
		if n > benchBodies {
			rule = i * n / benchBodies
		}
		call := m.call(i)
		call["tool_id"] = fmt.Sprintf("service-%06d/run", rule)
		return call
	})
}

// ruledRules is a rules file of n rules, each for the tools of one service.
func ruledRules(n int) string {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - {id: service-%d, tools: [\"service-%06d/*\"], effect: permit}\n", i, i)
	}
	return b.String()
}

// benchRules is a rules file of 100 rules that permits what authorizeBodies asks: 68 for other tools, 30 for these
// tools whose conditions are evaluated and do not hold, one that defers what deskBodies ask, and one that permits the
// rest.
func benchRules() string {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range 68 {
		fmt.Fprintf(&b, "  - {id: other-%d, tools: [\"service-%d/**\", \"legacy/%d/*\"], effect: deny}\n", i, i, i)
	}
	for i := range 30 {
		fmt.Fprintf(&b, "  - {id: limit-%d, tools: [%q], when: 'args.limit > %d && args.amount > 5000', effect: deny}\n", i,
			benchTools[i%len(benchTools)], 1000+i)
	}
	b.WriteString("  - {id: desk, tools: [\"desk/*\"], effect: defer}\n")
	b.WriteString("  - {id: rest, tools: [\"*/*\"], effect: permit}\n")
	return b.String()
}

// benchConfig is the throw-away gateway's configuration.
func benchConfig(args string) string {
	return `version: 1
audit: {args: ` + args + `}
defers: {ttl: 30m, approved_ttl: 30m}
limits: {pending_per_key: ` + strconv.Itoa(2*approvalBatch) + `, streams_per_key: ` + strconv.Itoa(streamsPerKey) + `}
plugins:
  secrets: {kind: scanner, builtin: secrets, limits: {timeout: 10s}}
chains:
  authorize: {budget: 10s, steps: [{name: rules, rules: [rules.yaml]}]}
  scan_output:
    budget: 10s
    steps: [{use: secrets}]
    actions:
      - {kinds: ["SECRET_*"], action: redact, replacement: "[{kind}]"}
      - {action: flag}
`
}
