package core

import (
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// machine watches what a gateway stands on and cannot change: the wall clock, and the room on the disk of its data.
type machine struct {
	dir    string
	log    func(format string, args ...any)
	uptime func() (boot string, up time.Duration)

	last          time.Duration // the wall clock less the uptime, when it was looked at last
	looked        bool
	forward, back atomic.Uint64 // jumps of the wall clock
	free, size    atomic.Uint64 // bytes; size 0: not known
	running       sync.WaitGroup
}

const (
	machineEvery = 5 * time.Second
	// the wall clock has jumped when it moved so far against the uptime between two looks. Corrections by NTP that do not
	// jump are at most 2.5 ms.
	jumpLeast = time.Second
)

func newMachine(dir string, log func(string, ...any), uptime func() (string, time.Duration)) *machine {
	return &machine{dir: dir, log: log, uptime: uptime}
}

// watch looks until quit is closed.
func (m *machine) watch(quit <-chan struct{}) {
	tick := time.NewTicker(machineEvery)
	defer tick.Stop()
	for {
		m.look(time.Now())
		select {
		case <-tick.C:
		case <-quit:
			return
		}
	}
}

// look looks once. The uptime goes on while the machine is suspended, so that is no jump.
func (m *machine) look(wall time.Time) {
	if boot, up := m.uptime(); boot != "" {
		at := time.Duration(wall.UnixNano()) - up
		moved := at - m.last
		switch {
		case !m.looked || moved.Abs() < jumpLeast:
		case moved > 0:
			m.forward.Add(1)
			m.log("the wall clock jumped forward by %v: by little, it is followed; else it is in doubt, what it makes over is "+
				"refused, and yett clock says how it stands; check the time service of this machine", moved)
		default:
			m.back.Add(1)
			m.log("the wall clock jumped back by %v: the time that keys, grants and approvals end by does not, and runs slower "+
				"until the wall clock is there again; check the time service of this machine", -moved)
		}
		m.last, m.looked = at, true
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(m.dir, &fs); err != nil {
		m.size.Store(0)
		return
	}
	m.free.Store(uint64(fs.Bavail) * uint64(fs.Bsize))
	m.size.Store(uint64(fs.Blocks) * uint64(fs.Bsize))
}
