//go:build linux

package bench

import (
	"syscall"
	"time"
)

// driven is what a run gave.
type driven struct {
	good     int // answers after the warm-up that were as expected
	inTime   int // of them, those that came before the end
	all      int // the same, warm-up included
	bad      int // of the whole run
	firstBad string
	late     int           // requests that were due and were not sent, or not answered, by the end; only with a rate
	elapsed  time.Duration // the measured time
	cpu      time.Duration // of the generator's thread in that time
	latency  histogram     // from when a request was due (sent, without a rate) to the end of its answer
}

// perSecond is the rate of good answers, 0 when the run ended before its warm-up did.
func (d *driven) perSecond() float64 {
	if d.elapsed <= 0 {
		return 0
	}
	return float64(d.good) / d.elapsed.Seconds()
}

// wrong counts an answer that is not as it has to be.
func (d *driven) wrong(answer []byte) {
	if d.bad++; d.firstBad == "" {
		d.firstBad = excerpt(answer)
	}
}

// span is the time of one run: as planned, and as it was.
type span struct {
	start, from, end time.Time
	began, ended     time.Time
	cpu              time.Duration // the thread's, when measuring began
}

func planned(warm, duration time.Duration) span {
	now := time.Now()
	return span{start: now, from: now.Add(warm), end: now.Add(warm + duration)}
}

// tick begins to measure when the warm-up is over.
func (s *span) tick(now time.Time) {
	if s.began.IsZero() && !now.Before(s.from) {
		s.began, s.cpu = now, threadCPU()
	}
}

// finish ends measuring; later calls change nothing.
func (s *span) finish(now time.Time, out *driven) {
	if !s.ended.IsZero() {
		return
	}
	s.ended = now
	if !s.began.IsZero() {
		out.elapsed, out.cpu = now.Sub(s.began), threadCPU()-s.cpu
	}
}

// count takes one good answer. It is measured when it comes after the warm-up; a call that was due before and had to
// wait until then is, so that an overload shows.
func (s *span) count(out *driven, due, now time.Time) {
	out.all++
	if s.began.IsZero() {
		return
	}
	out.good++
	if s.ended.IsZero() {
		out.inTime++
	}
	out.latency.add(now.Sub(due))
}

// excerpt is the beginning of an answer, for messages.
func excerpt(b []byte) string { return string(b[:min(len(b), 400)]) }

// threadCPU is the time that this thread has computed.
func threadCPU() time.Duration {
	const thread = 1 // RUSAGE_THREAD
	var ru syscall.Rusage
	if syscall.Getrusage(thread, &ru) != nil {
		return 0
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}
