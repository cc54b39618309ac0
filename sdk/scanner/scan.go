package scanner

import (
	"cmp"
	"errors"
	"slices"
	"strconv"

	"github.com/yett-dev/yett/sdk/abi"
)

// In is one text to scan. It is valid until Scan returns.
type In struct {
	Text  []byte // the window
	State []byte // what the last call put with Out.SetState, for abi.StreamStateful
	Flags uint32 // abi.FlagFirst and so on

	hostHits []byte // pairs as the host wrote them
	complete bool   // hostHits is everything there is
	m        *machine
	hits     []Hit
	searched bool
	hitErr   error
}

// Hit is one occurrence of a trigger.
type Hit struct {
	// index into Spec.Triggers; from len(Spec.Triggers) on, the entries of the lists of Spec.TriggersFrom in order
	Trigger    int
	Start, End int // byte offsets into In.Text
}

// Has tells whether all of the flags are set.
func (in *In) Has(flags uint32) bool { return in.Flags&flags == flags }

// Hits gives every hit of every trigger, ordered by start and then by trigger. They are the host's where it found them
// all, and searched for here otherwise, so that a scanner sees the same either way.
func (in *In) Hits() ([]Hit, error) {
	if in.searched {
		return in.hits, in.hitErr
	}
	in.searched = true
	in.hits = in.hits[:0]
	if in.complete {
		if n := len(in.hostHits) / abi.HitSize; n > cap(in.hits) {
			in.hits = make([]Hit, 0, n)
		}
		in.hits, in.hitErr = in.m.find.decode(in.Text, in.hostHits, in.hits)
	} else {
		in.hits, in.hitErr = in.m.find.search(in.Text, in.hits), nil
	}
	in.hits = ordered(in.hits)
	return in.hits, in.hitErr
}

// ordered sorts hits and drops those that are there twice. The host's are in order as they come.
func ordered(hits []Hit) []Hit {
	for i := 1; i < len(hits); i++ {
		a, b := &hits[i-1], &hits[i]
		if a.Start > b.Start || a.Start == b.Start && a.Trigger >= b.Trigger {
			slices.SortFunc(hits, func(a, b Hit) int { return cmp.Or(a.Start-b.Start, a.Trigger-b.Trigger) })
			return slices.Compact(hits)
		}
	}
	return hits
}

// Finding is one span of the text.
type Finding struct {
	Kind        string
	Start, End  int
	Confidence  float32  // 0…1
	Severity    Severity // used when SetSeverity; the kind's own otherwise
	SetSeverity bool
	Action      Action
	Replacement string // with Action Replace
}

// Out collects what a scan found.
type Out struct {
	m      *machine
	n      int // length of the window
	found  []Finding
	err    error
	state  []byte
	notes  []byte
	merged bool
}

func (o *Out) reset(m *machine, n int) {
	o.m, o.n, o.found, o.err, o.state, o.notes, o.merged = m, n, o.found[:0], nil, nil, nil, false
}

// Redact reports text[start:end] as kind, with the kind's severity, and suggests to redact it.
func (o *Out) Redact(kind string, start, end int, confidence float32) {
	o.Emit(Finding{Kind: kind, Start: start, End: end, Confidence: confidence, Action: Redact})
}

// Flag reports text[start:end] as kind, with the kind's severity, and suggests to leave it in place.
func (o *Out) Flag(kind string, start, end int, confidence float32) {
	o.Emit(Finding{Kind: kind, Start: start, End: end, Confidence: confidence, Action: Flag})
}

