package host

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk/abi"
)

// The gateway and its child processes talk in frames over the child's stdin and stdout: the body's length (u32), what
// it is (u8), which call it belongs to (u64), the body; numbers are little-endian. Both ends are the same binary, so
// there is no version. The gateway believes nothing that a child says: a frame that is too long, unknown or wrong ends
// the child.
const (
	frameLoad   = 1 // to the child: a Spec without its code as JSON, then the code
	frameScan   = 2
	frameCheck  = 3
	frameCancel = 4 // nobody waits for the answer any more
	frameAnswer = 5 // to frameSchema: "" or what is wrong

	frameReady    = 16 // from a worker: the module's loaded
	frameFailed   = 17 // from a worker: it cannot be loaded, and why
	frameSchema   = 18 // a question: is the config right by this JSON Schema?
	frameLog      = 19
	frameFindings = 20 // answers a scan
	frameVerdict  = 21 // answers a check
	frameFault    = 22 // answers either
	frameStage    = 23 // from an admission: what is tried next
	frameAdmitted = 24 // from an admission: what came out
)

const (
	frameHead = 4 + 1 + 8

	// keepBuffer bounds the buffers that are kept for the next frame, bytes.
	keepBuffer = 1 << 20

	maxSpec     = MaxConfig + 64<<10 // a Spec without code, as JSON
	maxText     = 2 << 10            // an error's text
	maxMetadata = 4 * abi.MaxPut     // as JSON that we wrote ourselves, which may escape more than the author did
	maxLogText  = 4 * abi.MaxLogLine // bad bytes were replaced by three
)

// fromChild are the frames that a child may send, with the most bytes a body of each has.
var fromChild = map[byte]uint32{
	frameReady: maxMetadata + maxText, frameFailed: 4*maxText + chain.HeardMost, frameSchema: maxMetadata,
	frameLog: maxLogText + 16, frameFindings: abi.MaxFindings*(abi.MaxReplacement+128) + abi.MaxState + abi.MaxPut + 256,
	frameVerdict: maxReason + 512, frameFault: 4*maxText + chain.HeardMost, frameStage: maxText,
	frameAdmitted: maxMetadata + 64<<10,
}

// toChild are the frames that the gateway sends. A scan's body is bounded by the module's memory.
func toChild(memory uint64) map[byte]uint32 {
	scan := memory + abi.MaxState + abi.MaxHits*abi.HitSize + 64
	return map[byte]uint32{frameLoad: maxSpec + abi.MaxModule + 16, frameScan: uint32(min(scan, math.MaxUint32)),
		frameCheck: uint32(min(memory+64, math.MaxUint32)), frameCancel: 0, frameAnswer: maxText}
}

// errFrame is a frame that breaks the rules above.
var errFrame = errors.New("bad frame")

// frames reads frames. It is not safe for concurrent use.
type frames struct {
	r      *bufio.Reader
	limits map[byte]uint32
	head   [frameHead]byte // here, because on the stack it would escape with every frame
}

func readFrames(r io.Reader, limits map[byte]uint32) *frames {
	return &frames{r: bufio.NewReaderSize(r, 64<<10), limits: limits}
}

// next reads one frame; its body is in buf if that is large enough. The error is io.EOF only between two frames.
func (f *frames) next(buf []byte) (kind byte, id uint64, body []byte, err error) {
	if _, err := io.ReadFull(f.r, f.head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("%w: it ends within its head", errFrame)
		}
		return 0, 0, nil, err
	}
	n, kind := binary.LittleEndian.Uint32(f.head[:]), f.head[4]
	most, known := f.limits[kind]
	switch {
	case !known:
		return 0, 0, nil, fmt.Errorf("%w: type %d is not expected here", errFrame, kind)
	case n > most:
		return 0, 0, nil, fmt.Errorf("%w: type %d with %d bytes: at most %d are allowed", errFrame, kind, n, most)
	}
	if body, err = f.body(buf, int(n)); err != nil {
		return 0, 0, nil, fmt.Errorf("%w: it ends within its body", errFrame)
	}
	return kind, binary.LittleEndian.Uint64(f.head[5:]), body, nil
}

// body reads n bytes. What is announced is not allocated before it arrives, beyond keepBuffer.
func (f *frames) body(buf []byte, n int) ([]byte, error) {
	if n <= cap(buf) {
		_, err := io.ReadFull(f.r, buf[:n])
		return buf[:n], err
	}
	if n <= keepBuffer {
		buf = make([]byte, n)
		_, err := io.ReadFull(f.r, buf)
		return buf, err
	}
	buf = buf[:0]
	for len(buf) < n {
		step := min(n-len(buf), max(len(buf), keepBuffer))
		if cap(buf)-len(buf) < step {
			buf = append(make([]byte, 0, len(buf)+step), buf...)
		}
		if _, err := io.ReadFull(f.r, buf[len(buf):len(buf)+step]); err != nil {
			return nil, err
		}
		buf = buf[:len(buf)+step]
	}
	return buf, nil
}

// beginFrame starts a frame in buf, whose content is lost.
func beginFrame(buf []byte, kind byte, id uint64) []byte {
	buf = append(buf[:0], 0, 0, 0, 0, kind)
	return binary.LittleEndian.AppendUint64(buf, id)
}

// endFrame fills in the length. The frame is written with one Write.
func endFrame(frame []byte) []byte {
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-frameHead))
	return frame
}

func simpleFrame(kind byte, id uint64, body []byte) []byte {
	return endFrame(append(beginFrame(make([]byte, 0, frameHead+len(body)), kind, id), body...))
}

// kept is buf for the next frame, or nil when it has grown large.
func kept(buf []byte) []byte {
	if cap(buf) > keepBuffer {
		return nil
	}
	return buf[:0]
}

func appendText[T ~string | ~[]byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// fields takes a body apart. After the first thing that is wrong all it gives is empty; end tells.
type fields struct {
	b   []byte
	bad string // which field was wrong first
}

func (f *fields) fail(name string) {
	if f.bad == "" {
		f.bad = name
	}
	f.b = nil
}

// number reads one of at most most.
func (f *fields) number(name string, most uint64) uint64 {
	v, n := binary.Uvarint(f.b)
	if n <= 0 || v > most {
		f.fail(name)
		return 0
	}
	f.b = f.b[n:]
	return v
}

// text reads bytes, at most most. They alias the body.
func (f *fields) text(name string, most int) []byte {
	n := f.number(name, uint64(most))
	if n > uint64(len(f.b)) {
		f.fail(name)
		return nil
	}
	s := f.b[:n:n]
	f.b = f.b[n:]
	return s
}

func (f *fields) u32(name string) uint32 {
	if len(f.b) < 4 {
		f.fail(name)
		return 0
	}
	v := binary.LittleEndian.Uint32(f.b)
	f.b = f.b[4:]
	return v
}

// end says what was wrong with the body, also that it goes on after its last field.
func (f *fields) end() error {
	if f.bad == "" && len(f.b) > 0 {
		f.bad = "end"
	}
	if f.bad != "" {
		return fmt.Errorf("%w: its %s is wrong", errFrame, f.bad)
	}
	return nil
}
