package execrun

import (
	"os"
	"os/exec"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/yett-dev/yett/cmd/internal/cli"
)

// channel makes what a command prints to: a terminal if the agent's end is one, so that the command prints as it would
// without Yett, else a pipe. The terminal carries output alone. It is nobody's controlling terminal: the command stays
// in its process group at the agent's own terminal, with its stdin, its Ctrl-C and its job control.
func channel(to *os.File) (read, write *os.File, tty bool, err error) {
	if !cli.IsTerminal(to) {
		read, write, err = os.Pipe()
		return read, write, false, err
	}
	master, slave, err := pty.Open()
	if err != nil {
		return nil, nil, false, err
	}
	if err := plainOutput(slave); err != nil {
		master.Close()
		slave.Close()
		return nil, nil, false, err
	}
	_ = pty.InheritSize(to, master) // a size of 0 is one that programs know
	read, err = waitable(master)
	if err != nil {
		slave.Close()
		return nil, nil, false, err
	}
	return read, slave, true, nil
}

// plainOutput keeps a terminal from changing what is printed to it: the agent's own does that.
func plainOutput(f *os.File) error {
	fd := int(f.Fd())
	settings, err := unix.IoctlGetTermios(fd, getSettings)
	if err != nil {
		return err
	}
	settings.Oflag &^= unix.OPOST
	settings.Lflag &^= unix.ECHO | unix.ICANON
	return unix.IoctlSetTermios(fd, setSettings, settings)
}

// waitable gives a file whose reads can be given a deadline, in place of one that may have been made to block.
func waitable(f *os.File) (*os.File, error) {
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// resize gives the command's terminal the size of the agent's.
func (o *outputs) resize() {
	if o.screen == nil {
		return
	}
	for _, f := range o.flows {
		if f.src.tty {
			_ = pty.InheritSize(o.screen, f.src.f) // a terminal that has gone has no size
		}
	}
}

// self is a command that runs this program as one of exec's helpers.
var self = func(args ...string) (*exec.Cmd, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return exec.Command(path, append([]string{"exec"}, args...)...), nil
}

// drainer is the process that reads a pipe to nowhere until nobody writes to it.
func drainer(f *os.File) (*exec.Cmd, error) {
	cmd, err := self("--drain")
	if err != nil {
		return nil, err
	}
	cmd.Stdin = f
	cmd.SysProcAttr = apart()
	return cmd, nil
}

// moveOutputs gives stdout and stderr under other numbers. What anything else in this process prints to stdout is lost.
// A reader that has gone is an error of the write, and not the end of the process: only 1 and 2 raise SIGPIPE.
func moveOutputs() (stdout, stderr *os.File, err error) {
	var fds [2]int
	for i := range fds {
		if fds[i], err = unix.FcntlInt(uintptr(i+1), unix.F_DUPFD_CLOEXEC, 3); err != nil {
			return nil, nil, err
		}
	}
	if err := nowhere(1); err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "stdout"), os.NewFile(uintptr(fds[1]), "stderr"), nil
}

// muteStderr lets go of stderr's own number.
func muteStderr() error { return nowhere(2) }

// nowhere makes a descriptor lead to nowhere.
func nowhere(fd int) error {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	return unix.Dup2(int(null.Fd()), fd)
}
