package supervise

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// link is the two addresses of a socket, its own first. Those of IPv4 are told alike for sockets of both families.
type link [2]netip.AddrPort

// ipSocket is what the kernel says of a socket that is not one of Unix.
type ipSocket struct {
	protocol  int
	inode     uint32 // 0: nobody has a descriptor of it, since it waits to be accepted or was closed and lingers
	listening bool
	ends      link
	held      uint64 // bytes of its queues, with what the kernel keeps beside them
}

const (
	socketSize = 4 << 10 // of one socket without its queues, at most
	listening  = 10      // TCP_LISTEN
)

// ipSockets counts what the sockets that are not of Unix hold: those with a descriptor, by their inodes, and of those
// without the ones that wait for a listener of them, or are the other end of one. last is what each held when it was
// looked at before: a connection that the other end has reset is in no table, and keeps what came in until it is
// closed.
func (c *counting) ipSockets(own map[uint32]bool, last map[uint32]uint64) {
	known := maps.Clone(last)
	clear(last)
	all := ipTable()
	ports, peers := map[uint16]bool{}, map[link]bool{}
	for _, s := range all {
		if !own[s.inode] {
			continue
		}
		last[s.inode] += s.held
		if s.protocol != unix.IPPROTO_UDP {
			peers[link{s.ends[1], s.ends[0]}] = true
		}
		if s.listening {
			ports[s.ends[0].Port()] = true
		}
	}
	for _, s := range all {
		if s.inode == 0 && s.protocol == unix.IPPROTO_TCP && (ports[s.ends[0].Port()] || peers[s.ends]) {
			c.addIP(s.held)
		}
	}
	for inode := range own {
		if _, shown := last[inode]; !shown {
			last[inode] = max(known[inode], sizesHere().reset)
		}
		c.addIP(last[inode])
	}
}

func (c *counting) addIP(held uint64) {
	c.ip++
	c.ipHeld += socketSize + held
}

// ipTable is what the kernel has of such sockets where the gateway is. A plugin is there too, unless it has no network.
func ipTable() (all []ipSocket) {
	for protocol, tables := range map[int][]string{
		unix.IPPROTO_TCP: {"tcp", "tcp6"}, unix.IPPROTO_UDP: {"udp", "udp6"}, unix.IPPROTO_UDPLITE: {"udplite", "udplite6"}, unix.IPPROTO_MPTCP: nil,
	} {
		for n, family := range []byte{unix.AF_INET, unix.AF_INET6} {
			some, err := askSockets(family, protocol)
			if err != nil && tables != nil { // a kernel without sock_diag of that protocol
				some = readSockets(tables[n], protocol)
			}
			all = append(all, some...)
		}
	}
	all = append(all, readSockets("icmp", unix.IPPROTO_ICMP)...)
	all = append(all, readSockets("icmp6", unix.IPPROTO_ICMPV6)...)
	return append(all, readNetlink()...)
}

// The questions and answers of sock_diag(7), in bytes.
const (
	diagRequest  = 56
	diagAnswer   = 72
	diagMemory   = 7 // INET_DIAG_SKMEMINFO
	diagProtocol = 8 // INET_DIAG_REQ_PROTOCOL: for numbers beyond a byte
	timeWait     = 6 // TCP_TIME_WAIT
	diagPatience = 2 // seconds
)

// askSockets asks the kernel for the sockets of a family and a protocol.
func askSockets(family byte, protocol int) (all []ipSocket, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: diagPatience})
	if err = errors.Join(err, unix.Sendto(fd, diagQuestion(family, protocol), 0,
		&unix.SockaddrNetlink{Family: unix.AF_NETLINK})); err != nil {
		return nil, err
	}
	for b := make([]byte, 64<<10); ; {
		n, _, err := unix.Recvfrom(fd, b, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		messages, err := syscall.ParseNetlinkMessage(b[:n])
		if err != nil {
			return nil, err
		}
		for _, m := range messages {
			switch m.Header.Type {
			case unix.NLMSG_DONE:
				return all, nil
			case unix.NLMSG_ERROR:
				return nil, fmt.Errorf("sock_diag of protocol %d is refused", protocol)
			}
			if s, ok := diagSocket(m.Data, protocol); ok {
				all = append(all, s)
			}
		}
	}
}

