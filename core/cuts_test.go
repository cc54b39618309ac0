package core

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/core/wasm/host"
	"github.com/yett-dev/yett/scanners"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// What TestBuiltinCuts does to a text.
const (
	cutTexts = 1000 // with YETT_FULL; a third of them with YETT_SLOW
	cutsIn2  = 64
	cutsIn   = 20 // into many pieces
)

// remembered is a scanner that is asked once about a window: most cuts of a short text end with a look at all of it.
// Without a memory in the context it is asked each time.
type remembered struct{ chain.PieceScanner }

type memoryKey struct{}

// window is all that a scanner sees, and verdict what it says.
type window struct {
	scanner, text       string
	stream, first, last bool
}

type verdict struct {
	found []sdk.Finding
	err   error
}

func (r remembered) once(ctx context.Context, w window, ask func() ([]sdk.Finding, error)) ([]sdk.Finding, error) {
	memory, _ := ctx.Value(memoryKey{}).(map[window]verdict)
	said, known := memory[w]
	if !known {
		said.found, said.err = ask()
		if memory != nil {
			memory[w] = said
		}
	}
	return slices.Clone(said.found), said.err // the chain moves what it gets
}

func (r remembered) Scan(ctx context.Context, in *chain.Input) ([]sdk.Finding, error) {
	return r.once(ctx, window{scanner: r.About().Digest, text: in.Text}, func() ([]sdk.Finding, error) {
		return r.PieceScanner.Scan(ctx, in)
	})
}

func (r remembered) ScanPiece(ctx context.Context, w *chain.Window) ([]sdk.Finding, []byte, error) {
	found, err := r.once(ctx, window{r.About().Digest, w.Text, true, w.First, w.Last}, func() ([]sdk.Finding, error) {
		found, state, err := r.PieceScanner.ScanPiece(ctx, w)
		if err == nil && len(state) > 0 {
			err = fmt.Errorf("a state of %d bytes, and none is remembered", len(state))
		}
		return found, err
	})
	return found, nil, err
}

// cutting is the built-in scanners in chains with the replacements that there are.
type cutting struct {
	chains []*chain.ScanChain
	parts  *textParts

	ran, skipped                 atomic.Int64 // texts
	streams, early, tokens, json atomic.Int64 // early ones release something before their end
	found                        [3]atomic.Int64
}

var cutNames = []string{"secrets", "pii", "injection"}

// cutActions are the operators' wishes: what stands in for secrets, for personal data and for injections. "" is the
// kind, "flag" leaves the value where it is.
var cutActions = [][3]string{{"", "", ""}, {"[{kind} {mask}]", "<{format}>", ""},
	{"{token}", "[{kind} {mask}]", "flag"},
	{"{format}", "{token}", "\"\n#"}, {"{token}", "{token}", "{token}"}, {"flag", "{format}", "[{mask}]"}}

func newCutting(t *testing.T) *cutting {
	ctx := context.Background()
	h, err := host.New(ctx, host.Options{CacheDir: compiled})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	steps := map[string]chain.ScanStep{}
	for _, name := range cutNames {
		code, ok := scanners.Builtin(name)
		m, err := h.Load(ctx, host.Spec{Name: name, Code: code, Instances: 2, Isolation: host.Pooled,
			Timeout: 30 * time.Second})
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		if m.Metadata().Stream.Mode != abi.StreamWindow {
			t.Fatalf("%s takes streams as %s", name, m.Metadata().Stream.Mode)
		}
		steps[name] = chain.ScanStep{Name: name, OnError: sdk.Deny, Builtin: true, Scanner: remembered{m},
			Triggers: m.Triggers(), Kinds: m.Metadata().Kinds, Stream: m.Metadata().Stream}
	}
	u := &cutting{}
	for i, with := range cutActions {
		c := &chain.ScanChain{Budget: time.Minute, Now: time.Now}
		for k, name := range cutNames {
			s := steps[name]
			s.Shadow = i == len(cutActions)-1 && name == "injection"
			c.Steps = append(c.Steps, s)
			rule := chain.ActionRule{Scanners: []string{name}, Action: sdk.Redact, Replacement: with[k]}
			if with[k] == "flag" {
				rule.Action, rule.Replacement = sdk.Flag, ""
			}
			c.Actions = append(c.Actions, rule)
		}
		if i%2 == 1 { // personal data alone is released a few hundred bytes behind what comes
			c.Steps = append(c.Steps[1:2:2], c.Steps[0], c.Steps[2])
		}
		u.chains = append(u.chains, c)
	}
	u.chains = append(u.chains, &chain.ScanChain{Budget: time.Minute, Now: time.Now,
		Steps: []chain.ScanStep{steps["pii"]}, Actions: []chain.ActionRule{{Action: sdk.Redact, Replacement: "{token}"}}})
	for _, c := range u.chains {
		if err := c.Prepare(); err != nil {
			t.Fatal(err)
		}
	}
	u.parts = scannerParts(t, func(scanner, text string) []int {
		s := steps[scanner]
		return startsIn(t, &s, text)
	})
	return u
}

