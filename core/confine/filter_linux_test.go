//go:build amd64 || arm64

package confine

import (
	"encoding/binary"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

const own = 4242

// verdict is what a filter says of a call. The machine that runs it reads words as the network does, so they are
// written that way.
func verdict(t *testing.T, program []bpf.Instruction, arch uint32, number uintptr, args ...uint32) uint32 {
	t.Helper()
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data[atNumber:], uint32(number))
	binary.BigEndian.PutUint32(data[atArch:], arch)
	for i, a := range args {
		binary.BigEndian.PutUint32(data[atArgs+8*i:], a)
	}
	n, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(n)
}

func refused(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

// TestFilter: each rule that looks at arguments lets pass what a plugin needs, and nothing beside it.
func TestFilter(t *testing.T) {
	const other, fine, eperm, eacces = own + 1, unix.SECCOMP_RET_ALLOW, unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM),
		unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES)
	shut, open, ports, breeds, worker := Policy{Network: &Network{}}, Policy{},
		Policy{Network: &Network{Ports: []uint16{443}}}, Policy{Children: true}, Policy{Worker: true}
	thread := uint32(unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND | unix.CLONE_FILES)
	for name, c := range map[string]struct {
		policy Policy
		call   uintptr
		args   []uint32
		want   uint32
	}{
		"read":                         {open, unix.SYS_READ, []uint32{0}, fine},
		"its own file to disk":         {open, unix.SYS_FSYNC, []uint32{3}, fine},
		"all files to disk":            {open, unix.SYS_SYNC, nil, eperm},
		"a file system to disk":        {open, unix.SYS_SYNCFS, []uint32{3}, eperm},
		"exec":                         {shut, unix.SYS_EXECVE, nil, fine},
		"signal itself":                {open, unix.SYS_KILL, []uint32{own, 9}, fine},
		"signal another":               {open, unix.SYS_KILL, []uint32{other, 9}, eperm},
		"signal everybody":             {open, unix.SYS_KILL, []uint32{^uint32(0), 9}, eperm},
		"signal a child":               {breeds, unix.SYS_KILL, []uint32{other, 9}, fine},
		"limit itself":                 {open, unix.SYS_PRLIMIT64, []uint32{0, 7}, fine},
		"limit another":                {open, unix.SYS_PRLIMIT64, []uint32{other, 0}, eperm},
		"limit another, with children": {breeds, unix.SYS_PRLIMIT64, []uint32{other, 0}, eperm},
		"its priority":                 {open, unix.SYS_SETPRIORITY, []uint32{unix.PRIO_PROCESS, 0, 5}, fine},
		"another's priority":           {open, unix.SYS_SETPRIORITY, []uint32{unix.PRIO_PROCESS, other, 5}, eperm},
		"its user's priority":          {open, unix.SYS_SETPRIORITY, []uint32{unix.PRIO_USER, 0, 5}, eperm},
		"a thread":                     {open, unix.SYS_CLONE, []uint32{thread}, fine},
		"a process":                    {open, unix.SYS_CLONE, []uint32{uint32(unix.SIGCHLD)}, eperm},
		"a process, allowed":           {breeds, unix.SYS_CLONE, []uint32{uint32(unix.SIGCHLD)}, fine},
		"a namespace":                  {breeds, unix.SYS_CLONE, []uint32{unix.CLONE_NEWUSER}, eperm},
		"a namespace of a thread":      {open, unix.SYS_CLONE, []uint32{thread | unix.CLONE_NEWNET}, eperm},
		"private memory":               {open, unix.SYS_MMAP, []uint32{0, 0, 3, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS}, fine},
		"a shared file":                {open, unix.SYS_MMAP, []uint32{0, 0, 3, unix.MAP_SHARED}, fine},
		"shared memory":                {open, unix.SYS_MMAP, []uint32{0, 0, 3, unix.MAP_SHARED | unix.MAP_ANONYMOUS}, eperm},
		"memory that counts as stack":  {open, unix.SYS_MMAP, []uint32{0, 0, 3, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_GROWSDOWN}, eperm},
		"shared among children":        {breeds, unix.SYS_MMAP, []uint32{0, 0, 3, unix.MAP_SHARED | unix.MAP_ANONYMOUS}, fine},
		"a listener":                   {shut, unix.SYS_SOCKET, []uint32{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, 0}, fine},
		"a datagram socket":            {shut, unix.SYS_SOCKET, []uint32{unix.AF_UNIX, unix.SOCK_DGRAM, 0}, eacces},
		"a pair":                       {shut, unix.SYS_SOCKETPAIR, []uint32{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK, 0}, fine},
		"a pair of packets":            {shut, unix.SYS_SOCKETPAIR, []uint32{unix.AF_UNIX, unix.SOCK_SEQPACKET, 0}, fine},
		"a pair of datagrams":          {shut, unix.SYS_SOCKETPAIR, []uint32{unix.AF_UNIX, unix.SOCK_DGRAM, 0}, eacces},
		"the same with flags":          {shut, unix.SYS_SOCKETPAIR, []uint32{unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK, 0}, eacces},
		// which the kernel takes for datagrams
		"the same as raw":             {shut, unix.SYS_SOCKETPAIR, []uint32{unix.AF_UNIX, unix.SOCK_RAW, 0}, eacces},
		"a pair of datagrams, open":   {open, unix.SYS_SOCKETPAIR, []uint32{unix.AF_UNIX, unix.SOCK_DGRAM, 0}, fine},
		"TCP, shut":                   {shut, unix.SYS_SOCKET, []uint32{unix.AF_INET, unix.SOCK_STREAM, 0}, eacces},
		"connect, shut":               {shut, unix.SYS_CONNECT, []uint32{3}, eacces},
		"connect":                     {ports, unix.SYS_CONNECT, []uint32{3}, fine},
		"TCP":                         {ports, unix.SYS_SOCKET, []uint32{unix.AF_INET6, unix.SOCK_STREAM, 0}, fine},
		"multipath TCP":               {ports, unix.SYS_SOCKET, []uint32{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, eacces},
		"multipath TCP, open":         {open, unix.SYS_SOCKET, []uint32{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, fine},
		"fast open":                   {ports, unix.SYS_SENDTO, []uint32{3, 0, 1, unix.MSG_FASTOPEN}, eacces},
		"send":                        {ports, unix.SYS_SENDTO, []uint32{3, 0, 1, unix.MSG_NOSIGNAL}, fine},
		"routes":                      {open, unix.SYS_SOCKET, []uint32{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, fine},
		"audit messages":              {open, unix.SYS_SOCKET, []uint32{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}, eacces},
		"packets":                     {open, unix.SYS_SOCKET, []uint32{unix.AF_PACKET, unix.SOCK_RAW, 0}, eacces},
		"virtual machines":            {open, unix.SYS_SOCKET, []uint32{unix.AF_VSOCK, unix.SOCK_STREAM, 0}, eacces},
		"a terminal's size":           {open, unix.SYS_IOCTL, []uint32{0, unix.TIOCGWINSZ}, fine},
		"a terminal's input":          {open, unix.SYS_IOCTL, []uint32{0, unix.TIOCSTI}, eperm},
		"open":                        {open, unix.SYS_OPENAT, []uint32{3, 0, unix.O_RDWR | unix.O_CLOEXEC | unix.O_CREAT}, fine},
		"open for neither":            {open, unix.SYS_OPENAT, []uint32{3, 0, 3 | unix.O_CLOEXEC}, eperm},
		"open with memory":            {breeds, unix.SYS_OPENAT2, nil, refused(unix.ENOSYS)},
		"a path's mode":               {breeds, unix.SYS_FCHMODAT, nil, eperm},
		"a path's times":              {open, unix.SYS_UTIMENSAT, nil, eperm},
		"a descriptor's mode":         {shut, unix.SYS_FCHMOD, []uint32{3, 0o600}, eperm},
		"a descriptor's owner":        {breeds, unix.SYS_FCHOWN, nil, eperm},
		"a descriptor's ACL":          {open, unix.SYS_FSETXATTR, nil, eperm},
		"no more ACL":                 {open, unix.SYS_FREMOVEXATTR, nil, eperm},
		"a descriptor's flags":        {open, unix.SYS_IOCTL, []uint32{3, 0x40086602}, eperm},
		"a descriptor's project":      {open, unix.SYS_IOCTL, []uint32{3, 0x401c5820}, eperm},
		"a lease":                     {open, unix.SYS_FCNTL, []uint32{3, unix.F_SETLEASE, 0}, eperm},
		"make for everybody":          {open, unix.SYS_OPENAT, []uint32{3, 0, unix.O_RDWR | unix.O_CREAT, 0o777}, fine},
		"make as its user":            {open, unix.SYS_OPENAT, []uint32{3, 0, unix.O_WRONLY | unix.O_CREAT, 0o4755}, eperm},
		"make as its group":           {open, unix.SYS_OPENAT, []uint32{3, 0, unix.O_WRONLY | unix.O_TMPFILE, 0o2700}, eperm},
		"open, the mode is no matter": {open, unix.SYS_OPENAT, []uint32{3, 0, unix.O_RDONLY | unix.O_DIRECTORY, 0o4755}, fine},
		"a node as its user":          {open, unix.SYS_MKNODAT, []uint32{3, 0, unix.S_IFREG | 0o4755}, eperm},
		"a pipe with a name":          {open, unix.SYS_MKNODAT, []uint32{3, 0, unix.S_IFIFO | 0o600}, fine},
		"hide":                        {open, unix.SYS_PRCTL, []uint32{unix.PR_SET_DUMPABLE, 0}, eperm},
		"a worker hides":              {worker, unix.SYS_PRCTL, []uint32{unix.PR_SET_DUMPABLE, 0}, fine},
		"outlive the gateway":         {open, unix.SYS_PRCTL, []uint32{unix.PR_SET_PDEATHSIG, 0}, eperm},
		"die with the gateway":        {open, unix.SYS_PRCTL, []uint32{unix.PR_SET_PDEATHSIG, uint32(unix.SIGKILL)}, fine},
		"a name":                      {open, unix.SYS_PRCTL, []uint32{unix.PR_SET_NAME, 0}, fine},
		"the personality it has":      {open, unix.SYS_PERSONALITY, []uint32{personalityNow}, fine},
		"another personality":         {open, unix.SYS_PERSONALITY, []uint32{0x0040000}, eperm},
		"a worker's socket":           {worker, unix.SYS_SOCKET, []uint32{unix.AF_UNIX, unix.SOCK_STREAM, 0}, eperm},
		"trace":                       {breeds, unix.SYS_PTRACE, nil, eperm},
		"a pipe as it is":             {open, unix.SYS_FCNTL, []uint32{3, unix.F_SETPIPE_SZ, 1 << 16}, fine},
		"a smaller pipe":              {open, unix.SYS_FCNTL, []uint32{3, unix.F_SETPIPE_SZ, 4097}, fine},
		"a larger pipe":               {breeds, unix.SYS_FCNTL, []uint32{3, unix.F_SETPIPE_SZ, 1 << 20}, eperm},
		"a pipe that is rounded up":   {open, unix.SYS_FCNTL, []uint32{3, unix.F_SETPIPE_SZ, 1<<16 + 1}, eperm},
		"the largest pipe":            {open, unix.SYS_FCNTL, []uint32{3, unix.F_SETPIPE_SZ, 1 << 31}, eperm},
		"a pipe's size":               {open, unix.SYS_FCNTL, []uint32{3, unix.F_GETPIPE_SZ, 1 << 31}, fine},
		"news of a directory":         {open, unix.SYS_FCNTL, []uint32{3, unix.F_NOTIFY, 1}, eperm},
		"a thread's own descriptors":  {breeds, unix.SYS_CLONE, []uint32{thread &^ unix.CLONE_FILES}, eperm},
		"a worker's own descriptors":  {worker, unix.SYS_CLONE, []uint32{thread &^ unix.CLONE_FILES}, eperm},
		"the same by closing":         {breeds, unix.SYS_CLOSE_RANGE, []uint32{3, ^uint32(0), unix.CLOSE_RANGE_UNSHARE | unix.CLOSE_RANGE_CLOEXEC}, eperm},
		"a worker's by closing":       {worker, unix.SYS_CLOSE_RANGE, []uint32{3, ^uint32(0), unix.CLOSE_RANGE_UNSHARE}, eperm},
		"close":                       {open, unix.SYS_CLOSE_RANGE, []uint32{3, ^uint32(0), unix.CLOSE_RANGE_CLOEXEC}, fine},
		"a socket's filter":           {open, unix.SYS_SETSOCKOPT, []uint32{3, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER}, eperm},
		"a filter of sockets":         {shut, unix.SYS_SETSOCKOPT, []uint32{3, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF}, eperm},
		"rules of files":              {breeds, unix.SYS_LANDLOCK_CREATE_RULESET, nil, refused(unix.ENOSYS)},
		"asynchronous reads":          {breeds, unix.SYS_IO_SETUP, nil, refused(unix.ENOSYS)},
		"a filter of calls":           {breeds, unix.SYS_SECCOMP, []uint32{1, 0}, eperm},
		"the old filter of calls":     {open, unix.SYS_PRCTL, []uint32{unix.PR_SET_SECCOMP, 2}, eperm},
		"whether there are filters":   {open, unix.SYS_SECCOMP, []uint32{2, 0}, fine},
		"a worker's filter of calls":  {worker, unix.SYS_SECCOMP, []uint32{1, 1}, fine},
		"a larger buffer to send":     {open, unix.SYS_SETSOCKOPT, []uint32{3, unix.SOL_SOCKET, unix.SO_SNDBUF}, refused(0)},
		"a larger buffer to receive":  {open, unix.SYS_SETSOCKOPT, []uint32{3, unix.SOL_SOCKET, unix.SO_RCVBUF}, fine},
		"limit its origin":            {open, unix.SYS_PRLIMIT64, []uint32{0, unix.RLIMIT_RSS, 4096}, eperm},
		"read its origin":             {open, unix.SYS_PRLIMIT64, []uint32{0, unix.RLIMIT_RSS, 0}, fine},
		"the same in the old way":     {breeds, unix.SYS_SETRLIMIT, []uint32{unix.RLIMIT_RSS}, eperm},
		"limit its files":             {open, unix.SYS_SETRLIMIT, []uint32{unix.RLIMIT_NOFILE}, fine},
		"no delay":                    {open, unix.SYS_SETSOCKOPT, []uint32{3, unix.IPPROTO_TCP, unix.TCP_NODELAY}, fine},
		"clone3":                      {breeds, unix.SYS_CLONE3, nil, refused(unix.ENOSYS)},
	} {
		program, err := denying(c.policy.rules(own, true))
		if err != nil {
			t.Fatal(err)
		}
		if got := verdict(t, program, auditArch, c.call, c.args...); got != c.want {
			t.Errorf("%s: %#x, want %#x", name, got, c.want)
		}
		if got := verdict(t, program, auditArch, c.call+otherNumbers, c.args...); got != refused(unix.ENOSYS) {
			t.Errorf("%s by another interface's number: %#x", name, got)
		}
		if got := verdict(t, program, unix.AUDIT_ARCH_I386, c.call, c.args...); got != unix.SECCOMP_RET_KILL_PROCESS {
			t.Errorf("%s as another machine's call: %#x", name, got)
		}
	}
}

// TestSealing: a sealed worker has the calls of its list alone, whatever rules there are about others.
func TestSealing(t *testing.T) {
	const fine, eperm = uint32(unix.SECCOMP_RET_ALLOW), unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	program, err := sealing(own)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		call uintptr
		args []uint32
		want uint32
	}{
		"read": {unix.SYS_READ, []uint32{0}, fine}, "a copy": {unix.SYS_FCNTL, []uint32{3, unix.F_DUPFD_CLOEXEC}, fine}, "its limits": {unix.SYS_PRLIMIT64, []uint32{0, 7}, fine},
		"signal itself": {unix.SYS_TGKILL, []uint32{own, own, 9}, fine}, "signal another": {unix.SYS_TGKILL, []uint32{own + 1, own + 1, 9}, eperm},
		"clone3": {unix.SYS_CLONE3, nil, refused(unix.ENOSYS)}, "a process": {unix.SYS_CLONE, []uint32{uint32(unix.SIGCHLD)}, eperm},
		"open": {unix.SYS_OPENAT, nil, eperm}, "a socket": {unix.SYS_SOCKET, nil, eperm}, "a device": {unix.SYS_IOCTL, []uint32{3, unix.TIOCGWINSZ}, eperm},
		"limit itself": {unix.SYS_SETRLIMIT, []uint32{unix.RLIMIT_NOFILE}, eperm}, "its priority": {unix.SYS_SETPRIORITY, []uint32{unix.PRIO_PROCESS, 0, 5}, eperm},
		"its processors": {unix.SYS_SCHED_SETAFFINITY, []uint32{0}, eperm}, "close many": {unix.SYS_CLOSE_RANGE, []uint32{3, 9, 0}, eperm},
	} {
		if got := verdict(t, program, auditArch, c.call, c.args...); got != c.want {
			t.Errorf("%s: %#x, want %#x", name, got, c.want)
		}
	}
}

// TestUpperHalf: a pointer is one also where only its upper half says so.
func TestUpperHalf(t *testing.T) {
	program, err := denying([]rule{rule{number: unix.SYS_PRLIMIT64, errno: unix.EPERM}.when(pointer(2, true))})
	if err != nil {
		t.Fatal(err)
	}
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	for high, want := range map[uint32]uint32{0: unix.SECCOMP_RET_ALLOW, 1: refused(unix.EPERM)} {
		data := make([]byte, 64)
		binary.BigEndian.PutUint32(data[atNumber:], unix.SYS_PRLIMIT64)
		binary.BigEndian.PutUint32(data[atArch:], auditArch)
		binary.BigEndian.PutUint32(data[atArgs+8*2+4:], high)
		if got, err := vm.Run(data); err != nil || uint32(got) != want {
			t.Errorf("%d: %#x, %v", high, got, err)
		}
	}
}

// TestGaps: what each version of Landlock leaves open is told, and no more.
func TestGaps(t *testing.T) {
	ports := &Policy{Network: &Network{Ports: []uint16{443}}}
	for abi, want := range map[int]string{
		0: PartFiles + " " + PartPorts + " " + PartSignals, 1: PartFiles + " " + PartPorts + " " + PartSignals,
		2: PartFiles + " " + PartPorts + " " + PartSignals, 3: PartPorts + " " + PartSignals, 4: PartSignals, 5: PartSignals,
		6: "", 7: "",
	} {
		var parts []string
		for _, g := range landlockGaps(ports, abi) {
			parts = append(parts, g.Part)
		}
		if got := strings.Join(parts, " "); got != want {
			t.Errorf("version %d: %q, want %q", abi, got, want)
		}
	}
	if gaps := landlockGaps(&Policy{Network: &Network{}}, abiTruncate); len(gaps) != 0 {
		t.Errorf("without a network: %v", gaps)
	}
	if r := (&Policy{Read: []string{"relative"}}).Check(); r == nil || !strings.Contains(r.Error(), "paths.read") {
		t.Error(r)
	}
}

// TestUnfiltered: without seccomp, what network promises does not hold, and the gap says so.
func TestUnfiltered(t *testing.T) {
	type answer struct {
		gaps []Gap
		err  error
	}
	done := make(chan answer)
	go func() { // on a thread that ends with it, and on which the kernel knows no seccomp
		runtime.LockOSThread()
		program, err := denying([]rule{{number: unix.SYS_SECCOMP, errno: unix.EINVAL}})
		if err == nil {
			err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		}
		if err == nil {
			var raw []unix.SockFilter
			if raw, err = assemble(program); err == nil {
				err = install(raw, 0)
			}
		}
		if err != nil {
			done <- answer{nil, err}
			return
		}
		done <- answer{Gaps(&Policy{Network: &Network{}}), nil}
	}()
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	told := Told(got.gaps)
	for _, want := range []string{"invalid argument", "start processes", "Unix socket", "network: none does not hold",
		"a list of ports"} {
		if !strings.Contains(told, want) {
			t.Errorf("%q is not told: %s", want, told)
		}
	}
}
