//go:build linux

package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/prefilter"
	"github.com/yett-dev/yett/core/wasm/host"
	"github.com/yett-dev/yett/scanners"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// Loads without a server: one goroutine of this process works on texts as fast as it can. Their rate is in MB/s.

// work is such a load: one call works on one text and says how many bytes it had.
type work struct {
	do   func(ctx context.Context) (n int, err error)
	stop func(ctx context.Context) error // nil when there is nothing to stop
}

// textBytes is the length of a text that the rows about sandbox and pass work on.
const textBytes = 64 << 10

// benchTexts are texts as the scan loads send them, joined to textBytes.
func benchTexts(dirty bool) []string {
	m := newBodyMaker(7)
	out := make([]string, 16)
	for i := range out {
		var b strings.Builder
		for b.Len() < textBytes {
			b.WriteString(m.plain())
			for range scanBytes >> 10 {
				if dirty {
					b.WriteString("\nexport GITHUB_TOKEN=" + m.token() + "\n" + m.prose(900))
				}
			}
		}
		out[i] = b.String()[:textBytes]
	}
	return out
}

// manyTriggers are so many literals of 5 to 20 bytes, shaped like the prefixes of tokens and the names of vendors, none
// of which is in texts, and byte classes as scanners for personal data ask for them.
func manyTriggers(n int, texts []string) []abi.Trigger {
	m := newBodyMaker(11)
	all := strings.ToLower(strings.Join(texts, "\n"))
	out := []abi.Trigger{{Class: "at", Min: 1}, {Class: "digits", Min: 9}, {Class: "hex", Min: 32},
		{Class: "base64", Min: 40}}
	for seen := map[string]bool{}; n > 0; {
		s := fmt.Sprintf("%s_%x%s", pick(m, benchWords), m.r.IntN(1<<16), strings.ToUpper(pick(m, benchWords)))
		s = s[:min(len(s), 5+m.r.IntN(16))]
		if len(s) < 5 || seen[s] || strings.Contains(all, strings.ToLower(s)) {
			continue
		}
		seen[s] = true
		out = append(out, abi.Trigger{Literal: s, Fold: n%3 == 0})
		n--
	}
	return out
}

// passLoad is what the pass and the automaton are both measured on. To make it takes seconds, so it is made once.
var passLoad = sync.OnceValues(func() ([]string, []abi.Trigger) {
	texts := benchTexts(false)
	return texts, manyTriggers(5000, texts)
})

// turns goes through texts for ever.
func turns(texts []string, use func(ctx context.Context, text string) error) func(context.Context) (int, error) {
	i := 0
	return func(ctx context.Context) (int, error) {
		text := texts[i%len(texts)]
		i++
		return len(text), use(ctx, text)
	}
}

func startPass(context.Context, *ratioRun) (*work, error) {
	texts, set := passLoad()
	pass, err := prefilter.Compile([][]abi.Trigger{set})
	if err != nil {
		return nil, err
	}
	found := new(prefilter.Found)
	return &work{do: turns(texts, func(_ context.Context, text string) error {
		pass.Find(text, found)
		if hits, complete := found.Hits(0); len(hits) > 0 || !complete {
			return errors.New("a text that is to trip nothing has hits")
		}
		return nil
	})}, nil
}

func startTextbook(context.Context, *ratioRun) (*work, error) {
	texts, set := passLoad()
	book := newTextbook(set)
	return &work{do: turns(texts, func(_ context.Context, text string) error {
		if book.count(text) > 0 {
			return errors.New("a text that is to trip nothing has hits")
		}
		return nil
	})}, nil
}

// startScan scans with every built-in scanner.
func startScan(dirty bool) func(context.Context, *ratioRun) (*work, error) {
	return func(ctx context.Context, _ *ratioRun) (*work, error) {
		c, stop, err := builtins(ctx)
		if err != nil {
			return nil, err
		}
		want := chain.Pass
		if dirty {
			want = chain.Redacted
		}
		return &work{stop: stop, do: turns(benchTexts(dirty), func(ctx context.Context, text string) error {
			if res := c.Run(ctx, &chain.Input{Text: text}); res.Outcome != want {
				return fmt.Errorf("%s: %s", res.Outcome, res.Reason)
			}
			return nil
		})}, nil
	}
}

