package main

import (
	"cmp"
	"errors"
	"slices"
	"strconv"

	"github.com/yett-dev/yett/sdk/scanner"
)

// What a trigger leads to.
type job uint8

const (
	jobToken  job = iota // patterns of tokenRules
	jobVendor            // a vendor's name: vendorRules
	jobSecret            // a word for a secret: the generic rules
	jobSpecial
	jobEncoded // a pattern of tokenRules in another writing
)

// task is one thing to try at the hits of one trigger.
type task struct {
	job     job
	rule    int // index into tokenRules or vendorRules
	pattern *pattern
	special func(*scan, scanner.Hit)
	whole   func(v []byte) bool // whether the checksum holds; nil: there is none
	place   int                 // of the mark, for jobEncoded
	level   level
}

// engine is what init makes of the tables: for each trigger its tasks.
type engine struct {
	triggers []scanner.Trigger
	tasks    [][]task
	vendor   [][]pattern // by vendorRules
	names    []bool      // by trigger: whether one of its tasks reads a name
	others   []bool      // by trigger: whether one of its tasks does not
}

// trial are parts of the marks of keys that an issuer gives out for tries: they open no account.
var trial = newWordSet("_test_", "_test-", "-test-", "-sandbox-", "_sandbox_", "$sandbox$", "_sdbx_", "eztk")

func newEngine() *engine {
	e := &engine{}
	at := map[scanner.Trigger]int{}
	add := func(t scanner.Trigger, k task) {
		i, known := at[t]
		if !known {
			i = len(e.triggers)
			at[t] = i
			e.triggers = append(e.triggers, t)
			e.tasks = append(e.tasks, nil)
			e.names, e.others = append(e.names, false), append(e.others, false)
		}
		name := k.job == jobVendor || k.job == jobSecret
		e.names[i], e.others[i] = e.names[i] || name, e.others[i] || !name
		e.tasks[i] = append(e.tasks[i], k)
	}
	for i, r := range tokenRules {
		for _, src := range r.patterns {
			p := compile(src)
			k := task{job: jobToken, rule: i, pattern: &p, whole: checksums[r.kind]}
			if trial.in([]byte(src)) {
				k.level = medium
			}
			add(scanner.Trigger{Literal: p.lit}, k)
			if !slices.Contains(encodable, p.lit) {
				continue
			}
			k.job = jobEncoded
			for place, form := range encodings(p.lit) {
				k.place = place
				add(scanner.Trigger{Literal: form, Fold: place == inHex}, k)
			}
		}
	}
	for i, r := range vendorRules {
		var shapes []pattern
		for _, src := range r.patterns {
			shapes = append(shapes, compile(src))
		}
		e.vendor = append(e.vendor, shapes)
		for _, name := range r.names {
			add(scanner.Trigger{Literal: name, Fold: true}, task{job: jobVendor, rule: i})
		}
	}
	for _, word := range secretWords {
		add(scanner.Trigger{Literal: word, Fold: true}, task{job: jobSecret})
	}
	for _, s := range specials {
		for _, t := range s.triggers {
			add(t, task{job: jobSpecial, special: s.find})
		}
	}
	return e
}

// kindNames gives the full name of each kind of the tables, made once so that a scan allocates nothing.
var kindNames = func() map[string]string {
	names := map[string]string{}
	for _, k := range kinds() {
		names[k.Name[len("SECRET_"):]] = k.Name
	}
	return names
}()

// candidate is a possible finding; the higher rank wins where one covers the other.
type candidate struct {
	kind       string
	start, end int
	rank       uint8
	confidence float32
	level      level
}

// level is a severity below the kind's own.
type level uint8

const (
	own level = iota
	low
	medium
)

const (
	rankGeneric = iota
	rankVendor
	rankHeader
	rankToken
	rankSpecial
)

