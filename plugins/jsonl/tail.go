package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// window is how far from its end a file is looked at. No line is longer: the host's messages end at 4 MiB.
const window = 8 << 20

// position is where in which log a line stands. The zero position is nowhere.
type position struct {
	store string
	seq   uint64
}

// tail is what the end of a file says.
type tail struct {
	whole int64     // bytes up to the end of the last whole line
	last  position  // of the last line of ours among those looked at
	at    time.Time // when that record was made; zero if the line is none
}

// readTail looks at the end of a file of size bytes.
func readTail(f io.ReaderAt, size int64) (tail, error) {
	if size == 0 {
		return tail{}, nil
	}
	from := max(size-window, 0)
	buf := make([]byte, size-from)
	if _, err := f.ReadAt(buf, from); err != nil && !errors.Is(err, io.EOF) {
		return tail{}, err
	}
	if from == 0 && buf[0] != '{' && buf[0] != 0 {
		return tail{}, errors.New("the file is not one of this plugin: it begins with no JSON object")
	}
	end := bytes.LastIndexByte(buf, '\n') + 1 // zeros, which a power cut leaves, hold no newline
	if end == 0 && from > 0 {
		return tail{}, fmt.Errorf("the last %d bytes hold no end of a line", window)
	}
	t := tail{whole: from + int64(end)}
	for end > 0 && t.last == (position{}) {
		start := bytes.LastIndexByte(buf[:end-1], '\n') + 1
		if start == 0 && from > 0 {
			break // the beginning of this line was not read
		}
		t.last, t.at = placeOf(buf[start:end])
		end = start
	}
	return t, nil
}

// The lines that are no records.
const (
	typeGap    = "yett_gap"
	typeReplay = "yett_replay"
	typeRoot   = "yett_root"
)

// placeOf reads where a line stands; nowhere if it is none of ours.
func placeOf(line []byte) (position, time.Time) {
	var l struct {
		At       string `json:"timestamp"`
		Type     string `json:"type"`
		StoreID  string `json:"store_id"`
		Seq      uint64 `json:"seq"`
		FirstSeq uint64 `json:"first_seq"`
		LastSeq  uint64 `json:"last_seq"`
	}
	if json.Unmarshal(line, &l) != nil || l.StoreID == "" {
		return position{}, time.Time{}
	}
	switch l.Type {
	case typeGap, typeRoot:
		return position{l.StoreID, l.LastSeq}, time.Time{}
	case typeReplay:
		return position{l.StoreID, max(l.FirstSeq, 1) - 1}, time.Time{}
	}
	return position{l.StoreID, l.Seq}, timeOf(l.At)
}

// timeOf reads a record's timestamp; the zero time if there is none.
func timeOf(text string) time.Time {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return at
}
