package rig

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Each run has a user of its own, with a number from this range, that nobody else has.
const (
	firstUser = 58100
	lastUser  = 58999
	homes     = "/home"
)

const marker = "/etc/yett-rig" // holds the word of insideVar; the machine's own /etc never has it

// furnish makes the namespaces that enter gave this process into the private place. It looks first whether they are.
func furnish() error {
	now, err := namespaces()
	if err != nil {
		return err
	}
	for i, ns := range strings.Fields(now) {
		if host := strings.Fields(os.Getenv(hostVar)); len(host) != 3 || host[i] == ns {
			return fmt.Errorf("this process shares %s with the machine: unset %s, which only Main may set", ns, insideVar)
		}
	}
	if os.Getpid() != 1 {
		return fmt.Errorf("this process is not the first of its namespace: unset %s, which only Main may set", insideVar)
	}
	if err := mountAll(os.Getenv(shareVar), os.Getenv(Clients)); err != nil {
		return err
	}
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("bring loopback up: %w", err)
	}
	if err := freeUsers(); err != nil {
		return err
	}
	if err := os.WriteFile(marker, []byte(os.Getenv(insideVar)), 0o644); err != nil {
		return err
	}
	for name, value := range map[string]string{"HOME": "/root", "TMPDIR": "/tmp"} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return outside()
}

// mountAll hides what belongs to the machine. Order matters: share lies in the machine's own /tmp, and clients may lie
// in a HOME.
func mountAll(share, clients string) error {
	steps := []struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE, ""},
		{"tmpfs", "/run", "tmpfs", 0, "mode=755"},
		{share, Share, "", unix.MS_BIND, ""},
		{clients, installed, "", unix.MS_BIND, ""},
		{"", installed, "", unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY, ""},
		{"proc", "/proc", "proc", 0, ""},
		{"tmpfs", "/root", "tmpfs", 0, "mode=700"},
		{"tmpfs", homes, "tmpfs", 0, "mode=755"},
		{"tmpfs", "/mnt", "tmpfs", 0, "mode=755"},
		{"overlay", "/etc", "overlay", 0, "lowerdir=/etc,upperdir=/mnt/etc/upper,workdir=/mnt/etc/work"},
		{"tmpfs", "/tmp", "tmpfs", 0, "mode=1777"},
		{"tmpfs", "/var/tmp", "tmpfs", 0, "mode=1777"},
		{"tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777"},
		{"", "/", "", unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY, ""},
	}
	needed := map[string][]string{Share: {Share}, installed: {installed}, "/etc": {"/mnt/etc/upper", "/mnt/etc/work"}}
	for _, s := range steps {
		for _, dir := range needed[s.target] {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		if err := unix.Mount(s.source, s.target, s.kind, s.flags, s.data); err != nil {
			return fmt.Errorf("mount %s on %s: %w", s.source, s.target, err)
		}
	}
	return nil
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

// freeUsers says which user of the machine has a number of the range.
func freeUsers() error {
	text, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(line, ":")
		if len(fields) < 3 {
			continue
		}
		if n, err := strconv.Atoi(fields[2]); err == nil && n >= firstUser && n <= lastUser {
			return fmt.Errorf("user %s of this machine has the number %d: the tests need %d to %d for themselves",
				fields[0], n, firstUser, lastUser)
		}
	}
	return nil
}

// addUser gives a user its name, which some clients look up.
func addUser(id int, name, home string) error {
	if err := appendTo("/etc/passwd", fmt.Sprintf("%s:x:%d:%d::%s:/bin/bash\n", name, id, id, home)); err != nil {
		return err
	}
	return appendTo("/etc/group", fmt.Sprintf("%s:x:%d:\n", name, id))
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// outside says in which way this process is not in the private place, or nil.
func outside() error {
	word, err := os.ReadFile(marker)
	if err != nil || os.Getenv(insideVar) == "" || string(word) != os.Getenv(insideVar) {
		return fmt.Errorf("this is not the private place: %s does not hold the word of %s", marker, insideVar)
	}
	if word := strings.TrimSpace(os.Getenv(insideVar)); word != filepath.Base(os.Getenv(shareVar)) {
		return fmt.Errorf("this is not the private place: %s and %s differ", insideVar, shareVar)
	}
	links, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, l := range links {
		if l.Flags&net.FlagLoopback == 0 && l.Flags&net.FlagUp != 0 {
			return fmt.Errorf("this is not the private place: it has the network interface %s", l.Name)
		}
	}
	for _, dir := range []string{"/etc", "/tmp", "/root", homes} {
		var here, root unix.Stat_t
		if err := unix.Stat(dir, &here); err != nil {
			return err
		}
		if err := unix.Stat("/", &root); err != nil {
			return err
		}
		if here.Dev == root.Dev {
			return fmt.Errorf("this is not the private place: %s is the machine's own", dir)
		}
	}
	return nil
}