// scan is the work on one text.
type scan struct {
	t     []byte
	e     *engine
	set   settings
	found []candidate

	last   assignment // the assignment around the last keyword: neighbours in one name share it
	lastOK bool
	bare   bareRun
	judged bool // the generic rules have seen last

	sure, at int // how many of found are no assignments, and which of them we are at

	// done is, for matchers that look far ahead, how far they have looked: a later hit before it can bring nothing new,
	// and a text that repeats a trigger must not make us read it again each time.
	done struct{ jwt, jwtBase64, curl, jwk, kubernetes, ethereum, joined, cookie int }

	inClear bool // the manifest's values are under stringData, not base64

	tooLong string // kind of a secret whose end is not in sight
}

// work is kept between texts for its buffer; calls of one scanner never overlap.
var work = scan{found: make([]candidate, 0, 256)}

func scanText(in *scanner.In, out *scanner.Out) error {
	hits, err := in.Hits()
	if err != nil {
		return err
	}
	s := &work
	s.t, s.e, s.set, s.found = in.Text, rules, config, s.found[:0]
	s.last, s.lastOK, s.judged, s.bare = assignment{}, false, false, bareRun{}
	s.done = struct{ jwt, jwtBase64, curl, jwk, kubernetes, ethereum, joined, cookie int }{}
	s.tooLong, s.at = "", 0
	for _, h := range hits {
		if !s.e.others[h.Trigger] {
			continue
		}
		for _, k := range s.e.tasks[h.Trigger] {
			switch k.job {
			case jobToken:
				s.token(k, h)
			case jobEncoded:
				s.encoded(k, h)
			case jobSpecial:
				k.special(s, h)
			}
		}
	}
	s.sure = len(s.found) // names are read last: what is a token already needs no second judgement
	for _, h := range hits {
		if !s.e.names[h.Trigger] {
			continue
		}
		for _, k := range s.e.tasks[h.Trigger] {
			switch k.job {
			case jobVendor:
				s.vendor(k.rule, h)
			case jobSecret:
				s.generic(h)
			}
		}
	}
	if s.tooLong != "" {
		return errors.New("a value of kind SECRET_" + s.tooLong + " has more than " + strconv.Itoa(maxSpan) +
			" bytes, and its end would be let through")
	}
	s.emit(out)
	return nil
}

// broken is the confidence in a value whose checksum fails. Its severity stays: what is mistyped in one place stands
// whole in another, and whoever redacts by severity wants to see neither.
const broken = 0.3

// token tries one pattern of a rule.
func (s *scan) token(k task, h scanner.Hit) {
	start, end, ok := k.pattern.at(s.t, h.Start)
	if !ok {
		s.joined(k, h)
		return
	}
	if !startsClean(s.t, start) || !endsClean(s.t, end) {
		return
	}
	r := &tokenRules[k.rule]
	v := s.t[start:end]
	if documented[fnv(v)] {
		s.example(start, end)
		return
	}
	if r.entropy > 0 && (entropy(v) < r.entropy || filler(v) || named(k.pattern.open(v), len(k.pattern.lit))) ||
		published(v) {
		return
	}
	if end < len(s.t) && s.t[end] == '#' || end+2 < len(s.t) && string(s.t[end:end+3]) == "..." {
		return // cut short or masked
	}
	if r.kind == "ANTHROPIC_API_KEY" && end-start > 100 && string(v[len(v)-2:]) != "AA" ||
		r.kind == "PYPI_TOKEN" && cutMacaroon(v) {
		return
	}
	if isURLKind(r.kind) {
		start = urlStart(s.t, start)
	}
	l, confidence := k.level, float32(0.95)
	if k.whole != nil && !k.whole(v) {
		confidence = broken
	}
	s.found = append(s.found, candidate{r.kind, start, end, rankToken, confidence, l})
}

// named tells whether what stands behind a mark of so many bytes is a name in a program: words without a digit, or any
// behind a mark so short that names begin with it.
func named(v []byte, mark int) bool { return (mark <= 3 || digits(v) == 0) && worded(v) }

// example reports what a vendor's documentation shows to everyone.
func (s *scan) example(start, end int) {
	s.found = append(s.found, candidate{exampleKind, start, end, rankToken, 1, low})
}

