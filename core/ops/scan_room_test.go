package ops_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/sdk/abi"
)

// fill opens streams with pieces of ever smaller sizes until the key can open none of the smallest, and gives what it
// has opened.
func (b *bench) fill(key *ops.NewKey) (open map[string]int) {
	b.t.Helper()
	open = map[string]int{}
	for size := 256 << 10; size >= 1<<10; size /= 4 {
		for {
			id := fmt.Sprintf("%d-%d", size, len(open))
			got := b.say(key, id, 0, strings.Repeat("a", size), "")
			if got == "too_many_requests" {
				break
			}
			if !strings.HasPrefix(got, "PASS aaa") {
				b.t.Fatalf("%s: %.60s", id, got)
			}
			open[id] = size
		}
	}
	return open
}

// Keys that take all that they may leave room for one that holds little. What they have open goes on, and nobody's
// answers are taken.
func TestScanStreamRoomForSmallHolders(t *testing.T) {
	b, _ := scanBenchOf(t, scanRoom{perKey: 1000, held: 1 << 20, share: 4 << 20, memory: 16 << 20}, abi.StreamStateful,
		bang{})
	early, late := b.newKey("early", "agent"), b.newKey("late", "agent")
	if got := b.say(early, "done", 0, "early", last); !strings.HasPrefix(got, "PASS early") {
		t.Fatal(got)
	}
	if got := b.say(early, "open", 0, "early", ""); !strings.HasPrefix(got, "PASS early") {
		t.Fatal(got)
	}
	var hogs []*ops.NewKey
	var open []map[string]int
	for i := range 4 {
		hogs = append(hogs, b.newKey(fmt.Sprintf("hog%d", i), "agent"))
		open = append(open, b.fill(hogs[i]))
	}
	piece := strings.Repeat("b", 20<<10)
	for i := range 3 {
		if got := b.say(late, "s", i*len(piece), piece, ""); !strings.HasPrefix(got, "PASS bbb") {
			t.Errorf("piece %d of who holds little: %.60s", i, got)
		}
	}
	if got := b.say(late, "s", 3*len(piece), "", last); !strings.HasPrefix(got, "PASS") {
		t.Errorf("its last piece: %.60s", got)
	}
	if got := b.say(early, "open", 5, piece, last); !strings.HasPrefix(got, "PASS bbb") {
		t.Errorf("a stream that was open before: %.60s", got)
	}
	if got := b.say(early, "done", 0, "early", last); !strings.HasPrefix(got, "PASS early") {
		t.Errorf("an answer again: %.60s", got)
	}
	for i, hog := range hogs {
		for id, size := range open[i] {
			if got := b.say(hog, id, size, "", last); !strings.HasPrefix(got, "PASS ") {
				t.Errorf("the end of %s: %.60s", id, got)
			}
		}
	}
}

// A piece for which there is no room, whatever made way, takes no answer of anybody.
func TestScanStreamRefusalTakesNoAnswers(t *testing.T) {
	b, _ := scanBench(t, abi.StreamStateful, bang{})
	key, other := b.newKey("k", "agent"), b.newKey("o", "agent")
	text, open := strings.Repeat("a", 200<<10), strings.Repeat("a", 260<<10)
	whole := func(key *ops.NewKey, id, text string) string {
		answer, err := b.run(key.Value, "scan_output",
			fmt.Sprintf(`{"tool_id":"t/x","agent_id":"a","session_id":"s","stream_id":%q,"offset":0,"output":%q,"final":true}`,
				id, text))
		if err != nil {
			t.Fatal(err)
		}
		return member(answer, "scan_id")
	}
	done := whole(other, "done", text)
	if got := b.say(other, "open", 0, open, ""); !strings.HasPrefix(got, "PASS aaa") {
		t.Fatalf("%.60s", got)
	}
	var own [4]string
	for i := range own {
		own[i] = whole(key, fmt.Sprint(i), "x")
	}
	// Too much for the share, and too much for all, in a new stream and so in the place of one that has ended.
	for _, size := range []int{500 << 10, 390 << 10} {
		if got := b.say(key, "new", 0, strings.Repeat("b", size), ""); got != "too_many_requests" {
			t.Errorf("%d bytes: %.60s", size, got)
		}
	}
	for i, was := range own {
		if got := whole(key, fmt.Sprint(i), "x"); got != was {
			t.Errorf("an own answer again: scan %s, was %s", got, was)
		}
	}
	if got := whole(other, "done", text); got != done {
		t.Errorf("another key's answer again: scan %s, was %s", got, done)
	}
}

// A piece whose readings take more than there is has not happened, and what was there goes on.
func TestScanStreamGrowsNoFurtherThanItsRoom(t *testing.T) {
	b, _ := scanBenchOf(t, scanRoom{perKey: 4, held: 1 << 20, memory: 512 << 10},
		abi.StreamNone, bang{})
	key := b.newKey("k", "agent")
	if got := b.say(key, "s", 0, "x", ""); got != "PASS  next 1 settled 0 released 0 ended false" {
		t.Fatal(got)
	}
	deep := strings.Repeat("a", 100<<10) + `\u005cu005cu005cu0041 `
	if got := b.say(key, "s", 1, deep, ""); got != "too_many_requests" {
		t.Errorf("a piece that is kept in many readings: %.80s", got)
	}
	if got := b.say(key, "s", 1, strings.Repeat("a", 150<<10), ""); !strings.HasPrefix(got,
		"PASS  next 153601 settled 0") {
		t.Errorf("another in its place: %.80s", got)
	}
}

// heap is what is in use once all that can be collected is.
func heap() int64 {
	for range 3 { // what pools keep takes two
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// What is counted is what is held: at the limit the heap has grown by the limit, and not by a multiple of it.
func TestScanStreamMemoryIsTheHeaps(t *testing.T) {
	testkit.Long(t, "streams of 48 MiB")
	const memory = 48 << 20
	b, _ := scanBenchOf(t, scanRoom{perKey: 1000, held: 64, memory: memory},
		abi.StreamStateful, bang{})
	key := b.newKey("k", "agent")
	text := "!" + strings.Repeat("a", 256<<10)
	b.say(key, "first", 0, text, last)
	before := heap()
	n := 0
	for b.say(key, fmt.Sprint(n), 0, text, "") != "too_many_requests" {
		n++
	}
	if grown := heap() - before; grown > memory*5/4 || grown < memory/4 {
		t.Errorf("%d streams at a limit of %d bytes hold %d bytes of the heap", n, memory, grown)
	}
	runtime.KeepAlive(b)
}
