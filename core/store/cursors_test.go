package store

import (
	"context"
	"fmt"
	"testing"

	"github.com/yett-dev/yett/sdk"
)

func (r *rig) notes(n int) {
	for range n {
		r.must(&Note{Type: "note", By: system})
	}
}

func TestCursor(t *testing.T) {
	r := newRig(t)
	r.notes(10)
	if _, ok := r.s.Cursor("siem"); ok {
		t.Fatal("a cursor that nobody has set")
	}
	move := func(to uint64, back bool, want Cursor, code sdk.Code) {
		t.Helper()
		r.refused(&MoveCursor{Name: "siem", To: to, Back: back}, code)
		if got, _ := r.s.Cursor("siem"); got != want {
			t.Fatalf("to %d: got %v, want %v", to, got, want)
		}
		r.reopen()
		if got, _ := r.s.Cursor("siem"); got != want {
			t.Fatalf("to %d, opened again: got %v, want %v", to, got, want)
		}
	}
	move(0, false, Cursor{0, 0}, "")
	move(7, false, Cursor{7, 7}, "")
	move(6, false, Cursor{7, 7}, sdk.CodeConflict)
	move(11, false, Cursor{7, 7}, sdk.CodeInvalidField)
	move(3, true, Cursor{3, 7}, "")
	move(5, false, Cursor{5, 7}, "")
	move(8, false, Cursor{8, 8}, "")
	if n := r.s.Seq(); n != 10 {
		t.Errorf("cursors have made %d records", n-10)
	}
	r.refused(&MoveCursor{To: 1}, sdk.CodeInvalidField)
	r.refused(&DropCursor{Name: "other"}, sdk.CodeNotFound)
	r.must(&MoveCursor{Name: "gone", To: 2})
	drop := &DropCursor{Name: "gone", By: Who{Principal: "admin:0", Method: "peer_uid", Surface: "admin"}}
	r.must(drop)
	if drop.Was != (Cursor{2, 2}) {
		t.Errorf("the dropped one was at %v", drop.Was)
	}
	r.reopen()
	if all := r.s.Cursors(); len(all) != 1 || all["siem"] != (Cursor{8, 8}) {
		t.Errorf("%v", all)
	}
}

// Events become records in the write that moves the cursor, and a move that was done already makes none again.
func TestCursorEvents(t *testing.T) {
	r := newRig(t)
	r.notes(10)
	dead := &MoveCursor{Name: "siem", To: 5, Events: []SubscriberEvent{
		{Type: SubscriberGap, First: 1, Last: 4, Why: "removed"}, {Type: SubscriberDeadLetter, First: 5, Last: 5, Why: string(make([]byte, 2000))}}}
	r.must(dead)
	again := *dead
	r.must(&again)
	r.must(&MoveCursor{Name: "siem", Stay: true,
		Events: []SubscriberEvent{{Type: SubscriberPaused, First: 6, Last: 6,
			By: Who{Principal: "admin:0", Method: "peer_uid", Surface: "admin"}}}})
	r.refused(&MoveCursor{Name: "siem", To: 99, Events: []SubscriberEvent{{Type: SubscriberGap}}}, sdk.CodeInvalidField)
	rows, _, err := logOf(r.s)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range rows[10:] {
		got = append(got, row.Type)
	}
	if fmt.Sprint(got) != "[subscriber_gap subscriber_dead_letter subscriber_paused]" {
		t.Errorf("%v", got)
	}
	if c, _ := r.s.Cursor("siem"); c.Seq != 5 {
		t.Errorf("cursor %v", c)
	}
}

// Two moves in one batch see each other.
func TestCursorsInOneBatch(t *testing.T) {
	s, g := openGated(t)
	newKey(t, s, "k", "authorize")
	errs := g.together(t, s, &MoveCursor{Name: "a", To: 1}, &MoveCursor{Name: "a", To: 0}, &MoveCursor{Name: "b", To: 1},
		&DropCursor{Name: "b"}, &MoveCursor{Name: "b", To: 0})
	if fmt.Sprint(errs[0], codeOf(errs[1]), errs[2], errs[3], errs[4]) !=
		fmt.Sprint(nil, sdk.CodeConflict, nil, nil, nil) {
		t.Errorf("%v", errs)
	}
	a, _ := s.Cursor("a")
	b, _ := s.Cursor("b")
	if a.Seq != 1 || b != (Cursor{}) {
		t.Errorf("%v %v", a, b)
	}
}

func TestCursorLimit(t *testing.T) {
	r := newRig(t)
	for i := range maxCursors {
		if err := r.s.Commit(context.Background(), &MoveCursor{Name: fmt.Sprint("s", i)}); err != nil {
			t.Fatal(err)
		}
	}
	r.refused(&MoveCursor{Name: "one more"}, sdk.CodeTooManyRequests)
	r.must(&DropCursor{Name: "s0"})
	r.must(&MoveCursor{Name: "one more"})
}
