package ops_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// onePage is one answer of a list, its rows' ids and its cursor.
func onePage(t testing.TB, s *stage, key, op, list, id, cursor string, limit int) (ids []string, next string, size int) {
	t.Helper()
	query := [][2]string{}
	if limit > 0 {
		query = append(query, [2]string{"limit", fmt.Sprint(limit)})
	}
	if cursor != "" {
		query = append(query, [2]string{"cursor", cursor})
	}
	text, err := s.do(req{key: key, op: op, query: query})
	if err != nil {
		t.Fatal(err)
	}
	var doc exact.Doc
	if err := doc.Parse(text, exact.Limits{Depth: 64, Tokens: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	for row := range doc.Root().Get(list).Elements() {
		ids = append(ids, row.Get(id).Str())
	}
	return ids, doc.Root().Get("next_cursor").Str(), len(text)
}

func allPages(t testing.TB, s *stage, key, op, list, id string, limit int) map[string]int {
	t.Helper()
	seen := map[string]int{}
	for cursor, first := "", true; first || cursor != ""; first = false {
		var ids []string
		ids, cursor, _ = onePage(t, s, key, op, list, id, cursor, limit)
		for _, one := range ids {
			seen[one]++
		}
		if len(ids) == 0 && cursor != "" {
			t.Fatalf("%s: an empty page that is not the last", op)
		}
	}
	return seen
}

const large = 900 << 10

// 18 calls that are nearly as large as a call may be: the list is short, and each can be had whole.
func TestListsOfLargeCallsAreShort(t *testing.T) {
	s := newStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "approver")
	arg := strings.Repeat("x", large)
	for i := range 18 {
		if _, err := s.do(req{key: agent, op: "authorize", body: fmt.Sprintf(`{"agent_id":"a","tool_id":"defer","args":{"n":%d,"text":%q}}`, i, arg)}); err != nil {
			t.Fatal(err)
		}
	}
	tokens, next, size := onePage(t, s, boss, "approvals_list", "approvals", "defer_token", "", 0)
	if len(tokens) != 18 || next != "" || size > 1<<20 {
		t.Fatalf("%d calls in %d bytes, and more %q", len(tokens), size, next)
	}
	text, err := s.do(req{key: boss, op: "approvals_list"})
	if err != nil || !strings.Contains(text, `"call_omitted":["args"],"call_bytes":`) || !strings.Contains(text, `"tool_id":"defer"`) || strings.Contains(text, `"digest"`) {
		t.Errorf("%v %.500s", err, text)
	}
	for _, token := range tokens {
		text, err := s.do(req{key: boss, op: "approval_get", query: [][2]string{{"defer_token", token}}})
		if err != nil || !strings.Contains(text, arg) || strings.Contains(text, "call_omitted") || member(text, "digest") == "" || member(text, "defer_token") != token {
			t.Errorf("%v %.200s", err, text)
		}
	}
	s.refused(req{key: agent, op: "approval_get", query: [][2]string{{"defer_token", tokens[0]}}}, sdk.CodeMissingScope)
	s.refused(req{key: boss, op: "approval_get"}, sdk.CodeMissingField)
	s.refused(req{key: boss, op: "approval_get", query: [][2]string{{"defer_token", "dfr_none"}}}, sdk.CodeUnknownDefer)
	other := s.key("other", "approver", "somebody-else")
	s.refused(req{key: other, op: "approval_get", query: [][2]string{{"defer_token", tokens[0]}}}, sdk.CodeUnknownDefer)
}

// A page ends before it has read or shown too much, and the cursor leads to every call once, whatever is added meanwhile.
func TestPagesAreCompleteUnderInserts(t *testing.T) {
	s := newStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "approver")
	ask := func(i int) string {
		text, err := s.do(req{key: agent, op: "authorize", body: fmt.Sprintf(`{"agent_id":"a","tool_id":"defer","args":{"n":%d,"text":%q}}`, i, strings.Repeat("y", 12<<10))})
		if err != nil {
			t.Error(err)
		}
		return member(text, "defer_token")
	}
	before := map[string]bool{}
	for i := range 150 {
		before[ask(i)] = true
	}
	ids, next, size := onePage(t, s, boss, "approvals_list", "approvals", "defer_token", "", 1000)
	if len(ids) >= 150 || next == "" || size > 2<<20 {
		t.Errorf("a page of %d calls in %d bytes, cursor %q", len(ids), size, next)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 50 {
			ask(1000 + i)
		}
	})
	seen := allPages(t, s, boss, "approvals_list", "approvals", "defer_token", 7)
	wg.Wait()
	for token, n := range seen {
		if n != 1 {
			t.Errorf("%s was listed %d times", token, n)
		}
	}
	for token := range before {
		if seen[token] != 1 {
			t.Errorf("%s was listed %d times", token, seen[token])
		}
	}
	s.refused(req{key: boss, op: "approvals_list", query: [][2]string{{"cursor", "AAAA"}}}, sdk.CodeInvalidField)
	s.refused(req{key: boss, op: "approvals_list", query: [][2]string{{"cursor", next + "A"}}}, sdk.CodeInvalidField)
	s.refused(req{key: agent, op: "action_list", query: [][2]string{{"cursor", next}}}, sdk.CodeInvalidField) // of another list
}

func TestKillsHavePages(t *testing.T) {
	s := newStage(t)
	all := s.key("ops", "operator")
	for i := range 1030 {
		if _, err := s.do(req{key: all, op: "kill", body: fmt.Sprintf(`{"scope":"session","target":"s%d"}`, i)}); err != nil {
			t.Fatal(err)
		}
	}
	if seen := allPages(t, s, all, "kill_list", "kills", "target", 0); len(seen) != 1030 {
		t.Errorf("%d kills on all pages", len(seen))
	}
	if ids, next, _ := onePage(t, s, all, "kill_list", "kills", "target", "", 0); len(ids) != 1000 || next == "" {
		t.Errorf("%d kills on the first page", len(ids))
	}
}

// Where a page ends at a row that the key must not see, its cursor says nothing of it.
func TestCursorsSayNothing(t *testing.T) {
	s := newStage(t)
	theirs, ours := s.key("theirs", "agent", "theirs"), s.key("ours", "agent", "ours")
	for i := range 5 {
		for agent, key := range map[string]string{"theirs": theirs, "ours": ours} {
			s.action(req{key: key, op: "action_submit", body: fmt.Sprintf(`{"agent_id":%q,"tool":"permit","params":{"n":%d}}`, agent, i)})
		}
	}
	resp, err := s.svc.Run(opNamed(t, "action_list"), s.request(req{key: ours, op: "action_list", query: [][2]string{{"limit", "2"}}}))
	if err != nil {
		t.Fatal(err)
	}
	next := resp.(interface{ NextCursor() string }).NextCursor()
	if next == "" || strings.Contains(next, "act_") {
		t.Errorf("cursor %q", next)
	}
	seen := 0
	for cursor := ""; ; {
		query := [][2]string{{"limit", "2"}}
		if cursor != "" {
			query = append(query, [2]string{"cursor", cursor})
		}
		resp, err := s.svc.Run(opNamed(t, "action_list"), s.request(req{key: ours, op: "action_list", query: query}))
		if err != nil {
			t.Fatal(err)
		}
		seen += strings.Count(string(resp.AppendJSON(nil)), `"request_hash"`)
		if cursor = resp.(interface{ NextCursor() string }).NextCursor(); cursor == "" {
			break
		}
	}
	if seen != 5 {
		t.Errorf("%d actions on all pages, want 5", seen)
	}
}
