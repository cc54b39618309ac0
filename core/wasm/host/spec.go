package host

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/quote"
	"github.com/yett-dev/yett/sdk/abi"
	"github.com/yett-dev/yett/sdk/exact"
)

// Isolation says what one call may find of the calls before it.
type Isolation uint8

const (
	// Reset puts memory and globals back to what they were after yett_init when a call has ended, so no call sees anything
	// of another. A module that has more state than that runs as Fresh; Module.Isolation tells.
	Reset Isolation = iota
	// Fresh makes an instance for each call and throws it away. Where the module can be reset an instance starts from its
	// snapshot; otherwise it costs what the module's start costs (20 µs for a small C or Rust guest, 5–16 ms for Go).
	Fresh
	// Pooled reuses instances. The input buffer is cleared between calls, the rest of the guest's memory is not: a guest
	// may remember what it read, so this is for modules that are trusted.
	Pooled
)

// String is the name in the config.
func (i Isolation) String() string {
	switch i {
	case Reset:
		return "reset"
	case Fresh:
		return "fresh"
	case Pooled:
		return "pooled"
	}
	return fmt.Sprintf("isolation(%d)", uint8(i))
}

// Defaults and bounds of a Spec. A page of WASM memory is 64 KiB.
const (
	DefaultMemory    = 64 << 20
	DefaultTimeout   = time.Second
	DefaultStart     = 10 * time.Second
	DefaultInstances = 4
	DefaultSlack     = 8 << 20

	MaxMemory    = 1 << 30
	MaxTimeout   = 5 * time.Minute
	MaxInstances = 256
	MaxConfig    = 1 << 20

	pageSize = 64 << 10
)

// Spec describes one module to load. Zero values take the defaults above.
type Spec struct {
	RequireConfine bool // in a process of its own, it does not start where the kernel lacks a part of the confinement

	Name   string          // what the operator calls it; findings carry it
	Code   []byte          // the module's bytes; must not change while Load runs
	Config json.RawMessage // a JSON object for yett_init; none is {}
	// of what of Config is secret: nothing that the module says shows that. nil hides nothing
	Hide *chain.Hider `json:"-"`

	Memory    uint64        // bytes of linear memory an instance may have; rounded down to pages
	Timeout   time.Duration // longest run of one call, without the wait for an instance; the context may be shorter
	Start     time.Duration // longest start of one instance: _initialize, yett_init, yett_describe
	Instances int           // most instances at once
	Isolation Isolation

	// Fuel is the most units that one call may use, about one for each instruction of the guest. It ends a call that runs
	// too long at the same place on every machine; Timeout is the backstop for what it does not count. 0 derives it from
	// Timeout: FuelPerMillisecond for each.
	Fuel uint64

	startFuel uint64 // as Fuel, for Start; always derived but in tests

	// Slack is how many bytes the memory of a pooled instance may exceed its size after yett_init. WASM memory never
	// shrinks, so an instance that grew further is discarded after the call.
	Slack uint64
}

var specName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// withDefaults fills in the zero values and checks the rest.
func (s Spec) withDefaults() (Spec, error) {
	if !specName.MatchString(s.Name) {
		return s, fmt.Errorf("name %q: want 1–64 letters, digits, '.', '_' or '-'", quote.Short(s.Name, 80))
	}
	if s.Memory == 0 {
		s.Memory = DefaultMemory
	}
	if s.Timeout == 0 {
		s.Timeout = DefaultTimeout
	}
	if s.Start == 0 {
		s.Start = DefaultStart
	}
	if s.Instances == 0 {
		s.Instances = DefaultInstances
	}
	if s.Fuel == 0 && s.Timeout > 0 {
		s.Fuel = derivedFuel(s.Timeout)
	}
	if s.startFuel == 0 && s.Start > 0 {
		s.startFuel = derivedFuel(s.Start)
	}
	if s.Slack == 0 {
		s.Slack = DefaultSlack
	}
	switch {
	case s.Memory < pageSize || s.Memory > MaxMemory:
		return s, fmt.Errorf("memory %d bytes: want %d–%d", s.Memory, pageSize, MaxMemory)
	case s.Timeout < 0 || s.Timeout > MaxTimeout:
		return s, fmt.Errorf("timeout %v: want more than 0 and at most %v", s.Timeout, MaxTimeout)
	case s.Start < 0 || s.Start > MaxTimeout:
		return s, fmt.Errorf("start %v: want more than 0 and at most %v", s.Start, MaxTimeout)
	case s.Instances < 0 || s.Instances > MaxInstances:
		return s, fmt.Errorf("instances %d: want 1–%d", s.Instances, MaxInstances)
	case s.Isolation > Pooled:
		return s, fmt.Errorf("isolation %d is not known", s.Isolation)
	case s.Fuel > MaxFuel:
		return s, fmt.Errorf("fuel %d units: want at most %d", s.Fuel, MaxFuel)
	case s.Slack > MaxMemory:
		return s, fmt.Errorf("slack %d bytes: want at most %d", s.Slack, MaxMemory)
	}
	return s.withConfig()
}

func (s Spec) withConfig() (Spec, error) {
	if len(s.Config) > MaxConfig {
		return s, fmt.Errorf("config of %d bytes: want at most %d", len(s.Config), MaxConfig)
	}
	if len(bytes.TrimSpace(s.Config)) == 0 {
		s.Config = json.RawMessage("{}")
	}
	var doc exact.Doc
	if err := doc.Parse(string(s.Config), exact.DefaultLimits); err != nil {
		return s, fmt.Errorf("config: %w", err)
	}
	if k := doc.Root().Kind(); k != exact.Object {
		return s, fmt.Errorf("config: want an object, got %s", k)
	}
	return s, nil
}

// initDocument is what yett_init finds in the buffer.
func (s *Spec) initDocument() ([]byte, error) {
	return json.Marshal(abi.InitConfig{ABI: abi.Version, Name: s.Name, Config: s.Config})
}

func (s *Spec) pages() uint32 { return uint32(s.Memory / pageSize) }
