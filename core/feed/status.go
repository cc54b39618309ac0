package feed

import "time"

// The states of a pump.
const (
	StateStarting   = "starting"   // finds out where to begin
	StateWaiting    = "waiting"    // the subscriber is not ready
	StateDelivering = "delivering" // a stream is open
	StateBackoff    = "backoff"    // something failed: it tries again by itself
	StatePaused     = "paused"     // a record fails for good: an operator has to say what to do
	StateClosed     = "closed"
)

// Status is how a subscriber stands. The counts are since Start.
type Status struct {
	Name   string
	State  string
	Detail string // why, when it does not deliver
	Cursor uint64 // on disk
	High   uint64 // the furthest it ever was; above Cursor during a replay

	LagRecords uint64
	LagBytes   uint64        // on disk, an estimate
	Lag        time.Duration // the age of the oldest record that is not behind the cursor
	Gap        uint64        // records behind the cursor that retention has removed and that are still to be reported

	Delivered   uint64 // records that were acknowledged
	Redelivered uint64 // records that were sent once more, replays aside
	Batches     uint64 // sent
	Filtered    uint64 // records that the filters kept back
	Lost        uint64 // records that retention had removed before they were delivered
	DeadLetters uint64
	Failures    uint64 // streams that ended because of a record
	Connects    uint64 // streams that were opened
	Protocol    uint64 // streams that were ended because of what the subscriber said

	Poison      uint64 // the record that fails; 0: none
	PoisonTries int
	PoisonError string
}

// publish shows the status to others.
func (p *Pump) publish() {
	s := &p.now
	s.Cursor, s.High = p.at.Seq, p.at.High
	s.Poison, s.PoisonTries, s.PoisonError = p.fail.seq, p.fail.n, p.fail.why
	if s.Poison == 0 {
		s.Poison = p.stuck
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status, p.known = *s, p.began
}

func (p *Pump) state(state, detail string) {
	p.now.State, p.now.Detail = state, detail
	p.publish()
}

// Cursor is how far the subscriber has come for good; ok is false until the pump has found out.
func (p *Pump) Cursor() (seq uint64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status.Cursor, p.known
}

// Status is how the subscriber stands now. It reads one record of the log.
func (p *Pump) Status() Status {
	p.mu.Lock()
	s, known := p.status, p.known
	p.mu.Unlock()
	if !known {
		return s
	}
	size, first := p.set.Log.Seq(), p.set.Log.First()
	if s.Cursor >= size {
		return s
	}
	s.LagRecords = size - s.Cursor
	if first > s.Cursor+1 {
		s.Gap = first - s.Cursor - 1
	}
	var err error
	if s.LagBytes, err = p.set.Log.Size(s.Cursor + 1); err != nil {
		s.LagBytes, s.Detail = 0, "the log's size is not known: "+err.Error()
	}
	h, _, err := p.head(s.Cursor + 1)
	if at := h.Time(); !at.IsZero() {
		s.Lag = max(p.set.Now().Sub(at), 0)
	}
	if err != nil {
		s.Detail = "the log cannot be read: " + err.Error()
	}
	return s
}
