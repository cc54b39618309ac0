package log_test

import (
	"encoding/binary"
	"reflect"
	"slices"
	"testing"

	"github.com/yett-dev/yett/core/log"
)

func TestEachRecordRefusesCutGroups(t *testing.T) {
	whole := []byte{0, 0, 0, 2, '{', '}', 0, 0, 0, 1, 'x'}
	for n := range whole {
		err := log.EachRecord(whole[:n], func([]byte) error { return nil })
		if (n == 0 || n == 6) != (err == nil) {
			t.Errorf("%d bytes of a group: %v", n, err)
		}
	}
	if err := log.EachRecord([]byte{0xff, 0xff, 0xff, 0xff, 1}, func([]byte) error { return nil }); err == nil {
		t.Error("a length beyond the group was believed")
	}
}

// TestFramesOfTheFirstVersion: a store that wrote them is read.
func TestFramesOfTheFirstVersion(t *testing.T) {
	const salt = log.Salt(7)
	var tree log.Tree
	c := log.Commit{Number: 3, First: 1, Count: 1, Left: 2, Records: []byte{0, 0, 0, 2, '{', '}'}}
	c.Hashes = tree.Append([]byte("{}"), nil)
	frame := c.AppendFrame(nil, salt)
	again, err := log.ParseFrame(frame, salt)
	if err != nil || !reflect.DeepEqual(again, c) || len(frame) != c.FrameSize() {
		t.Errorf("%+v, %v; %d bytes, want %d", again, err, len(frame), c.FrameSize())
	}
	first := append(slices.Clone(frame[:29]), frame[37:len(frame)-4]...)
	first[0] = 1
	first = binary.BigEndian.AppendUint32(first, salt.Sum(first))
	c.Left = 0
	if again, err = log.ParseFrame(first, salt); err != nil || !reflect.DeepEqual(again, c) {
		t.Errorf("%+v, %v", again, err)
	}
	for n := range first {
		if _, err := log.ParseFrame(first[:n], salt); err == nil {
			t.Errorf("%d bytes of a frame are one", n)
		}
	}
	c.Left = c.Number
	if _, err := log.ParseFrame(c.AppendFrame(nil, salt), salt); err == nil {
		t.Error("an answer left before its commit was written")
	}
}
