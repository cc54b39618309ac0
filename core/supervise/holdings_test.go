//go:build linux && (amd64 || arm64)

package supervise

import (
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/yett-dev/yett/core/confine"
	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/core/testkit/intruder"
)

func init() {
	for name, hoard := range map[string]func(){
		"registers": registers, "watches": watches, "pipes": pipes, "fifos": fifos, "talks": talks, "locks": locks,
		"fills-mapped": fillMapped, "remembers": remembers, "flies": func() { flies(64) }, "flies-on": func() { flies(1) },
		"notified":         notified,
		"connects":         func() { connects("127.0.0.1:0", true) },
		"connects6":        func() { connects("[::1]:0", true) },
		"waits-accept":     func() { connects("127.0.0.1:0", false) },
		"resets":           resets,
		"datagrams":        func() { datagrams("127.0.0.1:0") },
		"datagrams6":       func() { datagrams("[::1]:0") },
		"connects-child":   func() { spawn("connects") },
		"duplicates":       duplicates,
		"registers-child":  func() { spawn("registers") },
		"shares-child":     func() { spawn("shares") },
		"shares-orphan":    func() { spawn("orphaned", "shares") },
		"maps-child":       func() { spawn("maps") },
		"shares":           shares,
		"spreads-child":    func() { spawnAll(12, "takes-some") },
		"takes-some":       func() { touch(20<<20, unix.MAP_PRIVATE) },
		"fills-child":      func() { spawn("fills-hidden") },
		"registers-orphan": func() { spawn("orphaned", "registers") },
	} {
		modes[name] = func([]string) { hoard(); hang() }
	}
	modes["many"] = func([]string) {
		at, err := unix.EpollCreate1(0)
		must(err)
		for range 20 {
			p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			must(err)
			for _, fd := range p {
				must(unix.EpollCtl(at, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN}))
			}
		}
		os.Stdout.WriteString("x")
		hang()
	}
	modes["copied"] = func([]string) {
		touch(64<<20, unix.MAP_PRIVATE)
		copies(3)
		os.Stdout.WriteString("x")
		hang()
	}
	modes["begins-another"] = func([]string) {
		touch(64<<20, unix.MAP_PRIVATE)
		os.Stdout.WriteString("x")
		runtime.LockOSThread()
		unix.RawSyscall(unix.SYS_CLONE, unix.CLONE_VM|unix.CLONE_VFORK|uintptr(unix.SIGCHLD), 0, 0)
		for { // in the child, which has the memory of this process and runs until it is killed
			unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
		}
	}
	modes["orphaned"] = func(args []string) { spawn(args[0]) }
	for name, hoard := range map[string]func(){"registers": registers, "maps": func() {
		intruder.Map(512 << 20)
	}, "listens": listens} {
		modes[name+"-leaderless"] = func([]string) {
			go func() { hoard(); hang() }()
			unix.Syscall(unix.SYS_EXIT, 0, 0, 0) // of the first thread, to which this is tied
		}
	}
	for name, hoard := range map[string]func(){"registers": registers, "fills-hidden": func() {
		modes["fills-hidden"](nil)
	}} {
		modes[name+"-apart"] = func([]string) { go apart(hoard); hang() }
	}
	if len(os.Args) > 1 && (strings.HasSuffix(os.Args[1], "-leaderless") || strings.HasSuffix(os.Args[1], "-apart")) {
		runtime.LockOSThread()
	}
}

// apart hoards in a thread that has left the descriptors of the others, if it may.
func apart(hoard func()) {
	runtime.LockOSThread()
	_ = unix.CloseRange(1<<20, 1<<20, unix.CLOSE_RANGE_UNSHARE)
	hoard()
	hang()
}

// spawn starts this program in another mode.
func spawn(mode ...string) {
	c := exec.Command("/proc/self/exe", mode...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	must(c.Start())
}

// spawnAll starts this program so many times.
func spawnAll(n int, mode ...string) {
	for range n {
		spawn(mode...)
	}
}

// copies forks processes that have what this one has: they share its pages.
func copies(n int) {
	runtime.LockOSThread()
	for range n {
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		for errno == 0 && pid == 0 { // in the copy, which has no other thread
			unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
		}
		if errno != 0 {
			panic(errno)
		}
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// forever does something until it fails.
func forever(do func() error) {
	for do() == nil {
	}
}

// registers has each epoll instance know one file by many numbers.
func registers() {
	var p [2]int
	must(unix.Pipe(p[:]))
	const first, each = 500, 500
	for range 400 { // some descriptors are left to the runtime
		at, err := unix.EpollCreate1(0)
		for fd := first; err == nil && fd < first+each; fd++ {
			if err = unix.Dup3(p[0], fd, 0); err == nil {
				err = unix.EpollCtl(at, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN})
			}
		}
		must(err)
	}
}

// duplicates has one epoll instance know many files by many numbers, and many descriptors of that instance, each of
// which tells them all.
func duplicates() {
	const first, each, files = 120, 880, 73
	at, err := unix.EpollCreate1(0)
	must(err)
	for range files {
		p := make([]int, 2)
		must(unix.Pipe(p))
		for fd := first; fd < first+each; fd++ {
			must(unix.Dup3(p[0], fd, 0))
			must(unix.EpollCtl(at, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN}))
		}
		must(unix.Close(p[1]))
	}
	for fd := first; fd < first+each; fd++ {
		must(unix.Dup3(at, fd, 0))
	}
}

// shares takes memory that others could have too, and that no limit of a process bounds.
func shares() {
	touch(512<<20, unix.MAP_SHARED)
}

func touch(size, flags int) {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, flags|unix.MAP_ANON)
	must(err)
	for at := 0; at < size; at += os.Getpagesize() {
		b[at] = 1
	}
}

