package ops_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// lateKill refuses what changes a kill as a disk that has stalled does, and keeps the command, which may still land.
type lateKill struct {
	ops.Store
	kept *store.KillSwitch
}

func (s *lateKill) Commit(ctx context.Context, cmd store.Command) error {
	if k, ok := cmd.(*store.KillSwitch); ok {
		s.kept = k
		return sdk.Errf(sdk.CodeAuditUnavailable, "the disk has stalled")
	}
	return s.Store.Commit(ctx, cmd)
}

// What a late command answers is about its own request, whoever's the memory is by then.
func TestLateKillAnswersForItsOwnRequest(t *testing.T) {
	st := &lateKill{}
	b := newBench(t, func(s ops.Store) ops.Store { st.Store = s; return st })
	in := &wire.KillRequest{Scope: "session", Target: "s", Undo: true}
	if _, err := b.svc.Kill(context.Background(), admin, in); code(err) != string(sdk.CodeAuditUnavailable) {
		t.Fatal(err)
	}
	*in = wire.KillRequest{}
	if got := string(st.kept.Answer(store.Kill{Scope: "session", Target: "s"}, 0)); !strings.Contains(got,
		`"active":false`) {
		t.Errorf("the answer to an undo: %s", got)
	}
}

// A key that answers for some agents must not learn from the list of kills whom the operator has besides.
func TestKillListNamesOnlyWhatTheKeyMaySee(t *testing.T) {
	b := newBench(t, nil)
	all := b.keyWith("all", nil, "kill")
	star := b.keyWith("star", []string{"*"}, "kill")
	ours := b.keyWith("ours", []string{"ours/*"}, "kill", "audit")
	theirs := b.keyWith("theirs", []string{"theirs/*"}, "kill")
	for _, body := range []string{`{"scope":"agent","target":"ours/a"}`, `{"scope":"agent","target":"ours/**"}`,
		`{"scope":"agent","target":"theirs/a"}`, `{"scope":"agent","target":"*/b"}`,
		`{"scope":"session","target":"their session"}`, `{"scope":"tool","target":"their-tool"}`,
		`{"scope":"key","target":"` + theirs.Key.ID + `"}`, `{"scope":"key","target":"` + ours.Key.ID + `"}`} {
		if _, err := b.run(all.Value, "kill", body); err != nil {
			t.Fatal(body, err)
		}
	}
	targets := func(value string) string {
		answer, err := b.run(value, "kill_list", `{}`)
		if err != nil {
			t.Fatal(err)
		}
		var doc exact.Doc
		if err := doc.Parse(answer, exact.DefaultLimits); err != nil {
			t.Fatal(err)
		}
		var out []string
		for k := range doc.Root().Get("kills").Elements() {
			out = append(out, k.Get("target").Str())
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	whole := []string{"*/b", "ours/**", "ours/a", "their session", "their-tool", "theirs/a", ours.Key.ID, theirs.Key.ID}
	slices.Sort(whole)
	some := []string{"*/b", "ours/**", "ours/a", ours.Key.ID}
	slices.Sort(some)
	for value, want := range map[string][]string{all.Value: whole, star.Value: whole, ours.Value: some} {
		if got := targets(value); got != strings.Join(want, " ") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
