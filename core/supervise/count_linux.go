package supervise

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// holds looks at the process and at its descendants, which work in a directory. last is what its sockets held when it
// was looked at before.
func (p *Process) holds(dir string, last map[uint32]uint64) *holdings {
	c := &counting{
		dir: dir, registrationsMost: p.limits.mostRegistrations(),
		seen: map[string]bool{}, mapped: map[string]uint64{}, network: map[uint32]bool{},
	}
	family := p.family()
	for _, pid := range family {
		at, err := placeOf(pid)
		if err != nil {
			continue // it has ended
		}
		if c.enough() {
			break
		}
		if m, err := memoryOf(pid); err == nil && pid != p.pid { // that one is looked at more often
			c.largest = max(c.largest, m.held())
		}
		c.descriptors(at)
		c.mappings(at)
	}
	c.processes, c.together = togetherOf(family, p.limits.Data)
	for key, size := range c.mapped {
		if c.first(key) {
			c.hidden += size
		}
	}
	if len(c.network) > 0 && !c.enough() {
		c.ipSockets(c.network, last)
	}
	return &c.holdings
}

// placeOf is where /proc shows what a process has: its own directory, or that of one of its threads when the first has
// ended. That shows nothing any more, and the others go on.
func placeOf(pid int) (string, error) {
	at := fmt.Sprintf("/proc/%d", pid)
	if state, err := stateAt(at); err != nil || !noMore(state) {
		return at, err
	}
	threads, err := os.ReadDir(at + "/task")
	if err != nil {
		return "", err
	}
	for _, t := range threads {
		one := at + "/task/" + t.Name()
		if state, err := stateAt(one); err == nil && !noMore(state) {
			return one, nil
		}
	}
	return "", unix.ESRCH
}

func noMore(state byte) bool { return state == 'Z' || state == 'X' }

// stateAt is the state of a process or a thread.
func stateAt(at string) (byte, error) {
	data, err := os.ReadFile(at + "/stat")
	if err != nil {
		return 0, err
	}
	_, after, ok := bytes.Cut(data[bytes.LastIndexByte(data, ')')+1:], []byte(" ")) // the name may hold anything
	if !ok || len(after) == 0 {
		return 0, fmt.Errorf("%s/stat has no state", at)
	}
	return after[0], nil
}

// counting is a look at holdings.
type counting struct {
	holdings
	dir  string
	seen map[string]bool // what several descriptors or processes have together

	network map[uint32]bool // inodes of sockets that are not of Unix

	mapped map[string]uint64 // removed files that are only mapped, and up to where

	registrationsMost int
}

// enough says that there is too much of what takes long to count. Each descriptor of an epoll instance tells all of its
// registrations, so the rest could take minutes.
func (c *counting) enough() bool {
	return c.registrations > c.registrationsMost || c.watches > watchesMost || c.locks > locksMost
}

// first says whether something is seen for the first time.
func (c *counting) first(what string) bool {
	was := c.seen[what]
	c.seen[what] = true
	return !was
}

// descriptors counts what a process has open. What it may not be looked at counts nothing.
func (c *counting) descriptors(at string) {
	open, err := os.ReadDir(at + "/fd")
	if err != nil {
		return
	}
	for _, e := range open {
		to, err := os.Readlink(at + "/fd/" + e.Name())
		if err != nil {
			continue // it was closed
		}
		if c.enough() {
			return
		}
		switch info := at + "/fdinfo/" + e.Name(); {
		case to == "anon_inode:[eventpoll]":
			c.registrations += countLines(info, "tfd:")
		case to == "anon_inode:inotify":
			c.instances++
			c.watches += countLines(info, "inotify ")
		case strings.HasPrefix(to, "pipe:"):
			if c.first(to) {
				c.pipes++
			}
		case strings.HasPrefix(to, "socket:"):
			if c.first(to) {
				c.socket(info, to)
			}
		case strings.HasPrefix(to, "/"):
			c.locks += countLines(info, "lock:")
			c.file(at+"/fd/"+e.Name(), to)
		}
	}
}

