package execrun

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// relayed are the signals that a command gets in our place.
var relayed = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTSTP,
	syscall.SIGCONT, syscall.SIGWINCH, syscall.SIGUSR1, syscall.SIGUSR2}

// signals passes signals on to the command.
type signals struct {
	outs    *outputs
	got     chan os.Signal
	process chan *os.Process
	over    chan struct{}
	done    sync.WaitGroup
}

// relay takes the signals over. Until there is a command they wait.
func relay(outs *outputs) *signals {
	s := &signals{outs: outs, got: make(chan os.Signal, 16), process: make(chan *os.Process, 1), over: make(chan struct{})}
	// the program's own handling would end this process, and leave the command alone with its pipes
	signal.Reset(syscall.SIGINT, syscall.SIGTERM)
	ignored := ignoredSignals()
	for _, sig := range relayed {
		if n := sig.(syscall.Signal); ignored&(1<<(n-1)) == 0 && !signal.Ignored(sig) { // nohup, and jobs behind &
			signal.Notify(s.got, sig)
		}
	}
	s.done.Go(s.run)
	return s
}

func (s *signals) to(p *os.Process) { s.process <- p }

func (s *signals) stop() {
	signal.Stop(s.got)
	close(s.over)
	s.done.Wait()
}

func (s *signals) run() {
	var p *os.Process
	select {
	case p = <-s.process:
	case <-s.over:
		return
	}
	for {
		select {
		case <-s.over:
			return
		case sig := <-s.got:
			s.pass(p, sig.(syscall.Signal))
		}
	}
}

// pass passes one signal on. The command stands in our process group: what a terminal sends, it has got already.
func (s *signals) pass(p *os.Process, sig syscall.Signal) {
	switch sig {
	case syscall.SIGWINCH:
		s.outs.resize() // and the command is told once its terminal has the new size
	case syscall.SIGINT, syscall.SIGQUIT:
		if atTerminal() {
			return // twice is more than once: many programs end hard at the second Ctrl-C
		}
	}
	_ = p.Signal(sig) // one that has ended is not there any more
	if sig == syscall.SIGTSTP {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
}

// atTerminal reports whether a terminal sends its signals to our process group.
func atTerminal() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == syscall.Getpgrp()
}

// raise ends this process as its command has ended, for a caller that looks at signals: a shell's loop ends at Ctrl-C
// only if the command has died of it.
func raise(sig syscall.Signal) {
	if sig != syscall.SIGINT {
		return
	}
	signal.Reset(sig)
	_ = syscall.Kill(os.Getpid(), sig)
	time.Sleep(time.Second) // until it arrives; where it is ignored, the exit code has to do
}
