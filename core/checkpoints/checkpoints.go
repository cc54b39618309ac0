// Package checkpoints owns signed checkpoints that leave the data directory: it hands them to files, webhooks and
// witnesses, and holds the log against what those have at a start. Whoever puts the whole data directory back to an
// earlier time, or another log in its place, can only be seen there. It must never hand out a checkpoint of records
// that log/head does not know of yet, never take a file that it cannot read for one that agrees, never follow a
// redirect, and never wait without end for anybody.
package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/core/log"
)

// Log is what is checkpointed.
type Log interface {
	// InHead brings log/head up to date, and is how many records it knows of: a start notices when they are missing.
	InHead() uint64
	// Seq is how many records there are, First the seq of the oldest that is still there.
	Seq() uint64
	First() uint64
	// Root is the root of the tree over the records up to size.
	Root(size uint64) ([32]byte, error)
	// Consistency proves that the tree over the first records is a beginning of that over size, with 0 < first < size.
	Consistency(first, size uint64) (tlog.TreeProof, error)
}

// Settings are what New needs. All but the destinations are required.
type Settings struct {
	Files     []string
	Webhooks  []Webhook
	Witnesses []Witness

	Every  time.Duration
	Log    Log
	Signer *log.Signer
	Origin string
	Now    func() time.Time
	// Report is told of a destination that cannot be used and of what was not held against the log, Alarm of one that
	// knows another log.
	Report, Alarm func(format string, args ...any)
}

// patience is how long a destination may take. One that hangs holds up neither the others, nor a start, nor a stop.
const patience = 5 * time.Second

var errHangs = fmt.Errorf("it has not answered within %v", patience)

// differs marks an error that says that a destination knows another log than this one, or more of it.
type differs struct{ error }

func (d differs) Unwrap() error { return d.error }

// Differs reports whether an error says that a destination knows another log than this one, or more of it.
func Differs(err error) bool {
	var d differs
	return errors.As(err, &d)
}

// signed is a checkpoint that is handed out.
type signed struct {
	size uint64
	root tlog.Hash
	text string
}

// destination is who gets checkpoints. Its methods are called one at a time.
type destination interface {
	// hold asks what the destination knows, and holds the log against it. The note says why nothing was compared, and is
	// "" where something was.
	hold(ctx context.Context) (note string, err error)
	// give hands a checkpoint over.
	give(ctx context.Context, c signed) error
	// close is the last call.
	close()
}

// place is a destination, and how it stands with it. The Keeper's mutex guards what is below busy.
type place struct {
	destination
	kind, name string
	failure    string // what it is when it fails: "cannot be written"
	waits      bool   // giving ends with its context

	busy  bool // somebody is at work with it
	held  bool // the log was held against what it knows, as far as that was to be had
	has   string
	size  uint64 // of the newest checkpoint that it has
	err   error  // of the last try
	since time.Time
}

func (p *place) title() string {
	if p.kind == KindFile {
		return p.name
	}
	return p.kind + " " + p.name
}

// The kinds of destinations.
const (
	KindFile    = "file"
	KindWebhook = "webhook"
	KindWitness = "witness"
)

// Keeper hands checkpoints out. Its methods are safe for concurrent use.
type Keeper struct {
	set    Settings
	keys   log.Keys
	places []*place
	quit   chan struct{}
	done   chan struct{} // nil until Start
	ctx    context.Context
	cancel context.CancelFunc
	asked  sync.WaitGroup // what ends with ctx

	late func() <-chan time.Time // when a try is taken for one that will not end

	mu      sync.Mutex
	started bool // changes are told of
	lines   map[*cosigner]string
	linesOf string // the checkpoint that lines are of
}

// New makes a Keeper, which does nothing yet.
func New(set Settings) (*Keeper, error) {
	keys, err := log.ParseKeys(set.Signer.PublicKey())
	if err != nil {
		return nil, err
	}
	k := &Keeper{set: set, keys: keys, quit: make(chan struct{}),
		late: func() <-chan time.Time { return time.After(patience) }}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	for _, path := range set.Files {
		k.places = append(k.places, &place{destination: file{k: k, path: path, add: add}, kind: KindFile, name: path,
			failure: "cannot be written"})
	}
	for _, w := range set.Webhooks {
		k.places = append(k.places, &place{destination: newReceiver(k, w), kind: KindWebhook, name: w.Name,
			failure: "does not take checkpoints", waits: true})
	}
	for _, w := range set.Witnesses {
		k.places = append(k.places, &place{destination: newCosigner(k, w), kind: KindWitness, name: w.Key.Name(),
			failure: "does not cosign", waits: true})
	}
	return k, nil
}

// agrees holds the log against a checkpoint. out is what an operator does who has lost records for good.
func agrees(l Log, c *log.Checkpoint, out string) error {
	switch {
	case c.Size > l.Seq():
		return missing(c.Size, l.Seq(), out)
	case c.Size+1 < l.First():
		return nil // retention has removed what would show it
	}
	root, err := l.Root(c.Size)
	if err != nil {
		return err
	}
	if tlog.Hash(root) != c.Root {
		return differs{fmt.Errorf("the first %d records are not those that were signed: the log is another one; put the "+
			"right data directory back", c.Size)}
	}
	return nil
}

// missing is what it means that somebody has seen more records than the log has.
func missing(seen, has uint64, out string) error {
	return differs{fmt.Errorf("it was signed when the log had %d records, and now it has %d: its end is missing, or the "+
		"data directory is that of an earlier time; put the newest one back, or, if the records are lost for good, %s", seen,
		has, out)}
}

// newest is the largest checkpoint of this log in a text; nil if there is none.
func (k *Keeper) newest(text []byte) (*log.Checkpoint, error) {
	texts, err := log.SplitCheckpoints(text)
	if err != nil {
		return nil, err
	}
	var found *log.Checkpoint
	for _, one := range texts {
		c, err := log.OpenCheckpoint(one, k.keys)
		if err == nil && c.Origin == k.set.Origin && (found == nil || c.Size >= found.Size) {
			found = &c
		} // else it was cut while it was written, or is of a log before a restore
	}
	return found, nil
}

// store is the id of the store whose log this is.
func (k *Keeper) store() string { return strings.TrimPrefix(k.set.Origin, log.Origin("")) }