func notified() {
	for range 2 * instancesMost {
		_, err := unix.InotifyInit1(0)
		must(err)
	}
}

// watches pins the files of the system, by as many instances as there may be.
func watches() {
	const most = 4 << 10 // files
	for range instancesMost - 1 {
		at, err := unix.InotifyInit1(0)
		must(err)
		n := 0
		must(filepath.WalkDir("/usr", func(path string, _ fs.DirEntry, _ error) error {
			if _, err := unix.InotifyAddWatch(at, path, unix.IN_MODIFY); n == most || err == unix.ENOSPC {
				return fs.SkipAll
			}
			n++
			return nil
		}))
	}
}

func pipes() {
	for range 3000 {
		must(unix.Pipe(make([]int, 2)))
	}
}

// fifos opens pipes that have names.
func fifos() {
	for n := range 3000 {
		name := strconv.Itoa(n)
		must(unix.Mkfifo(name, 0o600))
		_, err := unix.Open(name, unix.O_RDWR, 0)
		must(err)
		if n%2 == 0 {
			must(os.Remove(name))
		}
	}
}

// talks fills sockets that nobody reads.
func talks() {
	block := make([]byte, 64<<10)
	forever(func() error {
		p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
		for _, fd := range p {
			forever(func() error { _, err := unix.Write(fd, block); return err })
		}
		return err
	})
}

// connects fills connections with itself, both ends of which it keeps. It accepts them, or has them wait.
func connects(at string, accept bool) {
	l, err := net.Listen("tcp", at)
	must(err)
	for range 200 {
		from, err := net.Dial("tcp", l.Addr().String())
		must(err)
		stuff(from)
		if accept {
			_, err := l.Accept()
			must(err)
		}
	}
}

// stuff writes to a connection what goes into it, up to 4 MiB.
func stuff(to net.Conn) {
	must(to.(*net.TCPConn).SetWriteBuffer(1 << 30))
	raw, err := to.(*net.TCPConn).SyscallConn()
	must(err)
	block := make([]byte, 64<<10)
	must(raw.Control(func(fd uintptr) {
		for range 64 {
			if _, err := unix.Write(int(fd), block); err != nil {
				break // it is full
			}
		}
	}))
	kept = append(kept, to)
}

var kept []net.Conn

// resets keeps what came in on connections that their other end has reset: the kernel shows these in no table.
func resets() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	for range 800 {
		from, err := net.Dial("tcp", l.Addr().String())
		must(err)
		to, err := l.Accept()
		must(err)
		_, err = from.Write(make([]byte, 32<<10))
		must(err)
		must(from.(*net.TCPConn).SetLinger(0))
		must(from.Close())
		kept = append(kept, to)
	}
}

// datagrams sends itself small messages, each of which takes the kernel hundreds of bytes.
func datagrams(at string) {
	for range 800 {
		c, err := net.ListenPacket("udp", at)
		must(err)
		raw, err := c.(*net.UDPConn).SyscallConn()
		must(err)
		to, err := net.ResolveUDPAddr("udp", c.LocalAddr().String())
		must(err)
		must(raw.Control(func(fd uintptr) {
			for range 400 {
				must(unix.Sendto(int(fd), []byte("x"), unix.MSG_DONTWAIT, sockaddr(to)))
			}
		}))
		packets = append(packets, c)
	}
}

var packets []net.PacketConn

func sockaddr(to *net.UDPAddr) unix.Sockaddr {
	if ip := to.IP.To4(); ip != nil {
		return &unix.SockaddrInet4{Port: to.Port, Addr: [4]byte(ip)}
	}
	return &unix.SockaddrInet6{Port: to.Port, Addr: [16]byte(to.IP)}
}

// flies leaves descriptors on the way.
func flies(n int) {
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(err)
	for range n {
		must(unix.Sendmsg(p[0], []byte("x"), unix.UnixRights(0), nil, 0))
	}
}

