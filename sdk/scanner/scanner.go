// Package scanner is the author's side of a WASM scanner: a program registers a Spec in init and calls Main, nothing
// else, and becomes a module for ABI v1 (built for wasip1) or a command that scans its standard input (built natively).
// It owns the calling convention, the trigger search and the small JSON that a guest needs. Text comes in through In,
// findings leave through Out; a scanner never sees a file, a clock or the network. The files that a guest is made of
// import neither fmt nor encoding/json, which would double what an author adds to the module.
package scanner

import (
	"errors"
	"strconv"

	"github.com/yett-dev/yett/sdk/abi"
)

// Severity of a finding, as in ABI v1.
type Severity uint8

// The severities.
const (
	Info Severity = iota
	Low
	Medium
	High
	Critical
)

// Action is what the scanner suggests to do about a finding; the operator's configuration decides.
type Action uint8

// The actions.
const (
	Flag    Action = abi.ActionFlag
	Redact  Action = abi.ActionRedact
	Replace Action = abi.ActionReplace
	Deny    Action = abi.ActionDeny
)

// What a scanner does with a text that comes in pieces, and how many findings one call may report.
const (
	StreamNone     = abi.StreamNone
	StreamWindow   = abi.StreamWindow
	StreamStateful = abi.StreamStateful
	MaxFindings    = abi.MaxFindings
)

// Kind is one kind of finding and its default severity. Names are UPPER_SNAKE.
type Kind struct {
	Name     string
	Severity Severity
}

// Trigger is a literal or a byte class without which the scanner can find nothing; see abi.Trigger. A hit of a literal
// is each of its occurrences, overlapping ones included; a hit of a class is each maximal run of at least Min bytes.
// Classes: "digits" 0-9, "hex" 0-9 a-f A-F, "base64" A-Z a-z 0-9 + / = - _, "at" the byte @.
type Trigger = abi.Trigger

// TriggersFrom names a list of strings in the configuration, each of which becomes a trigger; see abi.TriggersFrom.
// Config must declare the list. Hits number its entries behind Spec.Triggers.
type TriggersFrom = abi.TriggersFrom

// Spec is a scanner. Name, Version and one of Scan and Check are required; the rest may stay empty.
type Spec struct {
	Name    string
	Version string
	Kinds   []Kind // every kind Scan may emit; another one fails the call
	// Triggers let the host skip texts that hold none of them. None, here and from the configuration: Scan sees every
	// text, and In.Hits is empty.
	Triggers []Trigger
	// TriggersFrom are lists of the configuration whose entries become triggers too: what an operator adds to a list is
	// looked for in the one pass that the host makes anyway. A word that Scan knows by itself must stand in Triggers.
	TriggersFrom []TriggersFrom
	Stream       string // StreamNone (also when empty), StreamWindow or StreamStateful
	// Lookbehind in bytes, for StreamWindow: no finding is longer, context that a finding needs included. A longer
	// finding fails the call, in one piece as in a stream.
	Lookbehind int
	Config     string // JSON Schema of the configuration, as JSON text; empty: any object that Init accepts
	MemoryMiB  int    // memory the module cannot work without, MiB; 0: the host's default is enough
	DeadlineMS int    // time the module cannot work without, ms; 0: the host's default is enough

	// Init receives the operator's configuration, a JSON object ({} if there is none), once before anything else. An
	// error refuses the configuration. When Init is nil only {} is accepted.
	Init func(config []byte) error
	// Scan looks at one text. An error fails the call, which is never taken for "clean". Neither in nor anything that
	// points into it may be kept. Calls never overlap.
	Scan func(in *In, out *Out) error
	// Check decides one call, given as JSON. It must set d.Effect, the zero value of which abstains.
	Check func(call []byte, d *Decision) error
}

// Decision is what Check answers.
type Decision struct {
	Effect uint8 // abi.EffectAbstain, EffectPermit, EffectDeny or EffectDefer
	Code   string
	Reason string
	TTLms  int // how long the answer may be cached, ms; 0: not at all
}

// StatusError is an error with a status of the author's own (abi.AuthorStatus and up) or abi.StatusUnsupported.
type StatusError struct {
	Status int32
	Msg    string
}

// Error gives the message.
func (e *StatusError) Error() string { return e.Msg }

func statusOf(err error) int32 {
	var s *StatusError
	if errors.As(err, &s) && s.Status != abi.StatusOK {
		return s.Status
	}
	return abi.StatusInternal
}

// machine is a Spec made ready: triggers compiled, kinds indexed, buffers kept between calls. Not for concurrent use.
type machine struct {
	spec  Spec
	find  *finder
	kinds map[string]Severity
	in    In
	out   Out
	ready bool
}

var registered *machine

// Register makes spec the scanner of this program; call it once, from init. It panics when the spec cannot work, which
// a first run shows.
func Register(spec Spec) {
	if registered != nil {
		panic("scanner: Register called twice")
	}
	m, err := newMachine(spec)
	if err != nil {
		panic("scanner: " + err.Error())
	}
	registered = m
}

func newMachine(spec Spec) (*machine, error) {
	switch {
	case spec.Name == "" || spec.Version == "":
		return nil, errors.New("Spec.Name and Spec.Version are required")
	case spec.Scan == nil && spec.Check == nil:
		return nil, errors.New("one of Spec.Scan and Spec.Check is required")
	case spec.Stream == abi.StreamWindow && spec.Lookbehind <= 0:
		return nil, errors.New("Spec.Lookbehind must be positive for a window stream")
	}
	if spec.Stream == "" {
		spec.Stream = abi.StreamNone
	}
	m := &machine{spec: spec, kinds: make(map[string]Severity, len(spec.Kinds))}
	for _, k := range spec.Kinds {
		if _, twice := m.kinds[k.Name]; twice || k.Name == "" || k.Severity > Critical {
			return nil, errors.New("Spec.Kinds: bad or repeated kind " + k.Name)
		}
		m.kinds[k.Name] = k.Severity
	}
	if len(spec.Triggers)+len(spec.TriggersFrom) > 0 {
		m.in.hits = make([]Hit, 0, 4096)
	}
	for i, from := range spec.TriggersFrom {
		if len(from.Path) < 2 || from.Path[0] != '/' {
			return nil, errors.New("Spec.TriggersFrom " + strconv.Itoa(i) +
				": the path must be names of settings, each after a slash: /words")
		}
	}
	m.out.found = make([]Finding, 0, abi.MaxFindings)
	var err error
	m.find, err = newFinder(spec.Triggers)
	return m, err
}

// init runs Spec.Init on a configuration object.
func (m *machine) init(config []byte) error {
	if m.ready {
		return errors.New("initialised twice")
	}
	if len(config) == 0 {
		config = []byte("{}")
	}
	init := m.spec.Init
	if init == nil {
		init = func(c []byte) error {
			return Members(c, func(name string, _ Value) error {
				return errors.New(name + ": this scanner has no configuration")
			})
		}
	}
	if err := init(config); err != nil {
		return err
	}
	if err := m.addTriggers(config); err != nil {
		return err
	}
	m.ready = true
	return nil
}

// scan runs Spec.Scan on the window that in holds already and leaves sorted findings in m.out.
func (m *machine) scan() error {
	if !m.ready {
		return errors.New("scan before init")
	}
	if m.spec.Scan == nil {
		return &StatusError{abi.StatusUnsupported, "this module only checks"}
	}
	m.in.m = m
	m.in.searched = false
	m.out.reset(m, len(m.in.Text))
	if err := m.spec.Scan(&m.in, &m.out); err != nil {
		return err
	}
	return m.out.finish()
}
