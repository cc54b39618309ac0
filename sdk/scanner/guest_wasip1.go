package scanner

import (
	"unsafe"

	"github.com/yett-dev/yett/sdk/abi"
)

// Main does nothing in a module: the runtime calls init only, and the host the exports below.
func Main() {}

// maxBuffer refuses windows that no host sends; bytes.
const maxBuffer = 256 << 20

// buffer is what the host writes to, as words so that it is 8-aligned. It only grows, and starts with room for the
// usual window and its hits: an instance whose memory grows after init is thrown away by the host.
var buffer = make([]uint64, firstBuffer/8)

const firstBuffer = 160 << 10

//go:wasmimport yett_v1 emit
func hostEmit(kind unsafe.Pointer, kindLen, start, end int32, confidence float32, severity, action int32,
	repl unsafe.Pointer, replLen int32) int32

//go:wasmimport yett_v1 decide
func hostDecide(effect int32, code unsafe.Pointer, codeLen int32, reason unsafe.Pointer, reasonLen, ttlMS int32) int32

//go:wasmimport yett_v1 put
func hostPut(slot int32, data unsafe.Pointer, n int32) int32

//go:wasmimport yett_v1 log
func hostLog(level int32, data unsafe.Pointer, n int32)

//go:wasmexport yett_abi_v1
func exportMarker() {}

//go:wasmexport yett_buffer
func exportBuffer(n int32) int32 {
	if n < 0 || n > maxBuffer {
		return 0
	}
	if words := (int(n) + 7) / 8; words > len(buffer) {
		buffer = make([]uint64, words)
	}
	return int32(uintptr(unsafe.Pointer(&buffer[0])))
}

// bytes is the buffer as the host filled it; n is checked against its size.
func bytes(n int) ([]byte, bool) {
	if n < 0 || n > len(buffer)*8 {
		return nil, false
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&buffer[0])), n), true
}

//go:wasmexport yett_init
func exportInit(n int32) int32 {
	doc, ok := bytes(int(n))
	if !ok || registered == nil {
		return fail(abi.StatusInternal, "init without a buffer or a registered scanner")
	}
	config, err := configOf(doc)
	if err == nil {
		err = registered.init(append([]byte(nil), config...))
	}
	if err != nil {
		return fail(abi.StatusBadConfig, err.Error())
	}
	return abi.StatusOK
}

//go:wasmexport yett_scan
func exportScan(state, n, flags int32) int32 {
	m := registered
	hits := int(uint32(flags) >> abi.HitShift)
	window := int(state) + int(n)
	hitsAt := (window + 3) &^ 3
	total := window
	if hits > 0 {
		total = hitsAt + hits*abi.HitSize
	}
	all, ok := bytes(total)
	if !ok || state < 0 || n < 0 || m == nil {
		return fail(abi.StatusInternal, "scan without a buffer or a registered scanner")
	}
	m.in.State, m.in.Text = all[:state], all[state:window]
	m.in.Flags = uint32(flags) & (1<<abi.HitShift - 1)
	m.in.complete = m.in.Flags&abi.FlagHitsComplete != 0
	m.in.hostHits = nil
	if hits > 0 {
		m.in.hostHits = all[hitsAt:total]
	}
	if err := m.scan(); err != nil {
		return fail(statusOf(err), err.Error())
	}
	return m.send()
}

// send hands the findings and what else the scan left to the host.
func (m *machine) send() int32 {
	for i := range m.out.found {
		f := &m.out.found[i]
		kind, kindLen := text(f.Kind)
		repl, replLen := text(f.Replacement)
		if hostEmit(kind, kindLen, int32(f.Start), int32(f.End), f.Confidence, int32(f.Severity), int32(f.Action), repl,
			replLen) != 0 {
			break // the host has what it wants; it says so, nothing is dropped here
		}
	}
	if m.out.merged {
		msg, n := text("more findings than allowed: the last one covers the rest")
		hostLog(1, msg, n)
	}
	if m.out.state != nil {
		hostPut(abi.SlotState, unsafe.Pointer(unsafe.SliceData(m.out.state)), int32(len(m.out.state)))
	}
	if m.out.notes != nil {
		hostPut(abi.SlotAnnotations, unsafe.Pointer(unsafe.SliceData(m.out.notes)), int32(len(m.out.notes)))
	}
	return abi.StatusOK
}

//go:wasmexport yett_check
func exportCheck(n, flags int32) int32 {
	call, ok := bytes(int(n))
	if !ok || registered == nil || !registered.ready {
		return fail(abi.StatusInternal, "check before init")
	}
	if registered.spec.Check == nil {
		return fail(abi.StatusUnsupported, "this module only scans")
	}
	var d Decision
	if err := registered.spec.Check(call, &d); err != nil {
		return fail(statusOf(err), err.Error())
	}
	code, codeLen := text(d.Code)
	reason, reasonLen := text(d.Reason)
	if hostDecide(int32(d.Effect), code, codeLen, reason, reasonLen, int32(d.TTLms)) != 0 {
		return abi.StatusInternal
	}
	return abi.StatusOK
}

//go:wasmexport yett_describe
func exportDescribe() int32 {
	if registered == nil {
		return fail(abi.StatusInternal, "no scanner is registered")
	}
	doc := registered.describe()
	if hostPut(abi.SlotMetadata, unsafe.Pointer(unsafe.SliceData(doc)), int32(len(doc))) != 0 {
		return abi.StatusInternal
	}
	return abi.StatusOK
}

func fail(status int32, msg string) int32 {
	p, n := text(msg)
	hostPut(abi.SlotError, p, n)
	return status
}

func text(s string) (unsafe.Pointer, int32) {
	return unsafe.Pointer(unsafe.StringData(s)), int32(len(s))
}
