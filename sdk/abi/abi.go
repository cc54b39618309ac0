// Package abi is the WASM ABI, version 1, as constants: the names a module exports and imports, status codes, flags and
// the metadata document. Guests (sdk/scanner) and the host (core/wasm/host) both read it, so neither can drift. It owns
// no behaviour beyond packing and must never import anything but the standard library.
package abi

// Names of the exports and imports.
const (
	Version = 1

	ImportModule = "yett_v1"

	ExportMemory     = "memory"
	ExportMarker     = "yett_abi_v1"   // ()->(), never called
	ExportInitialize = "_initialize"   // ()->(), optional: a WASI reactor's constructor
	ExportBuffer     = "yett_buffer"   // (n i32)->i32 pointer, 8-aligned, 0 = refused
	ExportInit       = "yett_init"     // (n i32)->i32 status; buffer holds InitConfig as JSON
	ExportScan       = "yett_scan"     // (state i32, n i32, flags i32)->i32 status
	ExportCheck      = "yett_check"    // (n i32, flags i32)->i32 status
	ExportDescribe   = "yett_describe" // ()->i32 status, optional: emits metadata through put(SlotMetadata)

	// (kind_ptr,kind_len,start,end i32, confidence f32, severity,action i32, repl_ptr,repl_len i32)->i32
	ImportEmit   = "emit"
	ImportDecide = "decide" // (effect, code_ptr,code_len, reason_ptr,reason_len, ttl_ms i32)->i32
	ImportPut    = "put"    // (slot, ptr, len i32)->i32
	ImportLog    = "log"    // (level, ptr, len i32)

	// MetaSection is the custom section that holds Metadata as JSON.
	MetaSection = "yett.meta"
)

// WASI lists the functions of wasi_snapshot_preview1 that a module may import; all are powerless.
var WASI = []string{
	"args_get", "args_sizes_get", "clock_time_get", "environ_get", "environ_sizes_get", "fd_close", "fd_fdstat_get",
	"fd_fdstat_set_flags", "fd_prestat_dir_name", "fd_prestat_get", "fd_write", "poll_oneoff", "proc_exit", "random_get",
	"sched_yield",
}

// WASIModule is the module name of those imports.
const WASIModule = "wasi_snapshot_preview1"

// Status codes an export returns. Every status but OK is an error, never "clean". From AuthorStatus on they are the
// author's.
const (
	StatusOK          = 0
	StatusBadConfig   = 1
	StatusUnsupported = 2
	StatusInternal    = 3
	AuthorStatus      = 64
)

// Flags of yett_scan and yett_check. The high 24 bits of a scan's flags hold the number of hits behind the window.
const (
	FlagFirst        = 1
	FlagFinal        = 2
	FlagStream       = 4
	FlagUTF8         = 8
	FlagTruncated    = 16
	FlagDryRun       = 32
	FlagHitsComplete = 64

	HitShift = 8
	MaxHits  = 1<<24 - 1
	HitSize  = 8 // (trigger u32, offset u32), little-endian, 4-aligned behind the window
)

// Slots of put.
const (
	SlotError       = 0
	SlotMetadata    = 1
	SlotState       = 2
	SlotAnnotations = 3
)

// Actions a finding suggests.
const (
	ActionFlag    = 0
	ActionRedact  = 1
	ActionReplace = 2
	ActionDeny    = 3
)

// Effects a check decides.
const (
	EffectAbstain = 0
	EffectPermit  = 1
	EffectDeny    = 2
	EffectDefer   = 3
)

// Budgets of one call.
const (
	MaxFindings    = 256
	MaxLogLines    = 32
	MaxLogLine     = 1 << 10
	MaxPut         = 64 << 10
	MaxHostCalls   = 100_000
	MaxReplacement = 4 << 10
	MaxState       = 4 << 10
	MaxModule      = 16 << 20
	// MaxConfigTriggers bounds the entries of all lists of TriggersFrom together.
	MaxConfigTriggers = 10_000
)

// Stream modes a scanner declares.
const (
	StreamNone     = "none"
	StreamWindow   = "window"
	StreamStateful = "stateful"
)

// Metadata is what a module says about itself, in the custom section MetaSection and from yett_describe.
type Metadata struct {
	Name         string         `json:"name"`
	Version      string         `json:"version"`
	ABI          int            `json:"abi"`
	Kinds        []Kind         `json:"kinds,omitempty"` // every kind a scanner may emit
	ConfigSchema map[string]any `json:"config_schema,omitempty"`
	Stream       Stream         `json:"stream"`
	Needs        Needs          `json:"needs"`
	Triggers     []Trigger      `json:"triggers,omitempty"` // none, and none in TriggersFrom: the module always runs
	TriggersFrom []TriggersFrom `json:"triggers_from,omitempty"`
}

// Kind is one kind of finding with its default severity (0–4, info…critical).
type Kind struct {
	Name     string `json:"name"`
	Severity int    `json:"severity"`
}

// Stream says how a scanner works on a text that comes in pieces.
type Stream struct {
	Mode       string `json:"mode"`                 // StreamNone, StreamWindow or StreamStateful
	Lookbehind int    `json:"lookbehind,omitempty"` // bytes; the longest finding, for StreamWindow
}

// Needs are the limits below which the module cannot work. Zero means the host's default is enough.
type Needs struct {
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	DeadlineMS  int   `json:"deadline_ms,omitempty"`
}

// Trigger is a literal or a byte class without one of which the module can find nothing. Exactly one of Literal and
// Class is set.
type Trigger struct {
	Literal string `json:"literal,omitempty"`
	Fold    bool   `json:"fold,omitempty"`  // ASCII case folding of Literal
	Class   string `json:"class,omitempty"` // "digits", "at", "base64", "hex": a run of at least Min bytes of the class
	Min     int    `json:"min,omitempty"`
}

// TriggersFrom names a list of strings in the operator's settings, each of which becomes a trigger. They are numbered
// behind Metadata.Triggers, in the order of TriggersFrom and then of the list, an entry that is there twice twice.
type TriggersFrom struct {
	Path string `json:"path"`           // "/words", "/lists/names": names of settings, each after a slash
	Fold bool   `json:"fold,omitempty"` // ASCII case folding of the entries
}

// InitConfig is the document that yett_init finds in the buffer.
type InitConfig struct {
	ABI    int    `json:"abi"`
	Name   string `json:"name"`             // the name the operator gave the module
	Config any    `json:"config,omitempty"` // the operator's config, checked against ConfigSchema; {} if none
}
