package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/yett-dev/yett/sdk"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// batch is one of records first to last, as the host sends it.
func batch(first, last uint64) *pluginv1.Batch {
	m := &pluginv1.Batch{StoreId: "s", FirstSeq: first, LastSeq: last, TreeRoot: make([]byte, 32)}
	for seq := first; seq <= last; seq++ {
		m.Records = append(m.Records, &pluginv1.Record{Seq: seq, Json: fmt.Appendf(nil, `{"seq":%d}`, seq),
			LeafHash: make([]byte, 32)})
	}
	return m
}

func subscriber(consume func(context.Context, *Batch) error) Subscriber {
	return Subscriber{Info: Info{Name: "sub", Version: "1"}, Consume: consume}
}

func TestConsume(t *testing.T) {
	var taken []uint64
	r := load(t, subscriber(func(_ context.Context, b *Batch) error {
		for _, rec := range b.Records {
			switch rec.Seq {
			case 25:
				return fmt.Errorf("wrapped: %w", &RecordError{rec.Seq, errors.New("poison")})
			case 65:
				panic("x")
			case 85:
				return &RecordError{1000, errors.New("confused")}
			}
			taken = append(taken, rec.Seq)
		}
		return nil
	}))
	r.configure(t, "")
	for _, c := range []struct {
		from  uint64
		acks  []uint64
		error string // of the last acknowledgement
	}{
		{11, []uint64{20, 24}, "record 25: poison"},
		{51, []uint64{60, 60}, "Consume panicked"},
		{71, []uint64{80, 80}, "RecordError.Seq: 1000 is not within 81 to 90"},
	} {
		stream, err := r.subscriber.Consume(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range uint64(3) { // the third one must not be taken in after the second one failed
			// it may have ended by now
			if err := stream.Send(batch(c.from+10*i, c.from+10*i+9)); err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
		}
		var last *pluginv1.Ack
		for i, want := range c.acks {
			if last, err = stream.Recv(); err != nil || last.GetSeq() != want || (last.GetError() != "") != (i == 1) {
				t.Errorf("from %d: %v, %v; want %d", c.from, last, err, want)
			}
		}
		if !strings.Contains(last.GetError(), c.error) {
			t.Errorf("from %d: %q, want %q", c.from, last.GetError(), c.error)
		}
		for _, seq := range taken {
			if seq >= c.from+20 {
				t.Errorf("from %d: %d is of the batch behind the one that failed", c.from, seq)
			}
		}
		if m, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("from %d: goes on with %v, %v", c.from, m, err)
		}
	}
}

// TestConsumeWhileDown wants an outage told apart from a record that cannot be taken in: no record may be held to be
// the cause.
func TestConsumeWhileDown(t *testing.T) {
	var taken []uint64
	r := load(t, subscriber(func(_ context.Context, b *Batch) error {
		if b.First > 10 {
			return errors.New("the receiver is down")
		}
		taken = append(taken, b.First)
		return nil
	}))
	r.configure(t, "")
	stream, err := r.subscriber.Consume(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(3) {
		if err := stream.Send(batch(10*i+1, 10*i+10)); err != nil && !errors.Is(err, io.EOF) { // it may have ended by now
			t.Fatal(err)
		}
	}
	if ack, err := stream.Recv(); err != nil || ack.GetSeq() != 10 || ack.GetError() != "" {
		t.Errorf("%v, %v", ack, err)
	}
	ack, err := stream.Recv()
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "the receiver is down") {
		t.Errorf("%v, %v; want UNAVAILABLE with the reason", ack, err)
	}
	if len(taken) != 1 {
		t.Errorf("took in %v", taken)
	}
}

