package supervise

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

// holdings are what a process and its descendants hold of the kernel's memory, and of the disk, that no limit of a
// process counts.
type holdings struct {
	registrations int // of files with epoll instances
	locks         int // of files and their ranges
	instances     int // of inotify, each with its queue
	watches       int // of inotify, each with the file that it pins
	pipes         int
	sockets       int // of Unix
	ip            int // sockets of every other kind, and connections that wait to be accepted
	flight        int // descriptors that wait in sockets

	ipHeld  uint64 // bytes of the kernel's that those take now
	largest uint64 // bytes of memory of the largest descendant, page tables and what it shares included

	processes int    // the process and its descendants
	together  memory // of all of them

	shared uint64 // bytes of files in memory without a name
	hidden uint64 // bytes of removed files that are open or mapped
}

// What one of each takes of the kernel's memory at most, in bytes.
const (
	registrationSize = 256
	lockSize         = 256
	watchSize        = 1280 // a mark, and a file's inode
	eventSize        = 512  // with a long name
	pipeSize         = 64 << 10
)

// The bounds on what all processes of a user share, where who takes it all takes it from the gateway too, and on what
// takes long to count.
const (
	registrationsEach = 64 // for each file that a process may open
	registrationsMost = 1 << 16
	watchesMost       = 1 << 16
	locksMost         = 1 << 16
	instancesMost     = 16
	flightMost        = 16 // at once
	flightLooks       = 10 // in a row that see any: who is sent a descriptor takes it
)

// parts are what takes memory of the kernel's: how many there are, and what all of one kind take at most.
func (h *holdings) parts() []part {
	s := sizesHere()
	return []part{
		{"epoll registrations", h.registrations, registrationSize}, {"inotify instances", h.instances, s.queue},
		{"inotify watches", h.watches, watchSize}, {"pipes", h.pipes, pipeSize}, {"Unix sockets", h.sockets, s.socket}, {"file locks", h.locks, lockSize},
		{"network sockets", h.ip, h.ipHeld / uint64(max(1, h.ip))},
	}
}

type part struct {
	what string
	n    int
	each uint64
}

func (p part) size() uint64 { return uint64(p.n) * p.each }

// kernel is what the holdings take of the kernel's memory at most.
func (h *holdings) kernel() (sum uint64) {
	for _, p := range h.parts() {
		sum += p.size()
	}
	return sum
}

// String names what takes most of it.
func (h *holdings) String() string {
	const little = 1 << 20
	var all []string
	for _, p := range h.parts() {
		if p.size() >= little {
			all = append(all, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return strings.Join(all, ", ")
}

// sizesHere are those that the machine's operator sets: of an inotify queue that is full, and of a Unix socket that
// nobody reads.
var sizesHere = sync.OnceValue(func() (s struct{ queue, socket, reset uint64 }) {
	s.queue = setting("fs/inotify/max_queued_events", 16384) * eventSize
	s.reset = setting("net/core/rmem_default", 212992)
	s.socket = setting("net/core/wmem_default", 212992) * 3 / 2 // with the one message that goes beyond
	return s
})

func setting(name string, otherwise uint64) uint64 {
	text, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return otherwise
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return otherwise
	}
	return n
}

// mostRegistrations is how many registrations with epoll instances there may be.
func (l *Limits) mostRegistrations() int {
	return max(registrationsMost, registrationsEach*int(min(l.Files, 1<<20)))
}

// overHoldings holds what the process and its descendants have in the kernel to limits.memory, together with their
// memory. flights is how many looks in a row have seen descriptors in flight. What was counted until there was too much
// is told as "more than".
func (p *Process) overHoldings(h *holdings, flights int) string {
	registrations := p.limits.mostRegistrations()
	switch {
	case h.registrations > registrations:
		return fmt.Sprintf("it has more than %d epoll registrations: %d for each file of limits.files, and at least %d",
			registrations, registrationsEach, registrationsMost)
	case h.watches > watchesMost:
		return fmt.Sprintf("it has more than %d inotify watches", watchesMost)
	case h.locks > locksMost:
		return fmt.Sprintf("it has more than %d file locks", locksMost)
	case h.instances > instancesMost:
		return fmt.Sprintf("it has %d inotify instances, limited to %d", h.instances, instancesMost)
	case h.flight > flightMost:
		return fmt.Sprintf("%d descriptors wait in its sockets, limited to %d", h.flight, flightMost)
	case flights >= flightLooks:
		return fmt.Sprintf("descriptors wait in its sockets, and did so each of %d times that it was looked at", flights)
	}
	most := p.limits.Data
	if most > 0 && h.largest > most+most/8 {
		return fmt.Sprintf("one of its processes takes %d MiB of memory with its page tables and what it shares, limited "+
			"to %d MiB (limits.memory)", h.largest>>20, most>>20)
	}
	if held := h.together.own + max(h.together.shared, h.shared); most > 0 && held+h.kernel() > most+most/8 {
		told := "it takes"
		if h.processes > 1 {
			told = fmt.Sprintf("its %d processes take", h.processes)
		}
		told += fmt.Sprintf(" %d MiB of memory", held>>20)
		if parts := h.String(); parts != "" {
			told += fmt.Sprintf(" and up to %d MiB of the kernel's (%s)", h.kernel()>>20, parts)
		}
		return told + fmt.Sprintf(", limited to %d MiB (limits.memory)", most>>20)
	}
	return ""
}
