package ops_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// onePage is one answer of a list, its rows' ids and its cursor.
func onePage(t testing.TB, s *stage, key, op, list, id, cursor string, limit int) (ids []string, next string,
	size int) {
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
	testkit.Long(t, "calls of many megabytes")
	s := newStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "approver")
	arg := strings.Repeat("x", large)
	for i := range 18 {
		if _, err := s.do(req{key: agent, op: "authorize",
			body: fmt.Sprintf(`{"agent_id":"a","tool_id":"defer","args":{"n":%d,"text":%q}}`, i, arg)}); err != nil {
			t.Fatal(err)
		}
	}
	var tokens []string
	for cursor, first := "", true; first || cursor != ""; first = false {
		page, next, size := onePage(t, s, boss, "approvals_list", "approvals", "defer_token", cursor, 0)
		if len(page) == 0 || len(page) > 5 || size > 1<<20 {
			t.Fatalf("%d calls in %d bytes: a page reads 4 MiB of them", len(page), size)
		}
		tokens, cursor = append(tokens, page...), next
	}
	if len(tokens) != 18 {
		t.Fatalf("%d calls on all pages, want 18", len(tokens))
	}
	text, err := s.do(req{key: boss, op: "approvals_list"})
	if err != nil || !strings.Contains(text, `"call_omitted":["args"],"call_bytes":`) ||
		!strings.Contains(text, `"tool_id":"defer"`) || strings.Contains(text, `"digest"`) {
		t.Errorf("%v %.500s", err, text)
	}
	for _, token := range tokens {
		text, err := s.do(req{key: boss, op: "approval_get", query: [][2]string{{"defer_token", token}}})
		if err != nil || !strings.Contains(text, arg) || strings.Contains(text, "call_omitted") ||
			member(text, "digest") == "" || member(text, "defer_token") != token {
			t.Errorf("%v %.200s", err, text)
		}
	}
	s.refused(req{key: agent, op: "approval_get", query: [][2]string{{"defer_token", tokens[0]}}}, sdk.CodeMissingScope)
	s.refused(req{key: boss, op: "approval_get"}, sdk.CodeMissingField)
	s.refused(req{key: boss, op: "approval_get", query: [][2]string{{"defer_token", "dfr_none"}}}, sdk.CodeUnknownDefer)
	other := s.key("other", "approver", "somebody-else")
	s.refused(req{key: other, op: "approval_get", query: [][2]string{{"defer_token", tokens[0]}}}, sdk.CodeUnknownDefer)
}

// A page ends before it has read or shown too much, and the cursor leads to every call once, whatever is added
// meanwhile.
func TestPagesAreCompleteUnderInserts(t *testing.T) {
	s := newStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "approver")
	ask := func(i int) string {
		text, err := s.do(req{key: agent, op: "authorize",
			body: fmt.Sprintf(`{"agent_id":"a","tool_id":"defer","args":{"n":%d,"text":%q}}`, i, strings.Repeat("y", 12<<10))})
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
	// of another list
	s.refused(req{key: agent, op: "action_list", query: [][2]string{{"cursor", next}}}, sdk.CodeInvalidField)
}

func TestKillsHavePages(t *testing.T) {
	testkit.Long(t, "a thousand kills")
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

// elsewhere is a store whose lists of actions end where they are told to, and which keeps where the next is asked to go
// on.
type elsewhere struct {
	ops.Store
	next, before string
}

func (s *elsewhere) Actions(_ context.Context, q *store.ActionQuery) ([]*store.ActionRow, string, error) {
	s.before = q.Before
	return nil, s.next, nil
}

// Where a page ends at a row that the key must not see, its cursor says nothing of it, and leads on from there.
func TestCursorsSayNothing(t *testing.T) {
	st := &elsewhere{next: "act_01K9ZZZZZZZZZZZZZZZZZZZZZZ"}
	b := newBench(t, func(s ops.Store) ops.Store { st.Store = s; return st })
	ours := b.keyWith("ours", []string{"ours"}, "authorize").Value
	key, err := b.svc.KeyOf(ours)
	if err != nil {
		t.Fatal(err)
	}
	var none exact.Doc
	if err := none.Parse("{}", exact.DefaultLimits); err != nil {
		t.Fatal(err)
	}
	page := func(cursor string) (ops.Response, error) {
		r := &ops.Request{Ctx: context.Background(), Key: key, Start: b.now(), Body: none.Root()}
		if cursor != "" {
			r.Params = []wire.Param{{Name: "cursor", Value: cursor}}
		}
		return b.svc.Run(opNamed(t, "action_list"), r)
	}
	list := func(cursor string) string {
		t.Helper()
		resp, err := page(cursor)
		if err != nil {
			t.Fatal(err)
		}
		return resp.(interface{ NextCursor() string }).NextCursor()
	}
	next := list("")
	raw, err := base64.RawURLEncoding.DecodeString(next)
	if err != nil || len(raw) == 0 {
		t.Fatalf("cursor %q: %v", next, err)
	}
	for _, text := range []string{next, string(raw)} {
		for i := range len(st.next) - 4 {
			if strings.Contains(text, st.next[i:i+5]) {
				t.Errorf("cursor %q holds %q of the place where it stands", text, st.next[i:i+5])
			}
		}
	}
	if list(next); st.before != st.next {
		t.Errorf("the next page goes on from %q, want %q", st.before, st.next)
	}
	for i := range raw {
		changed := slices.Clone(raw)
		changed[i] ^= 1
		if _, err := page(base64.RawURLEncoding.EncodeToString(changed)); code(err) != string(sdk.CodeInvalidField) {
			t.Errorf("a cursor with another byte %d: %v", i, err)
		}
	}
}

// Pages of a list with rows in between that the key must not see are complete.
func TestPagesSkipWhatTheKeyMustNotSee(t *testing.T) {
	s := newStage(t)
	theirs, ours := s.key("theirs", "agent", "theirs"), s.key("ours", "agent", "ours")
	for i := range 5 {
		for _, one := range []struct{ agent, key string }{{"ours", ours}, {"theirs", theirs}} {
			s.action(req{key: one.key, op: "action_submit",
				body: fmt.Sprintf(`{"agent_id":%q,"tool":"permit","params":{"n":%d}}`, one.agent, i)})
		}
	}
	seen := map[string]int{}
	for cursor, first := "", true; first || cursor != ""; first = false {
		query := [][2]string{{"limit", "2"}}
		if cursor != "" {
			query = append(query, [2]string{"cursor", cursor})
		}
		resp, err := s.svc.Run(opNamed(t, "action_list"), s.request(req{key: ours, op: "action_list", query: query}))
		if err != nil {
			t.Fatal(err)
		}
		list := resp.(*wire.ActionListResponse)
		for i := range list.Actions {
			seen[list.Actions[i].ID]++
		}
		cursor = list.NextCursor()
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s was listed %d times", id, n)
		}
	}
	if len(seen) != 5 {
		t.Errorf("%d actions on all pages, want 5", len(seen))
	}
}