// TestConsumeInPart wants what came before an outage acknowledged, without a word against a record, and then
// UNAVAILABLE.
func TestConsumeInPart(t *testing.T) {
	t.Parallel()
	why := errors.New("down")
	at := func(seq uint64) error { return &Later{seq, why} }
	bad := func(seq uint64) error { return &RecordError{seq, why} }
	for name, c := range map[string]struct {
		err   error
		ack   uint64 // of the second batch, 11 to 20; 0: none
		fault bool
		says  string
	}{
		"in the middle":            {at(15), 14, false, "from record 15 on nothing is taken in now: down"},
		"at the end":               {at(20), 19, false, "down"},
		"at the beginning":         {at(11), 0, false, "down"},
		"wrapped":                  {fmt.Errorf("so: %w", at(15)), 14, false, "so: from record 15"},
		"before the batch":         {at(10), 0, false, "Later.Seq: 10 is not within 11 to 20"},
		"behind the batch":         {at(21), 0, false, "Later.Seq: 21 is not within 11 to 20"},
		"never":                    {at(0), 0, false, "Later.Seq: 0 is not within"},
		"the earliest of two":      {errors.Join(at(17), at(13)), 12, false, "down"},
		"the earliest is at fault": {errors.Join(at(17), bad(13)), 12, true, "record 13: down"},
		"the earliest is not":      {errors.Join(bad(17), at(13)), 12, false, "record 17: down"},
		"of one record":            {errors.Join(bad(15), at(15)), 14, false, "down"},
		"a fault within":           {&Later{13, bad(17)}, 12, false, "record 17: down"},
		"two at fault":             {errors.Join(bad(17), fmt.Errorf("x: %w", bad(13))), 12, true, "record 13: down"},
	} {
		r := load(t, subscriber(func(_ context.Context, b *Batch) error {
			if b.First != 11 {
				return nil
			}
			return c.err
		}))
		r.configure(t, "")
		stream, err := r.subscriber.Consume(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range uint64(3) {
			if err := stream.Send(batch(10*i+1, 10*i+10)); err != nil && !errors.Is(err, io.EOF) { // it may have ended by now
				t.Fatal(err)
			}
		}
		if ack, err := stream.Recv(); err != nil || ack.GetSeq() != 10 || ack.GetError() != "" {
			t.Errorf("%s: %v, %v", name, ack, err)
		}
		ack, err := stream.Recv()
		if c.ack != 0 {
			if err != nil || ack.GetSeq() != c.ack || (ack.GetError() != "") != c.fault ||
				c.fault && !strings.Contains(ack.GetError(), c.says) {
				t.Errorf("%s: %v, %v; want %d", name, ack, err, c.ack)
			}
			ack, err = stream.Recv()
		}
		if c.fault && !errors.Is(err, io.EOF) || !c.fault &&
			(status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: ends with %v, %v", name, ack, err)
		}
	}
}

// TestConsumeAnswersEach wants an acknowledgement without the host closing its side, and the end when it does.
func TestConsumeAnswersEach(t *testing.T) {
	r := load(t, subscriber(func(_ context.Context, b *Batch) error {
		b.First, b.Last, b.Records = 7, 3, nil
		return nil
	}))
	r.configure(t, "")
	stream, err := r.subscriber.Consume(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*pluginv1.Batch{batch(1, 3), {StoreId: "s", FirstSeq: 4, LastSeq: 9, TreeRoot: make([]byte, 32)}} {
		if err := stream.Send(m); err != nil {
			t.Fatal(err)
		}
		if ack, err := stream.Recv(); err != nil || ack.GetSeq() != m.GetLastSeq() || ack.GetError() != "" {
			t.Fatal(ack, err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// TestConsumeDrains finishes the batch it has, acknowledges it and takes no other.
func TestConsumeDrains(t *testing.T) {
	t.Parallel()
	for range 10 { // what it takes next is chosen at random where the order is wrong
		consumeDrains(t)
	}
}

func consumeDrains(t *testing.T) {
	t.Helper()
	begun, goOn := make(chan uint64, 10), make(chan struct{})
	r := load(t, subscriber(func(_ context.Context, b *Batch) error { begun <- b.First; <-goOn; return nil }))
	r.configure(t, "")
	stream, err := r.subscriber.Consume(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(2) {
		if err := stream.Send(batch(i*3+1, i*3+3)); err != nil {
			t.Fatal(err)
		}
	}
	<-begun
	ended := make(chan error, 1)
	go func() { ended <- r.drain() }()
	<-r.server.draining
	close(goOn)
	if ack, err := stream.Recv(); err != nil || ack.GetSeq() != 3 {
		t.Fatal(ack, err)
	}
	if ack, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Error(ack, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if len(begun) > 0 {
		t.Error("another batch was begun")
	}
}

func TestMalformedBatches(t *testing.T) {
	r := load(t, subscriber(func(context.Context, *Batch) error { return nil }))
	r.configure(t, "")
	for want, spoil := range map[string]func(*pluginv1.Batch){
		"store_id":               func(m *pluginv1.Batch) { m.StoreId = "" },
		"are no range":           func(m *pluginv1.Batch) { m.FirstSeq = 0 },
		"5 and 4 are no range":   func(m *pluginv1.Batch) { m.FirstSeq, m.LastSeq = 5, 4 },
		"tree_root":              func(m *pluginv1.Batch) { m.TreeRoot = nil },
		"leaf_hash of 2":         func(m *pluginv1.Batch) { m.Records[1].LeafHash = []byte{1} },
		"2 is no JSON":           func(m *pluginv1.Batch) { m.Records[1].Json = []byte("{") },
		"1 is not in order":      func(m *pluginv1.Batch) { m.Records[1].Seq = 1 },
		"4 is not in order":      func(m *pluginv1.Batch) { m.Records[2].Seq = 4 },
		"gap: 3 to 9":            func(m *pluginv1.Batch) { m.Gap = &pluginv1.Gap{FirstSeq: 3, LastSeq: 9} },
		"records: 1 is in":       func(m *pluginv1.Batch) { m.Gap = &pluginv1.Gap{FirstSeq: 1, LastSeq: 1} },
		"257, the limit is 256":  func(m *pluginv1.Batch) { proto.Merge(m, batch(1, 254)) },
		"gap: 2 to 1 is not wit": func(m *pluginv1.Batch) { m.Gap = &pluginv1.Gap{FirstSeq: 2, LastSeq: 1} },
	} {
		m := batch(1, 3)
		spoil(m)
		stream, err := r.subscriber.Consume(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(m); err != nil {
			t.Fatal(err)
		}
		if ack, err := stream.Recv(); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", want, ack, err)
		}
	}
}

func FuzzBatch(f *testing.F) {
	seed, err := proto.Marshal(batch(1, 3))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pluginv1.Batch
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		got, err := batchOf(&m)
		if err != nil {
			return
		}
		last := uint64(0)
		for _, r := range got.Records {
			if r.Seq <= last || r.Seq < got.First || r.Seq > got.Last {
				t.Errorf("record %d of %d to %d", r.Seq, got.First, got.Last)
			}
			last = r.Seq
		}
		var c Chain
		if proven, err := c.Add(got); proven && (err != nil || got.First != 1) {
			t.Error("proven, though it does not begin with the first record")
		}
	})
}

func FuzzCall(f *testing.F) {
	seed, err := proto.Marshal(request(1, "x"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	all, err := gather(sample(), nil)
	if err != nil {
		f.Fatal(err)
	}
	s := newServer(all, nil)
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pluginv1.CheckRequest
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		if c, err := s.callOf(&m); err == nil && c.ToolID == "" {
			t.Error("a call without a tool")
		}
	})
}

// hashes makes a log of n records: leaves, and the root after each as golang.org/x/mod computes it.
func hashes(t *testing.T, n int) (leaves, roots [][32]byte) {
	t.Helper()
	var stored []tlog.Hash
	read := tlog.HashReaderFunc(func(at []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(at))
		for i, j := range at {
			out[i] = stored[j]
		}
		return out, nil
	})
	for i := range int64(n) {
		record := fmt.Appendf(nil, `{"n":%d}`, i)
		more, err := tlog.StoredHashes(i, record, read)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, more...)
		root, err := tlog.TreeHash(i+1, read)
		if err != nil {
			t.Fatal(err)
		}
		if LeafHash(record) != [32]byte(tlog.RecordHash(record)) {
			t.Fatalf("leaf %d", i)
		}
		leaves, roots = append(leaves, LeafHash(record)), append(roots, [32]byte(root))
	}
	return leaves, roots
}

func TestChain(t *testing.T) {
	leaves, roots := hashes(t, 300)
	cut := func(first, last int) *Batch {
		b := &Batch{StoreID: "s", First: uint64(first), Last: uint64(last), Root: roots[last-1]}
		for i := first; i <= last; i++ {
			b.Records = append(b.Records, Record{Seq: uint64(i), Leaf: leaves[i-1]})
		}
		return b
	}
	for size := 1; size <= len(roots); size++ {
		if TreeRoot(leaves[:size]) != roots[size-1] {
			t.Fatalf("the root of %d", size)
		}
	}
	for _, step := range []int{1, 2, 3, 7, 64, 300} {
		var c Chain
		for first := 1; first <= 300; first += step {
			if proven, err := c.Add(cut(first, min(first+step-1, 300))); err != nil || !proven {
				t.Fatalf("by %d at %d: %v, %v", step, first, proven, err)
			}
		}
		if c.Last != 300 || len(c.Peaks) != 4 { // 256 + 32 + 8 + 4
			t.Errorf("by %d: %d records, %d subtrees", step, c.Last, len(c.Peaks))
		}
	}
	begin := func() *Chain {
		var c Chain
		if proven, err := c.Add(cut(1, 100)); err != nil || !proven {
			t.Fatal(proven, err)
		}
		return &c
	}
	for name, c := range map[string]struct {
		batch  *Batch
		proven bool
		error  string
	}{
		"goes on":            {cut(101, 150), true, ""},
		"again, and further": {cut(51, 150), true, ""},
		"again":              {cut(51, 100), false, ""},
		"a record left out":  {cut(102, 150), false, "the batch before ended with 100"},
		"another record":     {func() *Batch { b := cut(101, 150); b.Records[9].Leaf[0]++; return b }(), false, "their tree has the root"},
		"two records swapped": {func() *Batch {
			b := cut(101, 150)
			r := b.Records
			r[3].Leaf, r[4].Leaf = r[4].Leaf, r[3].Leaf
			return b
		}(), false, "root"},
		"of another store": {func() *Batch { b := cut(101, 150); b.StoreID = "x"; return b }(), false, `of store "x"`},
		"filtered":         {func() *Batch { b := cut(101, 150); b.Records = b.Records[:3]; return b }(), false, ""},
		"filtered within":  {func() *Batch { b := cut(101, 150); b.Records = append(b.Records[:3:3], b.Records[4:]...); return b }(), false, ""},
		"no range":         {&Batch{StoreID: "s"}, false, "no range"},
	} {
		chain := begin()
		proven, err := chain.Add(c.batch)
		if proven != c.proven || (c.error == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.error) {
			t.Errorf("%s: %v, %v", name, proven, err)
		}
		if err != nil && chain.Last != 100 {
			t.Errorf("%s: the chain has moved on to %d", name, chain.Last)
		}
		if err == nil && chain.Last == 150 { // what follows a filtered batch is continuous, and not proven any more
			if proven, err := chain.Add(cut(151, 200)); err != nil || proven != c.proven {
				t.Errorf("%s: and then %v, %v", name, proven, err)
			}
		}
	}
	var c Chain
	if proven, err := c.Add(cut(50, 60)); err != nil || proven {
		t.Errorf("begun in the middle: %v, %v", proven, err)
	}
}

func TestScan(t *testing.T) {
	const text = "an é and more"
	var findings []sdk.Finding
	fail := error(nil)
	r := load(t, Scanner{Info: Info{Name: "s", Version: "1", Findings: []FindingKind{{Kind: "K"}}},
		Scan: func(_ context.Context, t *Text) ([]sdk.Finding, error) { t.Text = ""; return findings, fail }})
	r.configure(t, "")
	scan := func(req *pluginv1.ScanRequest) (*pluginv1.ScanResponse, error) {
		return r.scanner.Scan(t.Context(), req)
	}
	good := sdk.Finding{Kind: "K", Start: 3, End: 5, Confidence: 1, Severity: sdk.High, Suggested: sdk.Replace,
		Replacement: "e"}
	findings = []sdk.Finding{good}
	m, err := scan(&pluginv1.ScanRequest{Id: 5, Text: []byte(text)})
	if err != nil || m.GetId() != 5 || len(m.GetFindings()) != 1 ||
		m.GetFindings()[0].GetSeverity() != pluginv1.Finding_SEVERITY_HIGH ||
		m.GetFindings()[0].GetSuggested() != pluginv1.Finding_ACTION_REPLACE {
		t.Error(m, err)
	}
	for want, spoil := range map[string]func(*sdk.Finding){
		"is not in Info.Findings": func(f *sdk.Finding) { f.Kind = "L" },
		"5 and 5, must be":        func(f *sdk.Finding) { f.Start = 5 },
		"3 and 15, must be":       func(f *sdk.Finding) { f.End = len(text) + 1 },
		"-1 and 5":                func(f *sdk.Finding) { f.Start = -1 },
		"within a character":      func(f *sdk.Finding) { f.Start = 4 },
		"Confidence: NaN":         func(f *sdk.Finding) { f.Confidence = float32(nan()) },
		"Confidence: 1.5":         func(f *sdk.Finding) { f.Confidence = 1.5 },
		"Severity: 5":             func(f *sdk.Finding) { f.Severity = 5 },
		"Suggested: 5":            func(f *sdk.Finding) { f.Suggested = 5 },
		"only with Suggested":     func(f *sdk.Finding) { f.Suggested = sdk.Flag },
		"Replacement: 65537":      func(f *sdk.Finding) { f.Replacement = strings.Repeat("x", maxReplace+1) },
	} {
		f := good
		spoil(&f)
		findings = []sdk.Finding{f}
		m, err := scan(&pluginv1.ScanRequest{Id: 1, Text: []byte(text)})
		if err != nil || !strings.Contains(m.GetError(), want) || len(m.GetFindings()) > 0 {
			t.Errorf("%s: %v, %v", want, m, err)
		}
	}
	findings = make([]sdk.Finding, maxFindings+1)
	if m, err := scan(&pluginv1.ScanRequest{Id: 1}); err != nil || !strings.Contains(m.GetError(), "257 findings") {
		t.Error(m, err)
	}
	findings, fail = nil, errors.New("not covered")
	if m, err := scan(&pluginv1.ScanRequest{Id: 1}); err != nil || m.GetError() != "not covered" {
		t.Error(m, err)
	}
	fail = nil
	if m, err := scan(&pluginv1.ScanRequest{Id: 1, DeadlineUnixNano: 1}); err != nil || m.GetError() == "" {
		t.Error("late:", m, err)
	}
	for _, req := range []*pluginv1.ScanRequest{{}, {Id: 1, Text: []byte("\xff")}, {Id: 1, DeadlineUnixNano: -1}} {
		if m, err := scan(req); status.Code(err) != codes.InvalidArgument {
			t.Error(req, m, err)
		}
	}
}

func nan() float64 { z := 0.0; return z / z }