// socket counts a socket if it is one of Unix: those alone tell how many descriptors wait in them. Others are counted
// together.
func (c *counting) socket(info, to string) {
	const waiting = "scm_fds:"
	text, err := os.ReadFile(info)
	if err != nil {
		return
	}
	_, after, unix := strings.Cut(string(text), waiting)
	if !unix {
		inode := strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")
		c.network[uint32(parsed(inode, 10))] = true
		return
	}
	c.sockets++
	line, _, _ := strings.Cut(after, "\n")
	if n, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
		c.flight += n
	}
}

// countLines counts the lines of a file that begin so.
func countLines(path, head string) (n int) {
	f, err := os.Open(path)
	if err != nil { // it was closed
		return 0
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		if bytes.HasPrefix(in.Bytes(), []byte(head)) {
			n++
		}
	}
	return n
}

// What /proc says of a file that has no name any more, or never had one.
const (
	removed  = " (deleted)"
	inMemory = "/memfd:"
)

// file counts an open file if it was removed, or is a pipe with a name.
func (c *counting) file(path, to string) {
	var info unix.Stat_t
	if err := unix.Stat(path, &info); err != nil {
		return
	}
	switch {
	case info.Mode&unix.S_IFMT == unix.S_IFIFO:
		if c.first(fmt.Sprintf("pipe %d %d", info.Dev, info.Ino)) {
			c.pipes++
		}
	case info.Nlink == 0 && strings.HasSuffix(to, removed) && c.makes(to):
		c.add(info.Ino, to, uint64(info.Blocks)*512)
	}
}

// add counts a removed file once.
func (c *counting) add(inode uint64, to string, size uint64) {
	switch {
	case !c.first(keyOf(inode, to)):
	case strings.HasPrefix(to, inMemory):
		c.shared += size
	default:
		c.hidden += size
	}
}

func keyOf(inode uint64, to string) string { return fmt.Sprintf("%d %s", inode, to) }

// makes says whether a file counts: others are removed too, such as libraries when the system is updated.
func (c *counting) makes(to string) bool {
	return strings.HasPrefix(to, inMemory) || c.dir != "" && strings.HasPrefix(to, c.dir+"/")
}

// mappings counts removed files that are mapped. How large they are only root may know: for others a file on disk is as
// large as what is mapped of it, and one in memory counts with what the process has of it.
func (c *counting) mappings(at string) {
	var program unix.Stat_t
	if to, err := os.Readlink(at + "/exe"); err == nil && unix.Stat(at+"/exe", &program) == nil {
		c.first(keyOf(program.Ino, to)) // the gateway has made it
	}
	f, err := os.Open(at + "/maps")
	if err != nil {
		return
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		if bytes.HasSuffix(in.Bytes(), []byte(removed)) {
			c.mapping(at, in.Text())
		}
	}
}

// mapping counts the file of one line: addresses, rights, offset, device, inode, path.
func (c *counting) mapping(at, line string) {
	f := strings.Fields(line)
	const path = 5
	begin := strings.Index(line, "/")
	if len(f) <= path || begin < 0 {
		return
	}
	to := line[begin:]
	inode, err := strconv.ParseUint(f[path-1], 10, 64)
	if err != nil || !c.makes(to) {
		return
	}
	var info unix.Stat_t
	if err := unix.Stat(at+"/map_files/"+f[0], &info); err == nil {
		if info.Nlink == 0 {
			c.add(info.Ino, to, uint64(info.Blocks)*512)
		}
		return
	}
	if !strings.HasPrefix(to, inMemory) {
		key := keyOf(inode, to)
		c.mapped[key] = max(c.mapped[key], extent(f[0], f[2]))
	}
}

// extent is where in its file a mapping ends.
func extent(addresses, offset string) uint64 {
	from, to, _ := strings.Cut(addresses, "-")
	begin, err := strconv.ParseUint(from, 16, 64)
	end, err2 := strconv.ParseUint(to, 16, 64)
	at, err3 := strconv.ParseUint(offset, 16, 64)
	if errors.Join(err, err2, err3) != nil {
		return 0
	}
	return at + end - begin
}