// cutCase is one text, and how it is scanned. A seed gives the same one again.
type cutCase struct {
	u     *cutting
	seed  int
	rng   *rand.Rand
	ctx   context.Context
	chain *chain.ScanChain
	in    chain.Input
	want  chain.ScanResult
}

// newCase makes the text of a seed: one in eight is longer than what the scanners look back, and there what is found is
// rare, so that they need not read all of it. Half of the texts are JSON. One in four has rows of the labelled sets.
func (u *cutting) newCase(seed int) *cutCase {
	c := &cutCase{u: u, seed: seed, rng: rand.New(rand.NewPCG(uint64(seed), 17)), ctx: context.Background()}
	if seed%10 != 2 { // the others ask the scanners each time
		c.ctx = context.WithValue(c.ctx, memoryKey{}, map[window]verdict{})
	}
	size, every, text := 200+c.rng.IntN(3800), 1+c.rng.IntN(20), u.parts.plain
	if seed%8 == 0 {
		size, every = 26<<10+c.rng.IntN(20<<10), 1
	}
	if seed%8 > 3 || seed%24 == 0 {
		text = u.parts.document
	}
	c.chain = u.chains[c.rng.IntN(len(u.chains))]
	c.in = chain.Input{Text: text(c.rng, size, every, seed%4 == 3), ToolID: "files/read", AgentID: "a",
		ContentType: []string{"", "text/plain", "application/json"}[c.rng.IntN(3)],
		MaskKey:     func() []byte { return []byte("one session's masks") },
		TokenKey:    func() []byte { return []byte("one session's tokens") }}
	return c
}

// scanWhole is the one scan that all cuts are compared with. ok is false when a scanner has folded what it found: how
// depends on where its window ends.
func (c *cutCase) scanWhole() (ok bool) {
	c.want = c.chain.Run(c.ctx, &c.in)
	count := map[string]int{}
	for _, f := range append(slices.Clone(c.want.Findings), c.want.Shadow...) {
		count[f.Scanner]++
	}
	for i, name := range cutNames {
		if count[name] >= abi.MaxFindings {
			return false
		}
		c.u.found[i].Add(int64(count[name]))
	}
	c.u.tokens.Add(int64(strings.Count(c.want.Text, "#")))
	if c.want.Outcome == chain.Redacted && strings.IndexByte("[{", strings.TrimSpace(c.in.Text)[0]) >= 0 {
		c.u.json.Add(1)
	}
	return true
}

// places are where it matters how a text is cut: around the ends of what is found, and of what scanners look back.
func (c *cutCase) place() int {
	n := len(c.in.Text)
	if c.rng.IntN(2) == 0 || len(c.want.Findings) == 0 {
		return c.rng.IntN(n + 1)
	}
	f := c.want.Findings[c.rng.IntN(len(c.want.Findings))]
	at := f.Start
	if c.rng.IntN(2) == 0 {
		at = f.End
	}
	at += []int{0, 0, 512, 768, 8 << 10, 12 << 10, 16 << 10, 24 << 10}[c.rng.IntN(8)] + c.rng.IntN(9) - 4
	return min(max(at, 0), n)
}

// pieces are places for many cuts: some by chance, and now and then a run of single bytes.
func (c *cutCase) pieces() (at []int) {
	for range 1 << c.rng.IntN(7) {
		p := c.place()
		at = append(at, p)
		for n := c.rng.IntN(4) / 3 * c.rng.IntN(40); n > 0 && p < len(c.in.Text); n-- {
			p++
			at = append(at, p)
		}
	}
	slices.Sort(at)
	return at
}