// vendor tries the shapes of a rule on the value of the name around a hit.
func (s *scan) vendor(rule int, h scanner.Hit) {
	if h.Start > 0 && isAlpha(s.t[h.Start-1]) && !(isLower(s.t[h.Start-1]) && isUpper(s.t[h.Start])) {
		return // inside another word
	}
	if n := h.End - h.Start; n <= 5 && isLower(s.t[h.End-2]) && isUpper(s.t[h.End-1]) {
		return // a short name made of the ends of two words: sumOf
	}
	if !s.assignmentAt(h) || s.last.loose {
		return
	}
	r := &vendorRules[rule]
	v := s.t[s.last.start:s.last.end]
	for i := range s.e.vendor[rule] {
		if !s.e.vendor[rule][i].whole(v) {
			continue
		}
		if documented[fnv(v)] {
			s.example(s.last.start, s.last.end)
		} else if entropy(v) >= r.entropy && !filler(v) && (digits(v) > 0 || r.kind == "SIDEKIQ_SECRET") {
			s.add(r.kind, s.last.start, s.last.end, rankVendor, 0.8)
		}
		return
	}
}

func digits(v []byte) (n int) {
	for _, c := range v {
		if isDigit(c) {
			n++
		}
	}
	return n
}

// assignmentAt reads the assignment of the name that holds the hit into s.last.
func (s *scan) assignmentAt(h scanner.Hit) bool {
	if s.last.nameEnd >= h.End && s.last.nameStart <= h.Start {
		return s.lastOK
	}
	s.judged = false
	s.last, s.lastOK = assigned(s.t, h.Start, h.End, &s.bare)
	s.lastOK = s.lastOK && !s.covered(s.last.start, s.last.end) && npmLine(s.t, s.last.nameStart)
	return s.lastOK
}

// covered tells whether what we are sure of covers a value, which would then be dropped in the end. It looks at the
// next few only, for this saves work and decides nothing.
func (s *scan) covered(start, end int) bool {
	for s.at < s.sure && s.found[s.at].end <= start {
		s.at++
	}
	for _, c := range s.found[s.at:min(s.sure, s.at+4)] {
		if c.start <= start && end <= c.end {
			return true
		}
	}
	return false
}

func (s *scan) add(kind string, start, end int, rank uint8, confidence float32) {
	s.found = append(s.found, candidate{kind, start, end, rank, confidence, own})
}

// whole makes the scan fail if a value reaches so far behind its trigger that its end may not be in sight.
func (s *scan) whole(kind string, reach int) {
	if reach >= maxSpan && !s.set.disabled["SECRET_"+kind] {
		s.tooLong = kind
	}
}

// emit reports what is left when candidates inside better or larger ones are dropped. A disabled kind still covers what
// lies inside it, so that disabling a kind does not bring its values back under a general name.
func (s *scan) emit(out *scanner.Out) {
	slices.SortStableFunc(s.found, func(a, b candidate) int {
		return cmp.Or(a.start-b.start, b.end-a.end, int(b.rank)-int(a.rank), cmp.Compare(a.kind, b.kind))
	})
	var reach [rankSpecial + 1]int // by rank: how far candidates of that rank reach
	for _, c := range s.found {
		covered := false
		for _, end := range reach[c.rank:] {
			covered = covered || end >= c.end
		}
		if covered {
			continue
		}
		reach[c.rank] = max(reach[c.rank], c.end)
		name := kindNames[c.kind]
		if s.set.disabled[name] {
			continue
		}
		f := scanner.Finding{Kind: name, Start: c.start, End: c.end, Confidence: c.confidence, Action: scanner.Redact}
		if c.level != own {
			f.Severity, f.SetSeverity = scanner.Low, true
			if c.level == medium {
				f.Severity = scanner.Medium
			}
		}
		if c.kind == exampleKind {
			f.Action = scanner.Flag
		}
		out.Emit(f)
	}
}
