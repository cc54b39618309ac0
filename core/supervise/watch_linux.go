package supervise

import (
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// How often a process is looked at, and how much of its directory.
const (
	watchPause = 200 * time.Millisecond
	diskEach   = 5  // of so many looks
	lookShare  = 20 // a look at ports or holdings takes one part of the time in so many: there may be many

	launcherMost = 48 << 20 // more than a launcher takes
)

// watch kills the process when it goes beyond what the kernel does not limit: the number of its threads, since
// RLIMIT_NPROC counts a whole user and not root, memory that RLIMIT_DATA does not count, its own and the kernel's,
// ports on which it listens, and what it has on disk. It also notes how much memory it had. It returns when the process
// has ended.
func (p *Process) watch(dir string, exited <-chan struct{}) {
	tick := time.NewTicker(watchPause)
	defer tick.Stop()
	l := looking{dir: dir, own: dir, sockets: map[uint32]uint64{}}
	if own, err := filepath.EvalSymlinks(dir); err == nil {
		l.own = own
	}
	for n := 1; ; n++ {
		select {
		case <-exited:
			return
		case <-tick.C:
		}
		over := p.overThreads()
		if over == "" {
			over = p.overMemory()
		}
		if over == "" {
			l.ports.look(func() { over = p.overPorts() })
		}
		if over == "" && n%diskEach == 0 && p.entered.Load() {
			over = p.overStock(&l)
		}
		if over != "" {
			p.stopFor(over)
		}
	}
}

// looking is what looks at a process know of each other.
type looking struct {
	dir, own           string // its working directory, and the same without links, as the kernel tells paths
	ports, holds, disk rest
	flights            int // looks in a row that have seen descriptors in flight

	sockets map[uint32]uint64 // what each socket of a network held, by its inode
}

// overStock looks at what the process has in the kernel and on disk.
func (p *Process) overStock(l *looking) (over string) {
	hidden := uint64(0) // what was seen of it earlier may be gone
	l.holds.look(func() {
		h := p.holds(l.own, l.sockets)
		if l.flights++; h.flight == 0 {
			l.flights = 0
		}
		hidden = h.hidden
		over = p.overHoldings(h, l.flights)
	})
	if over == "" {
		l.disk.look(func() { over = p.overDisk(l.dir, hidden) })
	}
	// the directory may not have been looked at together with them
	if most := p.limits.Disk; over == "" && most > 0 && hidden > most {
		over = fmt.Sprintf("it keeps %d MiB of removed files, limited to %d MiB (limits.disk)", hidden>>20, most>>20)
	}
	return over
}

// rest keeps looks that take long apart.
type rest struct{ until time.Time }

func (r *rest) look(do func()) {
	now := time.Now()
	if now.Before(r.until) {
		return
	}
	do()
	r.until = now.Add(lookShare * time.Since(now))
}

// stopFor kills the process for a reason.
func (p *Process) stopFor(over string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		p.over = over
		p.signal(true)
	}
}

func (p *Process) overThreads() string {
	most := p.limits.Threads
	if most == 0 {
		return ""
	}
	if now, err := statField(p.pid, 17); err == nil && uint64(now) > most { // an error: it has ended
		return fmt.Sprintf("it has %d threads, limited to %d (limits.threads)", now, most)
	}
	return ""
}

// overMemory holds what the process has beside its private pages to the limit of these: pages that it shares, and page
// tables, of which mappings that are only read make as many as one likes.
func (p *Process) overMemory() string {
	if !p.entered.Load() {
		return "" // it is the launcher yet
	}
	m, err := memoryOf(p.pid)
	if err != nil { // it has ended
		return ""
	}
	p.peak.Store(max(p.peak.Load(), m.peak))
	if most := p.limits.Data; most > 0 && m.held() > most+most/8 {
		return fmt.Sprintf("it takes %d MiB of memory with its page tables and what it shares, limited to %d MiB "+
			"(limits.memory)", m.held()>>20, most>>20)
	}
	return ""
}

// peakOf is how much a process had resident at most. What the kernel gave its parent at the end counts from the fork
// on, when it still shared our memory and then was the launcher: that is its own only where it is more than these ever
// had.
func (p *Process) peakOf(told uint64) uint64 {
	var own unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &own); err != nil {
		return p.peak.Load()
	}
	if told > max(uint64(own.Maxrss)*rssUnit, launcherMost) {
		return told
	}
	return p.peak.Load()
}