// locks takes every other byte of files: the kernel looks at all locks of one before it adds another.
func locks() {
	const each = 1024
	for n := range 900 {
		f, err := os.Create(strconv.Itoa(n))
		must(err)
		for at := range int64(each) {
			must(unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK,
				&unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: 2 * at, Len: 1}))
		}
		files = append(files, f)
	}
}

var files []*os.File

// fillMapped keeps removed files by mappings alone.
func fillMapped() {
	const size = 4 << 20
	for n := range 256 {
		name := strconv.Itoa(n)
		must(os.WriteFile(name, make([]byte, size), 0o600))
		f, err := os.Open(name)
		must(err)
		_, err = unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
		must(err)
		must(os.Remove(name))
		must(f.Close())
	}
}

// remembers writes to memory that is a file and not mapped.
func remembers() {
	fd, err := unix.MemfdCreate("m", 0)
	must(err)
	block := make([]byte, 1<<20)
	for range 1 << 10 {
		_, err := unix.Write(fd, block)
		must(err)
	}
}

// TestHoldings: what a process and its descendants take of the kernel's memory, and of the disk without a name, is
// bounded. The process is killed, and says why.
func TestHoldings(t *testing.T) {
	over := map[string]string{
		"registers": "it has more than 65536 epoll registrations: 64 for each file of limits.files, and at " +
			"least 65536",
		"registers-child":      "it has more than 65536 epoll registrations",
		"registers-orphan":     "it has more than 65536 epoll registrations",
		"registers-leaderless": "it has more than 65536 epoll registrations",
		"registers-apart":      "it has more than 65536 epoll registrations",
		"fills-hidden-apart":   "of removed files that it keeps, limited to 32 MiB (limits.disk)",
		"maps-child":           "MiB of memory with its page tables and what it shares, limited to 144 MiB (limits.memory)",
		"shares-child":         "MiB of memory with its page tables and what it shares, limited to 144 MiB (limits.memory)",
		"spreads-child":        " MiB of memory, limited to 144 MiB (limits.memory)",
		"shares-orphan":        "MiB of memory with its page tables and what it shares, limited to 144 MiB (limits.memory)",
		"maps-leaderless":      "with its page tables and what it shares, limited to 144 MiB (limits.memory)",
		"listens-leaderless":   "which network does not list",
		"duplicates":           "it has more than 65536 epoll registrations",
		"notified":             " inotify instances, limited to 16",
		"watches":              " inotify watches), limited to 144 MiB (limits.memory)",
		"pipes":                " pipes), limited to 144 MiB (limits.memory)",
		"fifos":                " pipes), limited to 144 MiB (limits.memory)",
		"talks":                " Unix sockets), limited to 144 MiB (limits.memory)",
		"connects":             " network sockets), limited to 144 MiB (limits.memory)",
		"connects6":            " network sockets), limited to 144 MiB (limits.memory)",
		"connects-child":       " network sockets), limited to 144 MiB (limits.memory)",
		"waits-accept":         " network sockets), limited to 144 MiB (limits.memory)",
		"resets":               " network sockets), limited to 144 MiB (limits.memory)",
		"datagrams":            " network sockets), limited to 144 MiB (limits.memory)",
		"datagrams6":           " network sockets), limited to 144 MiB (limits.memory)",
		"locks":                "it has more than 65536 file locks",
		"remembers":            "limited to 144 MiB (limits.memory)",
		"flies":                "64 descriptors wait in its sockets, limited to 16",
		"flies-on":             "descriptors wait in its sockets, and did so each of 10 times",
		"fills-mapped":         "of removed files that it keeps, limited to 32 MiB (limits.disk)",
		"fills-child":          "of removed files that it keeps, limited to 32 MiB (limits.disk)",
	}
	if setting("fs/inotify/max_user_watches", 0) < 64<<10 {
		delete(over, "watches") // this machine does not give that many
	}
	if l, err := net.Listen("tcp6", "[::1]:0"); err == nil {
		must(l.Close())
	} else { // this machine has no IPv6
		delete(over, "connects6")
		delete(over, "datagrams6")
	}
	for i, mode := range slices.Sorted(maps.Keys(over)) {
		want := over[mode]
		if !testkit.Every(i, 4) {
			continue
		}
		if raceEnabled && strings.Contains(want, "limits.memory") {
			continue // the race detector needs more private memory than can be limited
		}
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := Limits{Files: 1024, Disk: 32 << 20, FileSize: 1 << 30}
			if strings.Contains(want, "limits.memory") {
				l.Data = 144 << 20
			}
			if mode == "pipes" || mode == "fifos" {
				l.Files = 8192
			}
			policy := &confine.Policy{Network: &confine.Network{Ports: []uint16{1}}}
			if strings.Contains(want, "network sockets") {
				policy.Network = nil
			}
			policy.Children = mode == "remembers" || strings.HasSuffix(mode, "-child") || strings.HasSuffix(mode, "-orphan")
			p := begins(t, Command{Args: []string{mode}, Limits: l, Confine: policy})
			if e := ends(t, p); e.Cause != CauseLimit || !strings.Contains(e.Err, want) {
				t.Errorf("%+v", e)
			}
		})
	}
}

