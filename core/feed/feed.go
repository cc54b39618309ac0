// Package feed brings the audit log to subscribers, one pump each, and decides what retention may remove. A pump reads
// the log behind its durable cursor, sends batches within a window of credit, and moves the cursor over what is
// acknowledged: at least once, in order, nothing left out without a record that says so. It must never be in the way of
// decisions: it rests between small pieces of work and holds a few MiB at most. It knows neither the store nor plugin
// processes: the log, the cursors and the subscriber are interfaces of its own, and core wires them.
package feed

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/yett-dev/yett/core/log/follow"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// Log is the audit log.
type Log interface {
	follow.Log
	sizer
	// StoreOf is the id of the store that has written record seq, and the first record that it wrote: a log that was
	// restored from a backup has records of several.
	StoreOf(seq uint64) (id string, first uint64)
	// NextLife is the first record behind seq that another store has written; 0 where there is none.
	NextLife(seq uint64) uint64
	// Root is the RFC 6962 root hash of the tree over records 1 to size.
	Root(size uint64) ([32]byte, error)
}

type sizer interface {
	// Size is how many bytes the records from seq on take, as an estimate.
	Size(from uint64) (bytes uint64, err error)
}

// Position is how far a subscriber has come.
type Position struct {
	Seq  uint64 // it has taken in every record up to this one, or was told why not
	High uint64 // the furthest it ever was
}

// Cursors keep the positions of subscribers, and write records about them.
type Cursors interface {
	// Cursor is the position on disk; ok is false for a subscriber that has never begun.
	Cursor(name string) (at Position, ok bool)
	// Move does all of m in one write. It is on disk when nil is returned, and may be when an error is.
	Move(ctx context.Context, m Move) error
}

// Move is one change of a position.
type Move struct {
	Name   string
	To     uint64
	Back   bool // To lies behind the position
	Stay   bool // only the events: To does not count
	Events []Event
}

// The types of events. Each becomes a record of the log.
const (
	EventGap        = "subscriber_gap"         // First to Last had been removed by retention before they were delivered
	EventPaused     = "subscriber_paused"      // First cannot be delivered: nothing goes out until an operator says so
	EventResumed    = "subscriber_resumed"     // an operator said so
	EventDeadLetter = "subscriber_dead_letter" // First was passed over
	EventReplay     = "subscriber_replay"      // First to Last are delivered once more
)

// Event is something that the log has to tell about a subscriber.
type Event struct {
	Type        string
	First, Last uint64
	Why         string
	By          Who
}

// Who asked for something. The zero Who is the system.
type Who struct{ Principal, Method, Surface, Peer string }

// Consumer is a subscriber, whatever process it runs in.
type Consumer interface {
	// Consume opens a stream. An error says that it is not ready now. The stream ends when ctx does.
	Consume(ctx context.Context) (Stream, error)
}

// Stream is one stream to a subscriber. One goroutine sends while another one receives. Recv's error with the gRPC code
// Unavailable or Canceled, or ErrGone, says that the process is gone, which is not the fault of what was sent.
type Stream interface {
	Send(batch *pluginv1.Batch) error
	Recv() (*pluginv1.Ack, error)
	CloseSend() error
}

// The values of settings.
const (
	PayloadFull     = "full"        // records as they are stored
	PayloadRedacted = "redacted"    // args, context and texts masked
	PayloadDigest   = "digest"      // without args and context; their digest stays
	StartEarliest   = "earliest"    // with the oldest record there is
	StartLatest     = "latest"      // with the next one
	PoisonPause     = "pause"       // wait for an operator
	PoisonDead      = "dead_letter" // pass the record over
)

// Signing puts signed checkpoints into batches.
type Signing struct {
	// Text gives a checkpoint of the records of a store up to size, or "" if there is none to be had; nil: never.
	Text  func(store string, size uint64, root [32]byte) string
	Every time.Duration // a batch gets one when the last is older
}

// Settings are what a pump needs. Name, Log, Cursors and Consumer are required, Mask with PayloadRedacted.
type Settings struct {
	Name  string
	Types []string // of records that are delivered; none: all
	// globs. Records of another agent are not delivered, those of no agent or of a pattern are; none: all
	Agents   []string
	Tools    []string // likewise for tools
	Payload  string   // default redacted
	Start    string   // of a subscriber that has no cursor yet; default earliest
	OnPoison string   // default pause

	Mask func(ctx context.Context, t Text) (string, error)
	// told of each record that is delivered without what could not be masked; nil: nobody
	Withheld func(cause, scanner string)
	Sign     Signing       // the zero one: no batch has a checkpoint
	Policy   func() string // when it changes, Mask may find something else in a text; nil: it never does
	Log      Log
	Cursors  Cursors
	Consumer Consumer
	Report   func(format string, args ...any)       // one line for the operator; nil: nobody
	Now      func() time.Time                       // against the time of records; nil: time.Now
	Spread   func(most time.Duration) time.Duration // how much longer a pause is; nil: at random

	AckTimeout   time.Duration // default 30 s
	Window       int           // batches on their way whose end is not below the durable cursor; default 4
	BatchRecords int           // default 256, and at most that
	BatchBytes   int           // default 1 MiB, and at most that; a record that is larger goes alone
}

// Text is something to be masked.
type Text struct {
	Text            string
	JSON            bool // Text is a JSON value, and what comes back must be one
	ToolID, AgentID string
}

// The limits of the contract.
const (
	maxRecords = 256
	maxBytes   = 1 << 20
	maxWindow  = 4
)

// ready fills in the defaults and refuses what does not hold.
func (s *Settings) ready() error {
	for _, f := range []struct {
		value    *string
		name     string
		standard string
		others   []string
	}{
		{&s.Payload, "payload", PayloadRedacted, []string{PayloadDigest, PayloadFull}},
		{&s.Start, "start", StartEarliest, []string{StartLatest}},
		{&s.OnPoison, "on_poison", PoisonPause, []string{PoisonDead}},
	} {
		if err := oneOf(f.value, f.name, f.standard, f.others); err != nil {
			return err
		}
	}
	if s.AckTimeout == 0 {
		s.AckTimeout = 30 * time.Second
	}
	for _, f := range []struct {
		value *int
		name  string
		most  int
	}{{&s.Window, "window", maxWindow}, {&s.BatchRecords, "batch records", maxRecords},
		{&s.BatchBytes, "batch bytes", maxBytes}} {
		if *f.value == 0 {
			*f.value = f.most
		}
		if *f.value < 1 || *f.value > f.most {
			return fmt.Errorf("%s: %d is not within 1 to %d", f.name, *f.value, f.most)
		}
	}
	if s.Report == nil {
		s.Report = func(string, ...any) {}
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.Spread == nil {
		s.Spread = func(most time.Duration) time.Duration { return rand.N(most + 1) }
	}
	switch {
	case s.Name == "":
		return fmt.Errorf("name: is missing")
	case s.Log == nil || s.Cursors == nil || s.Consumer == nil:
		return fmt.Errorf("a log, cursors and a consumer are required")
	case s.Payload == PayloadRedacted && s.Mask == nil:
		return fmt.Errorf("payload: redacted takes something that masks")
	case s.AckTimeout < 0:
		return fmt.Errorf("ack timeout: %v is negative", s.AckTimeout)
	}
	return nil
}

func oneOf(value *string, name, standard string, others []string) error {
	if *value == "" {
		*value = standard
	}
	if *value == standard {
		return nil
	}
	for _, o := range others {
		if *value == o {
			return nil
		}
	}
	return fmt.Errorf("%s: %q is not one of %s %v", name, *value, standard, others)
}