// builtins is a chain of every built-in scanner, as a gateway runs them.
func builtins(ctx context.Context) (c *chain.ScanChain, stop func(context.Context) error, err error) {
	wasm, err := host.New(ctx, host.Options{})
	if err != nil {
		return nil, nil, err
	}
	c = &chain.ScanChain{Budget: time.Minute, Now: time.Now, Actions: []chain.ActionRule{{Action: sdk.Redact}}}
	for _, name := range scanners.Names() {
		code, _ := scanners.Builtin(name)
		m, err := wasm.Load(ctx, host.Spec{Name: name, Code: code, Config: json.RawMessage("{}"), Timeout: time.Minute,
			Isolation: host.Pooled})
		if err != nil {
			return nil, nil, errors.Join(err, wasm.Close(ctx))
		}
		c.Steps = append(c.Steps, chain.ScanStep{Name: name, OnError: sdk.Deny, Builtin: true, Scanner: m,
			Triggers: m.Triggers(), Kinds: m.Metadata().Kinds, Stream: m.Metadata().Stream})
	}
	if err := c.Prepare(); err != nil {
		return nil, nil, errors.Join(err, wasm.Close(ctx))
	}
	return c, wasm.Close, nil
}

// worked runs a load of this process for the round's time. The first calls, which warm it, do not count.
func (r *ratioRun) worked(ctx context.Context, l *load, conns, round int) (_ sample, err error) {
	w, err := l.work(ctx, r)
	if err != nil {
		return sample{}, err
	}
	if w.stop != nil {
		defer func() { err = errors.Join(err, w.stop(context.WithoutCancel(ctx))) }()
	}
	s := sample{Load: l.name, Connections: conns, Round: round}
	total := 0
	var start time.Time
	for warm := 32; warm >= 0 || time.Since(start) < r.seconds; warm-- {
		if err := ctx.Err(); err != nil {
			return sample{}, err
		}
		if warm == 0 {
			total, start, s.Good = 0, time.Now(), 0
		}
		n, err := w.do(ctx)
		if err != nil {
			s.Disturbed = err.Error()
			return s, r.write(s)
		}
		total += n
		s.Good++
	}
	s.Seconds = time.Since(start).Seconds()
	s.PerSecond = float64(total) / 1e6 / s.Seconds
	r.show("round %d of %d: %-18s %8.0f %s", round, r.rounds, s.Load, s.PerSecond, cmp.Or(l.unit, "MB/s"))
	return s, r.write(s)
}

// megabytes is a row's figure when it is a rate by itself, and no ratio.
func megabytes(own, _ *sample) float64 { return own.PerSecond }

// textbook is an Aho-Corasick automaton as it stands in books, with complete transitions over the bytes that occur.
type textbook struct {
	class [256]uint8
	width int
	next  []uint32
	ends  [][]uint32
}

func newTextbook(set []abi.Trigger) *textbook {
	t := &textbook{width: 1, ends: make([][]uint32, 1)}
	words := make([][]byte, 0, len(set))
	for _, tr := range set {
		word := bytes.ToLower([]byte(tr.Literal))
		words = append(words, word)
		for _, c := range word {
			if t.class[c] == 0 {
				t.class[c] = uint8(t.width)
				t.width++
			}
		}
	}
	for c := 'A'; c <= 'Z'; c++ {
		t.class[c] = t.class[c|0x20]
	}
	t.next = make([]uint32, t.width)
	for i, word := range words {
		s := 0
		for _, c := range word {
			at := s*t.width + int(t.class[c])
			if t.next[at] == 0 {
				t.next[at] = uint32(len(t.ends))
				t.next, t.ends = append(t.next, make([]uint32, t.width)...), append(t.ends, nil)
			}
			s = int(t.next[at])
		}
		if len(word) > 0 {
			t.ends[s] = append(t.ends[s], uint32(i))
		}
	}
	t.link()
	return t
}

// link fills in the transitions that the words leave open, breadth first.
func (t *textbook) link() {
	fail := make([]uint32, len(t.ends))
	var queue []int
	for _, s := range t.next[:t.width] {
		if s != 0 {
			queue = append(queue, int(s))
		}
	}
	for head := 0; head < len(queue); head++ {
		s := queue[head]
		t.ends[s] = append(t.ends[s], t.ends[fail[s]]...)
		for c := range t.width {
			back := t.next[int(fail[s])*t.width+c]
			if to := t.next[s*t.width+c]; to != 0 {
				fail[to] = back
				queue = append(queue, int(to))
			} else {
				t.next[s*t.width+c] = back
			}
		}
	}
}

// count says how many of the words' occurrences a text has, case aside.
func (t *textbook) count(text string) (n int) {
	s := 0
	for i := range len(text) {
		s = int(t.next[s*t.width+int(t.class[text[i]])])
		n += len(t.ends[s])
	}
	return n
}