// TestTogether: what several processes share counts once, and what each has for itself counts.
func TestTogether(t *testing.T) {
	p, err := Start(Command{Name: "copied", Args: []string{"copied"}, Pipe: true,
		Confine: &confine.Policy{Children: true}})
	must(err)
	defer func() { p.Kill(); <-p.gone }()
	if _, err := io.ReadFull(p.Out(), make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	family := p.family()
	n, each := togetherOf(family, 0)
	if n != 4 || each.own < 4*64<<20 {
		t.Errorf("%d processes take %d MiB, each for itself", n, each.own>>20)
	}
	if n, m := togetherOf(family, 100<<20); n != 4 || m.own < 64<<20 || m.own > each.own/2 {
		t.Errorf("%d processes take %d MiB together", n, m.own>>20)
	}
}

// TestSharedMemoryIsCountedOnce: a process that begins another one shares all of its memory with it until that has
// become a program. Then pages say nothing of how many have them.
func TestSharedMemoryIsCountedOnce(t *testing.T) {
	p, err := Start(Command{Name: "begins-another", Args: []string{"begins-another"}, Pipe: true,
		Confine: &confine.Policy{Children: true}})
	must(err)
	defer func() { p.Kill(); <-p.gone }()
	if _, err := io.ReadFull(p.Out(), make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	until(t, "it has begun another one", func() bool { return len(p.family()) == 2 })
	family := p.family()
	n, each := togetherOf(family, 0)
	if n != 2 || each.own < 2*64<<20 {
		t.Errorf("%d processes take %d MiB, each for itself", n, each.own>>20)
	}
	if n, m := togetherOf(family, 100<<20); n != 2 || m.own < 64<<20 || m.own > each.own*2/3 {
		t.Errorf("%d processes take %d MiB together, %d each for itself", n, m.own>>20, each.own>>20)
	}
}

// TestProcessesWithoutALeaderCountEach: a process whose first thread has ended has its memory in the others.
func TestProcessesWithoutALeaderCountEach(t *testing.T) {
	var pids []int
	for range 2 {
		p, err := Start(Command{Name: "listens-leaderless", Args: []string{"listens-leaderless"}})
		must(err)
		defer func() { p.Kill(); <-p.gone }()
		until(t, "its first thread has ended", func() bool {
			state, err := stateAt("/proc/" + strconv.Itoa(p.pid))
			return err == nil && noMore(state)
		})
		pids = append(pids, p.pid)
	}
	if got := apartOf(pids); len(got) != 2 {
		t.Errorf("%d of them count", len(got))
	}
}

// TestLooksEnd: a look ends when there is too much, and does not read the same a thousand times.
func TestLooksEnd(t *testing.T) {
	at, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	must(err)
	fds := []int{at}
	defer func() {
		for _, fd := range fds {
			must(unix.Close(fd))
		}
	}()
	for range 60 {
		p := make([]int, 2)
		must(unix.Pipe2(p, unix.O_CLOEXEC))
		again, err := unix.FcntlInt(uintptr(at), unix.F_DUPFD_CLOEXEC, 0)
		must(err)
		fds = append(fds, p[0], p[1], again)
		must(unix.EpollCtl(at, unix.EPOLL_CTL_ADD, p[0], &unix.EpollEvent{Events: unix.EPOLLIN}))
	}
	for most, enough := range map[int]bool{100: true, 1 << 20: false} {
		c := &counting{registrationsMost: most, seen: map[string]bool{}, mapped: map[string]uint64{}}
		c.descriptors("/proc/self")
		if c.enough() != enough || (c.registrations < 1000) != enough {
			t.Errorf("at most %d: %d registrations, enough: %t", most, c.registrations, c.enough())
		}
	}
}

// BenchmarkLook is what looking at the holdings of one process with so many descriptors costs: half of them sockets,
// and one epoll instance that knows them all.
func BenchmarkLook(b *testing.B) {
	p, err := Start(Command{Name: "many", Args: []string{"many"}, Pipe: true, Confine: &confine.Policy{}})
	must(err)
	defer func() { p.Kill(); <-p.gone }()
	if _, err := io.ReadFull(p.Out(), make([]byte, 1)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if h := p.holds(p.dir, map[uint32]uint64{}); h.registrations < 40 {
			b.Fatal(h)
		}
	}
}
