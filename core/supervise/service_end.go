package supervise

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// killWait bounds every wait for a process that was sent SIGKILL: one stuck in the kernel must not hold us up.
const killWait = 5 * time.Second

// tidy waits for what runs beside: probes, and the removal of what the last process had on disk.
func (s *Service) tidy() error {
	var stuck error
	for _, p := range undead(slices.Clone(s.stuck)) {
		stuck = errors.Join(stuck, p.endless())
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.probes.Wait()
		if stuck == nil && s.last != nil {
			<-s.last.gone
		}
	}()
	select {
	case <-done:
		return stuck
	case <-time.After(killWait):
		return errors.Join(stuck, fmt.Errorf("close %s: a probe does not return, or its files are many", s.set.Name))
	}
}

// end kills a process for a reason, and adds to the reason if the process had come to an end of its own, or does not
// end: one that is stuck in the kernel must not hold us up.
func (s *Service) end(p *Process, reason error) error {
	if p == nil {
		return reason
	}
	p.Kill()
	select {
	case <-p.done:
	case <-time.After(killWait):
		s.stuck = append(undead(s.stuck), p)
		return fmt.Errorf("%w; %w", reason, p.endless()) // one line: it becomes a reason
	}
	if p.exit.Cause != CauseKilled {
		return fmt.Errorf("%w (%s)", reason, p.exit)
	}
	return reason
}

// undead leaves those that have not ended yet.
func undead(stuck []*Process) []*Process {
	return slices.DeleteFunc(stuck, func(p *Process) bool {
		select {
		case <-p.done:
			return true
		default:
			return false
		}
	})
}

func (p *Process) endless() error {
	return fmt.Errorf("process %d of %s does not end, SIGKILL was sent %v ago", p.pid, p.name, killWait)
}

func ended(p *Process) error { return errors.New(p.exit.String()) }
