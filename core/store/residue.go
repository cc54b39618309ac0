package store

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/sdk"
)

// residue is what of the log nobody was given, and a start has cut off. What takes something away in it stands all the
// same: it is done again before anybody is answered. Until that is on disk it is in a file, log/residue, which is there
// before anything is cut: a start that ends meanwhile leaves it to the next one.
type residue struct {
	commits []log.Commit
	left    uint64 // the newest commit whose answers had left, by what is written behind it
	newest  uint64 // the commit that was read last
	whole   bool   // a missing commit is an error. A start does not set it: it checks that after Pebble has read the logs
}

// The file is a word, and (u32 length, frame)… as the write-ahead log had them.
const (
	residueName  = "residue"
	residueMagic = "yettres1"
)

// keepResidue adds to the file.
func (l *recordLog) keepResidue(r *residue, salt log.Salt) error {
	path := filepath.Join(l.dir, residueName)
	data, found, err := readAll(l.fs, path)
	if err != nil {
		return err
	}
	if !found {
		data = []byte(residueMagic)
	}
	for i := range r.commits {
		frame := r.commits[i].AppendFrame(nil, salt)
		data = append(binary.BigEndian.AppendUint32(data, uint32(len(frame))), frame...)
	}
	return l.put(path, data)
}

// readResidue reads the file; nil where there is none.
func (l *recordLog) readResidue() (*residue, error) {
	path := filepath.Join(l.dir, residueName)
	data, found, err := readAll(l.fs, path)
	if err != nil || !found {
		return nil, err
	}
	r := &residue{}
	if len(data) < len(residueMagic) || string(data[:len(residueMagic)]) != residueMagic {
		err = errors.New("it has another first word")
	} else {
		err = log.EachRecord(data[len(residueMagic):], func(frame []byte) error {
			c, err := log.ParseFrame(frame, l.own.Salt)
			r.commits = append(r.commits, c)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w; it says what was taken away and has to be done again: put the directory "+
			"back from where it was saved", path, err)
	}
	return r, nil
}

// redo does again what was cut off and takes something away.
func (s *Store) redo() error {
	var r *residue
	err := s.guarded(func() (err error) { r, err = s.records.readResidue(); return err })
	if err != nil || r == nil {
		return err
	}
	cmds, err := r.again()
	if err != nil {
		return err
	}
	for _, cmd := range cmds {
		var refused *sdk.Error
		if err := s.Commit(context.Background(), cmd); err != nil && (!errors.As(err, &refused) || unrecorded(refused)) {
			return err
		} // else it is so already, or what it is about was cut off with it
	}
	return s.guarded(func() error {
		l := &s.records
		return errors.Join(l.fs.Remove(filepath.Join(l.dir, residueName)), syncDir(l.fs, l.dir))
	})
}

// taken is what a record of the residue says of something that was taken away.
type taken struct {
	Type       string    `json:"type"`
	Time       time.Time `json:"timestamp"`
	Scope      string    `json:"scope"`
	Target     string    `json:"target"`
	Reason     string    `json:"reason"`
	Name       string    `json:"name"`
	Line       string    `json:"line"`
	KeyID      string    `json:"key_id"`
	RevokedAt  time.Time `json:"revoked_at"`
	GrantID    string    `json:"grant_id"`
	Token      string    `json:"defer_token"`
	Status     string    `json:"status"`
	Approver   string    `json:"approver_id"`
	Session    string    `json:"session"`
	Why        string    `json:"why"`
	Subscriber string    `json:"subscriber"`
	Policy     string    `json:"policy_version"`
	Principal  string    `json:"principal_id"`
	Method     string    `json:"principal_method"`
	Surface    string    `json:"surface"`
	Peer       string    `json:"peer"`
	RequestID  string    `json:"request_id"`
	Trace      string    `json:"trace_id"`
	Note       string    `json:"who_note"`
}

func (x *taken) by() Who {
	return Who{Principal: x.Principal, Method: x.Method, Surface: x.Surface, Peer: x.Peer, RequestID: x.RequestID,
		Trace: x.Trace, Note: x.Note}
}

// what names what was taken away: the same thing is taken away once.
func (x *taken) what() string {
	switch {
	case x.Type == "kill":
		return "kill\x00" + x.Scope + "\x00" + x.Target
	case x.Type == "key_revoked":
		return "key\x00" + x.KeyID + "\x00" + x.RevokedAt.String()
	case x.Type == "grant_revoked":
		return "grant\x00" + x.GrantID
	case x.Type == "defer_resolved" && x.Status == Denied:
		return "defer\x00" + x.Token
	case x.Type == "console_sign_out":
		return "session\x00" + x.Session
	case x.Type == SubscriberDropped:
		return "cursor\x00" + x.Subscriber
	}
	return ""
}

// again gives the commands that do once more what the residue has taken away. A key that was rolled is revoked as a
// part of that, which is undone as a whole. What retention removed is there again, and goes when it looks again.
func (r *residue) again() (out []Command, err error) {
	done := map[string]bool{}
	for i := range r.commits {
		var all []taken
		err := r.commits[i].Each(func(seq uint64, rec []byte) error {
			var x taken
			if err := json.Unmarshal(rec, &x); err != nil {
				return fmt.Errorf("record %d, which was cut off: %w", seq, err)
			}
			all = append(all, x)
			return nil
		})
		if err != nil {
			return nil, err
		}
		for i, x := range all {
			if what := x.what(); what != "" && !done[what] && !rolled(&x, all[i+1:]) {
				done[what] = true
				out = append(out, &takeAgain{x})
			}
		}
	}
	return out, nil
}

// rolled reports whether a key was revoked as a part of being rolled: then the next key that is made under its name is
// of its line. One that was created has no line.
func rolled(x *taken, behind []taken) bool {
	if x.Type != "key_revoked" {
		return false
	}
	for _, y := range behind {
		if y.Type == "key_created" && y.Name == x.Name {
			line := x.Line
			if line == "" {
				line = x.KeyID
			}
			return y.Line == line
		}
	}
	return false
}

// takeAgain takes away what a command took away that was cut off. On whose word was seen then.
type takeAgain struct{ taken taken }

func (*takeAgain) class() class { return taking }

func (c *takeAgain) apply(tx *tx) error {
	x, by := &c.taken, c.taken.by()
	switch x.Type {
	case "kill":
		kill := Kill{Scope: x.Scope, Target: x.Target, Reason: x.Reason, By: x.Principal}
		return (&KillSwitch{Kill: kill, By: by}).apply(tx)
	case "key_revoked":
		return (&RevokeKey{ID: x.KeyID, Grace: max(0, x.RevokedAt.Sub(tx.now)), By: by}).apply(tx)
	case "grant_revoked":
		return (&RevokeGrant{ID: x.GrantID, By: by}).revoke(tx)
	case "defer_resolved":
		return x.deny(tx, by)
	case "console_sign_out":
		return x.signOut(tx, by)
	default: // subscriber_dropped: what has a name in what
		return (&DropCursor{Name: x.Subscriber, By: by, Policy: x.Policy}).apply(tx)
	}
}

// deny ends a deferred call, with the standing grant that an approval of it has made.
func (x *taken) deny(tx *tx, by Who) error {
	d, err := tx.find(x.Token)
	if err != nil || d == nil || !d.open() {
		return err
	}
	c := &Approve{ApproveCall: ApproveCall{Key: &Key{ID: x.Approver}, By: by, Reason: x.Reason}}
	return c.end(tx, d)
}

// signOut removes the session's row: nobody has read the sessions yet.
func (x *taken) signOut(tx *tx, by Who) error {
	return tx.s.scan(prefixSession, func(key, value []byte) error {
		var sess Session
		if copy(sess.IDHash[:], key[1:]) < len(sess.IDHash) || hex.EncodeToString(sess.IDHash[:8]) != x.Session {
			return nil
		}
		if err := json.Unmarshal(value, &sess); err != nil {
			return fmt.Errorf("session %s: %w", x.Session, err)
		}
		(&Operators{sessions: map[[32]byte]*Session{sess.IDHash: &sess}}).end(tx, sess.IDHash, x.Why, by)
		return nil
	})
}
