package supervise

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// toSwitch are the capabilities that running a process as another user takes: to become that user, to give it its
// directory, to connect to it there, to remove that from a temporary directory where everybody may remove only their
// own, and to end it.
var toSwitch = []struct {
	name string
	bit  uint
}{
	{"CAP_SETUID", unix.CAP_SETUID}, {"CAP_SETGID", unix.CAP_SETGID}, {"CAP_CHOWN", unix.CAP_CHOWN}, {"CAP_DAC_OVERRIDE", unix.CAP_DAC_OVERRIDE},
	{"CAP_FOWNER", unix.CAP_FOWNER}, {"CAP_KILL", unix.CAP_KILL},
}

// mayRunAs refuses what could be begun and not ended: root in a container or under a service manager may well be
// without some of them.
func mayRunAs(u *User) error {
	if u == nil || int(u.UID) == os.Geteuid() {
		return nil
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&header, &have[0]); err != nil {
		return fmt.Errorf("user %d: capabilities of the gateway: %w", u.UID, err)
	}
	var missing []string
	for _, c := range toSwitch {
		if have[c.bit/32].Effective&(1<<(c.bit%32)) == 0 {
			missing = append(missing, c.name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("user %d: to run a process as another user the gateway needs %s too", u.UID,
			strings.Join(missing, ", "))
	}
	return nil
}

// disarm takes the capabilities that the gateway has without being root (ambient ones of a service manager, those of
// its file): they would survive both the switch of users and exec, and CAP_SETUID alone makes root of a plugin. Root's
// own go with the switch.
func disarm() error {
	err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	if err != nil && !errors.Is(err, unix.EINVAL) { // before Linux 4.3 there are none
		return fmt.Errorf("ambient capabilities: %w", err)
	}
	if os.Geteuid() == 0 {
		return nil
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}
