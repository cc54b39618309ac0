//go:build linux

package intruder

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

func network(t Target, try attempt) {
	dial := func(network, address string) func() error {
		return func() error {
			c, err := net.DialTimeout(network, address, 5*time.Second)
			if err == nil {
				c.Close()
			}
			return err
		}
	}
	if t.Socket != "" {
		try("unix.path", dial("unix", t.Socket))
	}
	if t.Admin != "" {
		try("admin.key", func() error { return makeKey(t.Admin) })
	}
	if t.Abstract != "" {
		try("unix.abstract", dial("unix", "@"+t.Abstract))
	}
	if t.TCP != "" {
		try("tcp.connect", dial("tcp", t.TCP))
		try("tcp.multipath", func() error { return aside(t.TCP, unix.IPPROTO_MPTCP, 0) })
		try("tcp.fastopen", func() error { return aside(t.TCP, 0, unix.MSG_FASTOPEN) })
	}
	try("tcp.listen", func() error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err == nil {
			l.Close()
		}
		return err
	})
	try("udp", dial("udp", "127.0.0.1:9"))
	try("packet", func() error { return descriptor(unix.Socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0)) })
	if t.Own == "" {
		return
	}
	for name, kind := range map[string]int{"unix.pair": unix.SOCK_DGRAM,
		"unix.pair.raw": unix.SOCK_RAW | unix.SOCK_CLOEXEC} {
		try(name, func() error { return sendFromPair(kind, filepath.Join(t.Own, name)) })
	}
	try("unix.listen", func() error {
		l, err := net.Listen("unix", filepath.Join(t.Own, "s"))
		if err == nil {
			l.Close()
		}
		return err
	})
}

// sendFromPair sends from one end of a pair to a socket that listens elsewhere: any datagram socket with a path, as a
// machine's log has. The other end stands for it where no such socket can be made.
func sendFromPair(kind int, path string) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	to, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		return nil // the pair alone reaches those of others
	}
	defer unix.Close(to)
	defer os.Remove(path)
	at := &unix.SockaddrUnix{Name: path}
	if err := unix.Bind(to, at); err != nil {
		return err
	}
	return unix.Sendto(pair[0], []byte("x"), unix.MSG_DONTWAIT, at)
}

// makeKey asks a gateway's admin socket for a key.
func makeKey(socket string) error {
	c, err := net.DialTimeout("unix", socket, 5*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return err
	}
	const body = `{"name":"planted"}`
	if _, err := fmt.Fprintf(c, "POST /keys HTTP/1.1\r\nHost: admin\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
		len(body), body); err != nil {
		return err
	}
	answer, err := io.ReadAll(c)
	if err == nil && !bytes.HasPrefix(answer, []byte("HTTP/1.1 200 ")) {
		err = fmt.Errorf("it answers %q", answer)
	}
	return err
}

// aside connects in a way that is not plain TCP's connect: by another protocol, or by sending with a flag.
func aside(address string, protocol, flag int) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	at := &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	if flag == 0 {
		return unix.Connect(fd, at)
	}
	return unix.Sendto(fd, []byte("x"), flag, at)
}