// streamed sends the text, cut at places, and says what is not as in one scan; "" is nothing.
func (c *cutCase) streamed(at ...int) string {
	s := c.chain.NewStream(&c.in, 1<<20)
	var out strings.Builder
	var got chain.ScanResult
	from := 0
	for i := 0; i <= len(at); i++ {
		to, last := len(c.in.Text), i == len(at)
		if !last {
			to = at[i]
		}
		next, res := s.Next(c.ctx, c.in.Text[from:to], last)
		if res.Outcome == chain.Denied {
			if c.want.Outcome == chain.Denied {
				return ""
			}
			return "the piece up to " + fmt.Sprint(to) + " is denied: " + res.Reason
		}
		if i == len(at)-1 && res.Released > 0 {
			c.u.early.Add(1)
		}
		out.WriteString(res.Text)
		got.Findings, got.Shadow = append(got.Findings, res.Findings...), append(got.Shadow, res.Shadow...)
		s, from = next, to
	}
	c.u.streams.Add(1)
	for _, shadow := range [][]sdk.Finding{got.Shadow, c.want.Shadow} { // pieces give them as they come
		slices.SortFunc(shadow, func(a, b sdk.Finding) int {
			return cmp.Or(a.Start-b.Start, a.End-b.End, strings.Compare(a.Kind, b.Kind))
		})
	}
	switch {
	case c.want.Outcome == chain.Denied:
		return "released, and one scan denies: " + c.want.Reason
	case out.String() != c.want.Text:
		return "other text is released: " + differ(out.String(), c.want.Text)
	case fmt.Sprint(got.Findings) != fmt.Sprint(c.want.Findings):
		return "other findings: " + differ(fmt.Sprint(got.Findings), fmt.Sprint(c.want.Findings))
	case fmt.Sprint(got.Shadow) != fmt.Sprint(c.want.Shadow):
		return "other findings in shadow: " + differ(fmt.Sprint(got.Shadow), fmt.Sprint(c.want.Shadow))
	}
	return ""
}

// differ shows where two texts begin to differ.
func differ(got, want string) string {
	n := 0
	for n < len(got) && n < len(want) && got[n] == want[n] {
		n++
	}
	around := func(s string) string { return s[max(0, n-40):min(len(s), n+60)] }
	return fmt.Sprintf("from byte %d on …%q…, want …%q…", n, around(got), around(want))
}

// check streams the text with all those cuts, and stops at the first fault.
func (c *cutCase) check(t *testing.T, cuts iter.Seq[[]int]) {
	c.u.ran.Add(1)
	if !c.scanWhole() {
		c.u.skipped.Add(1)
		return
	}
	for at := range cuts {
		if fault := c.streamed(at...); fault != "" {
			t.Errorf("seed %d (with YETT_DATA=%s), %d bytes of type %q, cut at %v: %s", c.seed, os.Getenv("YETT_DATA"),
				len(c.in.Text), c.in.ContentType, at, fault)
			return
		}
	}
}

// byChance are the cuts of a text in two and in many.
func (c *cutCase) byChance(yield func([]int) bool) {
	for range cutsIn2 {
		if !yield([]int{c.place()}) {
			return
		}
	}
	for range cutsIn {
		if !yield(c.pieces()) {
			return
		}
	}
}

// everywhere are all cuts of a text in two, and the one into single bytes.
func (c *cutCase) everywhere(yield func([]int) bool) {
	all := make([]int, 0, len(c.in.Text))
	for at := range len(c.in.Text) {
		if all = append(all, at); !yield([]int{at}) {
			return
		}
	}
	yield(all)
}

// The built-in scanners together, over texts that are cut anywhere: joined, what is released is what one scan
// releases, and what is found is what it finds. go test -run 'TestBuiltinCuts//seed_17$' does one text again, with
// YETT_FULL=1 if it is none of the first.
func TestBuiltinCuts(t *testing.T) {
	u := newCutting(t)
	texts := testkit.Rounds(24, 8)
	switch {
	case os.Getenv("YETT_FULL") != "":
		texts = cutTexts
	case os.Getenv("YETT_SLOW") != "":
		texts = cutTexts / 3
	}
	t.Run("texts", func(t *testing.T) {
		for seed := range texts {
			t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
				t.Parallel()
				c := u.newCase(seed)
				c.check(t, c.byChance)
			})
			if seed%(cutTexts/20) == 1 { // a short one
				t.Run(fmt.Sprint("seed ", seed, " everywhere"), func(t *testing.T) {
					t.Parallel()
					c := u.newCase(seed)
					c.check(t, c.everywhere)
				})
			}
		}
	})
	t.Logf("%d streams, %d of them released something before their last piece; found %d secrets, %d personal data, %d "+
		"injections; %d tokens, %d JSON texts redacted, %d texts skipped", u.streams.Load(), u.early.Load(),
		u.found[0].Load(), u.found[1].Load(), u.found[2].Load(), u.tokens.Load(), u.json.Load(), u.skipped.Load())
	if u.ran.Load() < int64(texts) { // -run has chosen some
		return
	}
	for what, n := range map[string]int64{"streams that release something early": u.early.Load() / 20,
		"secrets": u.found[0].Load(), "personal data": u.found[1].Load(), "injections": u.found[2].Load(),
		"tokens": u.tokens.Load(), "JSON": u.json.Load(), "texts not skipped": int64(texts)/2 - u.skipped.Load()} {
		if n <= 0 {
			t.Errorf("too few %s: this says nothing", what)
		}
	}
}
