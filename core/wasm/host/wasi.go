package host

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/yett-dev/yett/sdk/abi"
)

// The error numbers of WASI that we answer with.
const (
	wasiOK       = 0
	wasiBadFD    = 8
	wasiInvalid  = 28
	wasiNotSuppo = 58
)

// Bounds on one WASI call, so that a single one cannot keep the host busy for long.
const (
	maxIOVecs        = 1024
	maxRandom        = 64 << 10
	maxSubscriptions = 64
)

// The guest's clock is a counter: it starts at a fixed date and moves by clockStep whenever it is read, and by what a
// guest wants to sleep. It says nothing about the real time, and two instances see the same.
const (
	clockStart = 946_684_800_000_000_000 // 2000-01-01, ns
	clockStep  = 1_000                   // ns
)

// wasiFuncs are the 15 functions that a Go reactor needs, without any power: no arguments, environment, files, input,
// real clock or sleep; random numbers are the same for every instance of a module; what is printed goes to the log
// budget.
var wasiFuncs = []hostFunc{
	{abi.WASIModule, "args_get", answer(wasiOK)},
	{abi.WASIModule, "args_sizes_get", wasiNoStrings},
	{abi.WASIModule, "clock_time_get", wasiClock},
	{abi.WASIModule, "environ_get", answer(wasiOK)},
	{abi.WASIModule, "environ_sizes_get", wasiNoStrings},
	{abi.WASIModule, "fd_close", wasiStdio},
	{abi.WASIModule, "fd_fdstat_get", wasiStat},
	{abi.WASIModule, "fd_fdstat_set_flags", wasiStdio},
	{abi.WASIModule, "fd_prestat_dir_name", answer(wasiBadFD)},
	{abi.WASIModule, "fd_prestat_get", answer(wasiBadFD)},
	{abi.WASIModule, "fd_write", wasiWrite},
	{abi.WASIModule, "poll_oneoff", wasiPoll},
	{abi.WASIModule, "proc_exit", wasiExit},
	{abi.WASIModule, "random_get", wasiRandom},
	{abi.WASIModule, "sched_yield", answer(wasiOK)},
}

func answer(errno uint64) func(*call, []uint64) {
	return func(_ *call, a []uint64) { a[0] = errno }
}

// wasiNoStrings tells that there are no arguments and no environment.
func wasiNoStrings(c *call, a []uint64) {
	clear(c.view("count", uint32(a[0]), 4))
	clear(c.view("size", uint32(a[1]), 4))
	a[0] = wasiOK
}

func wasiClock(c *call, a []uint64) {
	id := uint32(a[0])
	out := c.view("time", uint32(a[2]), 8)
	if id > 3 {
		a[0] = wasiInvalid
		return
	}
	c.in.clock += clockStep
	now := c.in.clock
	if id == 0 {
		now += clockStart
	}
	binary.LittleEndian.PutUint64(out, now)
	a[0] = wasiOK
}

// wasiStdio answers what is asked of standard input, output and error, the only descriptors there are.
func wasiStdio(_ *call, a []uint64) {
	if uint32(a[0]) > 2 {
		a[0] = wasiBadFD
		return
	}
	a[0] = wasiOK
}

func wasiStat(c *call, a []uint64) {
	stat := c.view("fdstat", uint32(a[1]), 24)
	if uint32(a[0]) > 2 {
		a[0] = wasiBadFD
		return
	}
	clear(stat)
	stat[0] = 2 // a character device, without rights
	a[0] = wasiOK
}

// wasiWrite takes the first maxPrinted bytes and says so: a guest must expect short writes, and a single one of
// gigabytes would keep the host busy.
func wasiWrite(c *call, a []uint64) {
	fd, ptr, n, out := uint32(a[0]), uint32(a[1]), uint32(a[2]), uint32(a[3])
	switch {
	case fd != 1 && fd != 2:
		a[0] = wasiBadFD
		return
	case n > maxIOVecs:
		a[0] = wasiInvalid
		return
	}
	vecs := c.view("iovs", ptr, 8*n)
	c.chargeBytes(len(vecs))
	total := 0
	for i := 0; i < len(vecs) && total < maxPrinted; i += 8 {
		b := c.view("iov", binary.LittleEndian.Uint32(vecs[i:]), binary.LittleEndian.Uint32(vecs[i+4:]))
		b = b[:min(len(b), maxPrinted-total)]
		c.chargeBytes(len(b))
		c.print(int(fd)-1, b)
		total += len(b)
	}
	binary.LittleEndian.PutUint32(c.view("nwritten", out, 4), uint32(total))
	a[0] = wasiOK
}

// print cuts what a guest writes into lines. A line is kept up to its budget, so a guest that prints without line ends
// costs no memory.
func (c *call) print(stream int, b []byte) {
	for len(b) > 0 {
		line, rest, ended := bytes.Cut(b, []byte("\n"))
		room := abi.MaxLogLine + 1 - len(c.printed[stream]) // one more, so that it is known to be too long
		if over := len(line) - room; over > 0 {
			c.log.cut += over
			line = line[:room]
		}
		c.printed[stream] = append(c.printed[stream], line...)
		if ended {
			c.charge(logLineFuel)
			c.log.add(LevelStdout+stream, c.printed[stream])
			c.printed[stream] = c.printed[stream][:0]
		}
		b = rest
	}
}

// wasiPoll lets every wanted time pass at once, and has no descriptors that could become ready.
func wasiPoll(c *call, a []uint64) {
	in, out, n := uint32(a[0]), uint32(a[1]), uint32(a[2])
	if n == 0 || n > maxSubscriptions {
		a[0] = wasiInvalid
		return
	}
	c.chargeBytes(80 * int(n))
	subs := bytes.Clone(c.view("subscriptions", in, 48*n)) // events may overwrite them
	events := c.view("events", out, 32*n)
	var latest uint64
	for i := range n {
		sub, event := subs[48*i:], events[32*i:32*i+32]
		clear(event)
		copy(event, sub[:8]) // user data
		event[10] = sub[8]   // what kind
		if sub[8] != 0 {
			binary.LittleEndian.PutUint16(event[8:], wasiNotSuppo)
			continue
		}
		until := binary.LittleEndian.Uint64(sub[24:])
		if sub[40]&1 != 0 { // absolute
			if binary.LittleEndian.Uint32(sub[16:]) == 0 {
				until -= min(until, clockStart)
			}
			until -= min(until, c.in.clock)
		}
		latest = max(latest, until)
	}
	c.in.clock += min(latest, math.MaxInt64-clockStart-min(c.in.clock, math.MaxInt64-clockStart))
	binary.LittleEndian.PutUint32(c.view("nevents", uint32(a[3]), 4), n)
	a[0] = wasiOK
}

func wasiExit(c *call, a []uint64) { c.fault(ErrExit, "code %d", uint32(a[0])) }

func wasiRandom(c *call, a []uint64) {
	n := uint32(a[1])
	if n > maxRandom {
		a[0] = wasiInvalid
		return
	}
	c.charge(int(n) * randomByteFuel)
	// Read never fails and always fills the whole slice.
	_, _ = c.in.random.Read(c.view("random", uint32(a[0]), n))
	a[0] = wasiOK
}
