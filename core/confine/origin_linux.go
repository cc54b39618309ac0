package confine

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Origin says which gateway has started a process, or what started it. It is left in the limit on resident pages
// (RLIMIT_RSS), which no kernel since Linux 2.4 applies, as a number of bytes that no machine has. Children inherit it,
// everybody can read it, and the filter keeps a confined process from changing it.
type Origin struct {
	Pid  int    // of the gateway
	Born uint64 // when that was started, in the kernel's ticks since the machine was
}

// The bits of a limit that holds an origin, from the top: one that stays zero, the sign, the number, the ticks.
const (
	originSign          = 0x5945
	originPid, bornBits = 22, 25
)

// Limit is the limit that tells the origin.
func (o Origin) Limit() uint64 {
	return originSign<<(originPid+bornBits) | uint64(o.Pid)<<bornBits | o.Born&(1<<bornBits-1)
}

// Leave leaves the origin in the calling process. It fails where somebody has limited resident pages before, and may
// not raise the limit.
func (o Origin) Leave() error {
	if o.Pid <= 0 || o.Pid >= 1<<originPid {
		return fmt.Errorf("process %d has no number that can be left", o.Pid)
	}
	most := o.Limit()
	return unix.Setrlimit(unix.RLIMIT_RSS, &unix.Rlimit{Cur: most, Max: most})
}

// Is says whether a process that has the number of the origin, and was started then, is that gateway.
func (o Origin) Is(born uint64) bool { return o.Born == born&(1<<bornBits-1) }

// OriginAt reads the origin of a marked process from its place in /proc. None: it has none, or nobody has marked it.
func OriginAt(place string) (o Origin, found bool) {
	limits, err := os.ReadFile(place + "/limits")
	if err != nil {
		return o, false // it has ended, or hides
	}
	return originIn(string(limits))
}

func originIn(limits string) (o Origin, found bool) {
	if !isMarked(limits) {
		return o, false
	}
	text, _ := hardLimit(limits, "Max resident set ")
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n>>(originPid+bornBits) != originSign {
		return o, false
	}
	return Origin{Pid: int(n >> bornBits & (1<<originPid - 1)), Born: n & (1<<bornBits - 1)}, true
}

// hardLimit is a limit of /proc/PID/limits that the process cannot raise.
func hardLimit(limits, name string) (text string, found bool) {
	for line := range strings.Lines(limits) {
		if rest, is := strings.CutPrefix(line, name); is {
			if f := strings.Fields(rest); len(f) > 1 {
				return f[1], true
			}
			return "", true
		}
	}
	return "", false
}

// MarkedAt says whether a gateway has marked a process, by its place in /proc.
func MarkedAt(place string) bool {
	limits, err := os.ReadFile(place + "/limits")
	return err == nil && isMarked(string(limits))
}

func isMarked(limits string) bool {
	text, _ := hardLimit(limits, "Max file locks ")
	return text == "0"
}
