package supervise

import (
	"errors"
	"io"
	"strings"
	"sync"
	"time"
)

// Outside makes a Process that stands for something which is no child of ours, such as a connection to a process that
// somebody else runs, so that a Service can look after it. stop is called by Kill and Terminate until the end was told;
// it must neither wait nor call ended. ended tells the end, once and for all: why is nil if there was nothing wrong.
func Outside(name string, stop func(kill bool)) (p *Process, ended func(why error)) {
	p = &Process{name: name, in: noInput{}, out: strings.NewReader(""), signal: stop,
		done: make(chan struct{}), gone: make(chan struct{})}
	var once sync.Once
	return p, func(why error) {
		once.Do(func() {
			p.mu.Lock()
			p.reaped = true
			if p.asked {
				p.exit.Cause = CauseKilled
			} else {
				p.exit.Cause = CauseOutside
			}
			p.mu.Unlock()
			if why != nil {
				p.exit.Code, p.exit.Err = -1, why.Error()
			}
			close(p.done)
			close(p.gone)
		})
	}
}

// Follow reads r to its end and passes its lines on as a child's stderr is passed on: printable, cut, and at a bounded
// rate. After exited is closed nothing is slowed down any longer. Reading fails when r says so; log is called by this
// goroutine.
func Follow(r io.Reader, exited <-chan struct{}, log func(line string)) {
	(&stderrReader{log: log, now: time.Now, after: time.After, exited: exited}).run(r)
}

// noInput stands for stdin when it is /dev/null.
type noInput struct{}

func (noInput) Write([]byte) (int, error) { return 0, errNoPipe }
func (noInput) Close() error              { return nil }

var errNoPipe = errors.New("the process was started without pipes")