// Emit reports one finding. A finding that the ABI does not allow (a span that is empty, outside the window or longer
// than Lookbehind, an undeclared kind, a confidence outside 0…1) fails the whole scan.
func (o *Out) Emit(f Finding) {
	own, declared := o.m.kinds[f.Kind]
	if !f.SetSeverity {
		f.Severity = own
	}
	switch {
	case o.err != nil:
	case !declared:
		o.err = errors.New("finding of undeclared kind " + f.Kind)
	case f.Start >= 0 && f.Start == f.End:
		o.err = errors.New("finding " + f.Kind + " is empty: " + span(f) +
			"; a finding is of one byte or more, and the whole text is 0…" + strconv.Itoa(o.n))
	case f.Start < 0 || f.End < f.Start || f.End > o.n:
		o.err = errors.New("finding " + f.Kind + " outside the window: " + span(f))
	case o.m.spec.Stream == abi.StreamWindow && f.End-f.Start > o.m.spec.Lookbehind:
		o.err = errors.New("finding " + f.Kind + " longer than Lookbehind: " + span(f))
	case !(f.Confidence >= 0 && f.Confidence <= 1) || f.Severity > Critical || f.Action > Deny:
		o.err = errors.New("finding " + f.Kind + " with a bad confidence, severity or action")
	case len(f.Replacement) > abi.MaxReplacement:
		o.err = errors.New("finding " + f.Kind + ": replacement longer than " + strconv.Itoa(abi.MaxReplacement) + " bytes")
	default:
		o.found = append(o.found, f)
	}
}

func span(f Finding) string { return strconv.Itoa(f.Start) + "…" + strconv.Itoa(f.End) }

// SetState keeps at most abi.MaxState bytes for the next call of a stateful stream.
func (o *Out) SetState(state []byte) {
	if len(state) > abi.MaxState && o.err == nil {
		o.err = errors.New("state longer than " + strconv.Itoa(abi.MaxState) + " bytes")
	}
	o.state = append(o.state[:0], state...)
}

// Annotate attaches a JSON document of at most abi.MaxPut bytes to the scan.
func (o *Out) Annotate(doc []byte) {
	if len(doc) > abi.MaxPut && o.err == nil {
		o.err = errors.New("annotation longer than " + strconv.Itoa(abi.MaxPut) + " bytes")
	}
	o.notes = append(o.notes[:0], doc...)
}

// finish sorts the findings and, when there are more than the ABI allows, folds those beyond into one that covers them:
// from the start of the first too many to the end of the last. It redacts more than was found, never less.
func (o *Out) finish() error {
	if o.err != nil {
		return o.err
	}
	slices.SortStableFunc(o.found, func(a, b Finding) int {
		return cmp.Or(a.Start-b.Start, a.End-b.End, cmp.Compare(a.Kind, b.Kind))
	})
	o.found = slices.Compact(o.found)
	if len(o.found) <= abi.MaxFindings {
		return nil
	}
	last := &o.found[abi.MaxFindings-1]
	for _, f := range o.found[abi.MaxFindings:] {
		last.End = max(last.End, f.End)
		last.Confidence = max(last.Confidence, f.Confidence)
		last.Severity = max(last.Severity, f.Severity)
		last.Action = harder(last.Action, f.Action)
	}
	last.Replacement = ""
	o.found, o.merged = o.found[:abi.MaxFindings], true
	return nil
}

// harder picks the stricter of two suggestions; a replacement cannot cover several findings, so it counts as redaction.
func harder(a, b Action) Action {
	if a == Replace {
		a = Redact
	}
	if b == Replace {
		b = Redact
	}
	return max(a, b)
}

// decode reads the host's hits and checks each against the text, since a scanner trusts them to be what they say.
func (f *finder) decode(text, raw []byte, hits []Hit) ([]Hit, error) {
	for ; len(raw) >= abi.HitSize; raw = raw[abi.HitSize:] {
		t, at := uint32At(raw), uint32At(raw[4:])
		if t >= uint32(len(f.triggers)) || at >= uint32(len(text)) {
			return nil, errors.New("the host's hits do not fit the text")
		}
		end, ok := f.matchAt(int(t), text, int(at))
		if !ok {
			return nil, errors.New("the host's hits do not fit the text")
		}
		hits = append(hits, Hit{int(t), int(at), end})
	}
	return hits, nil
}

// uint32At reads a little-endian number; encoding/binary would bring reflection into every module.
func uint32At(b []byte) uint32 {
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}
