package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/yett-dev/yett/core/quote"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
	"github.com/yett-dev/yett/sdk/exact"
)

// Bounds on metadata. The document itself is at most abi.MaxPut bytes.
const (
	maxKinds      = 256
	maxTriggers   = 4096
	maxLiteral    = 256
	maxRun        = 4096 // bytes of the shortest run of a class
	maxLookbehind = 1 << 20
	maxKindName   = 64
)

var (
	moduleName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,63}$`)
	moduleVersion = regexp.MustCompile(`^[!-~]{1,64}$`)
	kindName      = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`)
)

// readMetadata reads and checks a module's document. scans says whether it exports yett_scan.
func readMetadata(doc []byte, scans bool) (*abi.Metadata, error) {
	if len(doc) > abi.MaxPut {
		return nil, fmt.Errorf("metadata of %d bytes: at most %d are allowed", len(doc), abi.MaxPut)
	}
	var strict exact.Doc
	if err := strict.Parse(string(doc), exact.DefaultLimits); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.DisallowUnknownFields()
	m := new(abi.Metadata)
	if err := dec.Decode(m); err != nil {
		return nil, fmt.Errorf("metadata: %s", quote.Short(err.Error(), 200))
	}
	if err := checkMetadata(m, scans); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	return m, nil
}

func checkMetadata(m *abi.Metadata, scans bool) error {
	switch {
	case m.ABI != abi.Version:
		return fmt.Errorf("abi %d: want %d", m.ABI, abi.Version)
	case !moduleName.MatchString(m.Name):
		return fmt.Errorf("name %q: want 1–64 letters, digits, '.', '_', '/' or '-'", quote.Short(m.Name, 80))
	case !moduleVersion.MatchString(m.Version):
		return fmt.Errorf("version %q: want 1–64 printable ASCII characters without spaces", quote.Short(m.Version, 80))
	case m.Needs.MemoryBytes < 0 || m.Needs.DeadlineMS < 0:
		return fmt.Errorf("needs %d bytes and %d ms: want no negative numbers", m.Needs.MemoryBytes, m.Needs.DeadlineMS)
	}
	if err := checkKinds(m.Kinds); err != nil {
		return err
	}
	if err := checkStream(m.Stream, scans); err != nil {
		return err
	}
	if err := checkTriggers(m.Triggers); err != nil {
		return err
	}
	return checkTriggersFrom(m)
}

func checkKinds(kinds []abi.Kind) error {
	if len(kinds) > maxKinds {
		return fmt.Errorf("%d kinds: at most %d are allowed", len(kinds), maxKinds)
	}
	seen := map[string]bool{}
	for i, k := range kinds {
		switch {
		case !kindName.MatchString(k.Name):
			return fmt.Errorf("kinds[%d].name %q: want %s", i, quote.Short(k.Name, 80), kindName)
		case seen[k.Name]:
			return fmt.Errorf("kinds[%d].name %q is there twice", i, k.Name)
		case k.Severity < int(sdk.Info) || k.Severity > int(sdk.Critical):
			return fmt.Errorf("kinds[%d].severity %d: want 0–4", i, k.Severity)
		}
		seen[k.Name] = true
	}
	return nil
}

// checkNames refuses names that hold what the module was handed in secret.
func (s *Spec) checkNames(m *abi.Metadata) error {
	err := errors.Join(s.Hide.Name("name", m.Name), s.Hide.Name("version", m.Version))
	for _, k := range m.Kinds {
		err = errors.Join(err, s.Hide.Name("kinds: a name", k.Name))
	}
	if err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	return nil
}

func checkStream(s abi.Stream, scans bool) error {
	switch s.Mode {
	case abi.StreamWindow:
		if s.Lookbehind < 1 || s.Lookbehind > maxLookbehind {
			return fmt.Errorf("stream.lookbehind %d: want 1–%d bytes with mode %q", s.Lookbehind, maxLookbehind, s.Mode)
		}
		return nil
	case abi.StreamNone, abi.StreamStateful:
	case "":
		if scans {
			return fmt.Errorf("stream.mode is missing: want %q, %q or %q", abi.StreamNone, abi.StreamWindow, abi.StreamStateful)
		}
	default:
		return fmt.Errorf("stream.mode %q: want %q, %q or %q", quote.Short(s.Mode, 40), abi.StreamNone, abi.StreamWindow,
			abi.StreamStateful)
	}
	if s.Lookbehind != 0 {
		return fmt.Errorf("stream.lookbehind %d: only mode %q has one", s.Lookbehind, abi.StreamWindow)
	}
	return nil
}

var triggerClasses = []string{"digits", "at", "base64", "hex"}

func checkTriggers(triggers []abi.Trigger) error {
	if len(triggers) > maxTriggers {
		return fmt.Errorf("%d triggers: at most %d are allowed", len(triggers), maxTriggers)
	}
	for i, t := range triggers {
		switch {
		case (t.Literal == "") == (t.Class == ""):
			return fmt.Errorf("triggers[%d]: want exactly one of literal and class", i)
		case len(t.Literal) > maxLiteral:
			return fmt.Errorf("triggers[%d].literal of %d bytes: at most %d are allowed", i, len(t.Literal), maxLiteral)
		case t.Class != "" && !slices.Contains(triggerClasses, t.Class):
			return fmt.Errorf("triggers[%d].class %q: want one of %q", i, quote.Short(t.Class, 40), triggerClasses)
		case t.Class != "" && t.Fold:
			return fmt.Errorf("triggers[%d].fold: only a literal has a case", i)
		case t.Literal != "" && t.Min != 0:
			return fmt.Errorf("triggers[%d].min: only a class has a shortest run", i)
		case t.Class != "" && (t.Min < 1 || t.Min > maxRun):
			return fmt.Errorf("triggers[%d].min %d: want 1–%d", i, t.Min, maxRun)
		}
	}
	return nil
}

// checkNeeds refuses limits below which the module says it cannot work.
func checkNeeds(n abi.Needs, s *Spec) error {
	if n.MemoryBytes > 0 && uint64(n.MemoryBytes) > s.Memory {
		return fmt.Errorf("the module needs %d bytes of memory: the limit is %d", n.MemoryBytes, s.Memory)
	}
	if ms := s.Timeout.Milliseconds(); int64(n.DeadlineMS) > ms {
		return fmt.Errorf("the module needs %d ms for a call: the limit is %d", n.DeadlineMS, ms)
	}
	return nil
}