func diagQuestion(family byte, protocol int) []byte {
	q := make([]byte, unix.NLMSG_HDRLEN+diagRequest, unix.NLMSG_HDRLEN+diagRequest+8)
	order := binary.NativeEndian
	order.PutUint16(q[4:], unix.SOCK_DIAG_BY_FAMILY)
	order.PutUint16(q[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	body := q[unix.NLMSG_HDRLEN:]
	body[0], body[1], body[2] = family, byte(min(protocol, 255)), 1<<(diagMemory-1)
	order.PutUint32(body[4:], ^uint32(1<<timeWait))
	if protocol > 255 {
		q = order.AppendUint16(q, 8)
		q = order.AppendUint16(q, diagProtocol)
		q = order.AppendUint32(q, uint32(protocol))
	}
	order.PutUint32(q, uint32(len(q)))
	return q
}

// diagSocket reads an answer of sock_diag.
func diagSocket(b []byte, protocol int) (s ipSocket, ok bool) {
	if len(b) < diagAnswer {
		return s, false
	}
	order := binary.NativeEndian
	s = ipSocket{protocol: protocol, listening: b[1] == listening, inode: order.Uint32(b[68:])}
	for n := range s.ends {
		at := b[8+16*n:][:16]
		addr := netip.AddrFrom16([16]byte(at)).Unmap()
		if b[0] == unix.AF_INET {
			addr = netip.AddrFrom4([4]byte(at[:4]))
		}
		s.ends[n] = netip.AddrPortFrom(addr, binary.BigEndian.Uint16(b[4+2*n:]))
	}
	for rest := b[diagAnswer:]; len(rest) >= 4; {
		size := int(order.Uint16(rest))
		if size < 4 || size > len(rest) {
			break
		}
		if order.Uint16(rest[2:]) == diagMemory {
			s.held = memoryHeld(rest[4:size])
		}
		rest = rest[min(len(rest), (size+3)&^3):]
	}
	return s, true
}

// memoryHeld adds what an SKMEMINFO tells of a socket's memory.
func memoryHeld(b []byte) uint64 {
	const received, sending, kept, queued, options, backlog = 0, 2, 4, 5, 6, 7
	at := func(n int) uint64 {
		if 4*n+4 > len(b) {
			return 0
		}
		return uint64(binary.NativeEndian.Uint32(b[4*n:]))
	}
	return at(received) + max(at(sending), at(queued)) + at(kept) + at(options) + at(backlog)
}

// readSockets reads a table of /proc/net, which tells only how many bytes wait. What the kernel keeps beside them may
// be as much.
func readSockets(table string, protocol int) (all []ipSocket) {
	const local, remote, state, queues, inode = 1, 2, 3, 4, 9
	for _, f := range rowsOf(table, inode) {
		sending, received, _ := strings.Cut(f[queues], ":")
		all = append(all, ipSocket{
			protocol: protocol, inode: uint32(parsed(f[inode], 10)), listening: parsed(f[state], 16) == listening,
			ends: link{tableAddr(f[local]), tableAddr(f[remote])}, held: 2 * (parsed(sending, 16) + parsed(received, 16)),
		})
	}
	return all
}

func readNetlink() (all []ipSocket) {
	const received, sending, inode = 4, 5, 9
	for _, f := range rowsOf("netlink", inode) {
		all = append(all, ipSocket{protocol: -1, inode: uint32(parsed(f[inode], 10)),
			held: parsed(f[received], 10) + parsed(f[sending], 10)})
	}
	return all
}

// rowsOf are the fields of the rows of a table that have as many as that one's index asks for.
func rowsOf(table string, last int) (rows [][]string) {
	text, err := os.ReadFile("/proc/self/net/" + table)
	if err != nil { // the kernel has no such table
		return nil
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > last && f[last] != "Inode" && f[0] != "sl" {
			rows = append(rows, f)
		}
	}
	return rows
}

func parsed(text string, base int) uint64 {
	n, err := strconv.ParseUint(text, base, 64)
	if err != nil {
		return 0
	}
	return n
}

// tableAddr reads an address of such a table: words of 32 bits as the machine keeps them, a colon, the port.
func tableAddr(text string) netip.AddrPort {
	words, port, _ := strings.Cut(text, ":")
	var raw []byte
	for ; len(words) >= 8; words = words[8:] {
		raw = binary.NativeEndian.AppendUint32(raw, uint32(parsed(words[:8], 16)))
	}
	addr, _ := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr.Unmap(), uint16(parsed(port, 16)))
}
