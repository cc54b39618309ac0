package store

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/yett-dev/yett/sdk"
)

// twoClocks are a wall clock that can be set, and the machine's uptime.
type twoClocks struct {
	mu     sync.Mutex
	atWall time.Time
	atUp   time.Duration
}

func (c *twoClocks) move(wall, up time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.atWall, c.atUp = c.atWall.Add(wall), c.atUp+up
}

func (c *twoClocks) pass(d time.Duration) { c.move(d, d) }
func (c *twoClocks) set(d time.Duration)  { c.move(d, 0) }

// boot is a start of the machine.
func (c *twoClocks) boot() { c.move(0, time.Minute-c.up()) }

func (c *twoClocks) wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.atWall
}

func (c *twoClocks) up() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.atUp
}

func newTwoClocks() (*twoClocks, *timekeeper) {
	c := &twoClocks{atWall: time.Unix(86_400*20_000, 0).UTC(), atUp: time.Hour}
	return c, &timekeeper{wall: c.wall, up: c.up}
}

// rebooted is what is known of the clock behind a restart of the machine.
func (k *timekeeper) rebooted() clockState {
	s := k.state()
	s.Up = 0
	return s
}

// TestTimekeeper: what the store's clock makes of what the others do.
func TestTimekeeper(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		do    func(c *twoClocks, k *timekeeper)
		now   time.Duration // behind the beginning
		doubt time.Duration
	}{
		"time passes":     {func(c *twoClocks, _ *timekeeper) { c.pass(time.Hour) }, time.Hour, 0},
		"a small step":    {func(c *twoClocks, _ *timekeeper) { c.set(50 * time.Second) }, 50 * time.Second, 0},
		"a step":          {func(c *twoClocks, _ *timekeeper) { c.set(2 * time.Hour) }, 0, 2 * time.Hour},
		"time in a doubt": {func(c *twoClocks, k *timekeeper) { c.set(2 * day); k.look(); c.pass(day / 2) }, day / 2, 2 * day},
		"a doubt that ends": {func(c *twoClocks, k *timekeeper) {
			c.set(100 * day)
			k.look()
			c.pass(4 * time.Second)
			k.look()
			c.set(-100 * day)
		}, 4 * time.Second, 0},
		"a doubt that lasts": {func(c *twoClocks, k *timekeeper) {
			c.set(2 * time.Hour)
			for range 25 {
				k.look()
				c.pass(time.Hour)
			}
		}, 27 * time.Hour, 0},
		"confirmed": {func(c *twoClocks, k *timekeeper) {
			c.set(2 * time.Hour)
			k.look()
			k.believe = true
		}, 2 * time.Hour, 0},
		"confirmed, and another step": {func(c *twoClocks, k *timekeeper) {
			c.set(2 * time.Hour)
			k.look()
			k.believe = true
			k.look()
			c.set(time.Hour)
		}, 2 * time.Hour, time.Hour},
		"set back": {func(c *twoClocks, k *timekeeper) {
			c.set(-2 * time.Hour)
			k.look()
			c.pass(time.Hour)
		}, 54 * time.Minute, 0},
		"set back, until the wall is there": {func(c *twoClocks, k *timekeeper) {
			c.set(-time.Hour)
			for range 20 {
				k.look()
				c.pass(time.Hour)
			}
		}, 19 * time.Hour, 0},
		"a year of slow drift": {func(c *twoClocks, k *timekeeper) {
			for range 365 {
				c.pass(day)
				c.set(20 * time.Second)
				k.look()
			}
		}, 365*day + 365*20*time.Second, 0},
		"small steps": {func(c *twoClocks, k *timekeeper) {
			for range 100 {
				c.set(59 * time.Second)
				k.look()
				c.pass(time.Second)
			}
		}, 59*time.Second + 100*time.Second, 99 * 59 * time.Second},
		"small steps that are far apart": {func(c *twoClocks, k *timekeeper) {
			for range 100 {
				c.set(59 * time.Second)
				k.look()
				c.pass(day)
			}
		}, 100 * (day + 59*time.Second), 0},
		"small steps, with a restart behind each": {func(c *twoClocks, k *timekeeper) {
			for range 2 {
				c.set(59 * time.Second)
				k.begin(k.state())
			}
		}, 59 * time.Second, 59 * time.Second},
		"too fast by a hundredth": {func(c *twoClocks, k *timekeeper) {
			for range 24 * 3600 {
				c.move(1010*time.Millisecond, time.Second)
				k.look()
			}
		}, day + 66660*time.Millisecond, 864*time.Second - 66660*time.Millisecond},
		"a step too many, of little": {func(c *twoClocks, k *timekeeper) {
			c.set(59 * time.Second)
			k.look()
			c.set(2 * time.Second)
			k.look()
			c.pass(time.Hour)
		}, time.Hour + 61*time.Second, 0},
		"a step that is taken back": {func(c *twoClocks, k *timekeeper) {
			c.set(59 * time.Second)
			k.look()
			c.set(-59 * time.Second)
			c.pass(time.Hour)
			k.look()
			c.set(59 * time.Second)
		}, time.Hour + 59*time.Second, 0},
		"asleep for a day, and the clock set": {func(c *twoClocks, _ *timekeeper) {
			c.pass(25 * time.Hour)
			c.set(100 * day)
		}, 25 * time.Hour, 100 * day},
		"stopped for a day, and the clock set": {func(c *twoClocks, k *timekeeper) {
			last := k.state()
			c.pass(25 * time.Hour)
			c.set(100 * day)
			k.begin(last)
		}, 25 * time.Hour, 100 * day},
		"the process was stopped in a doubt": {func(c *twoClocks, k *timekeeper) {
			c.set(2 * time.Hour)
			k.look()
			c.pass(20 * time.Hour)
			last := k.state()
			c.pass(5 * time.Hour)
			k.begin(last)
		}, 27 * time.Hour, 0},
		"the machine was off in a doubt": {func(c *twoClocks, k *timekeeper) {
			c.set(20 * day)
			k.look()
			last := k.rebooted()
			c.set(time.Hour)
			c.boot()
			k.begin(last)
		}, 0, 20*day + time.Hour},
		"the clock was set right while the machine was off": {func(c *twoClocks, k *timekeeper) {
			c.set(20 * day)
			k.look()
			last := k.rebooted()
			c.set(-20*day + time.Hour)
			c.boot()
			k.begin(last)
		}, time.Hour, 0},
		"asleep": {func(c *twoClocks, _ *timekeeper) { c.pass(10 * time.Hour) }, 10 * time.Hour, 0},
		"2038":   {func(c *twoClocks, _ *timekeeper) { c.pass(20 * 365 * day) }, 20 * 365 * day, 0},
		"the process was stopped, and the clock set": {func(c *twoClocks, k *timekeeper) {
			last := k.state()
			c.pass(time.Hour)
			c.set(100 * day)
			k.begin(last)
		}, time.Hour, 100 * day},
		"the machine was off": {func(c *twoClocks, k *timekeeper) {
			last := k.rebooted()
			c.set(3 * day)
			c.boot()
			k.begin(last)
		}, 3 * day, 0},
		"the machine has another time after it was off": {func(c *twoClocks, k *timekeeper) {
			last := k.rebooted()
			c.set(100 * day)
			c.boot()
			k.begin(last)
		}, 0, 100 * day},
		"the machine has no time after it was off": {func(c *twoClocks, k *timekeeper) {
			last := k.rebooted()
			c.set(time.Unix(0, 0).Sub(c.wall()))
			c.boot()
			k.begin(last)
			c.pass(time.Hour)
		}, 54 * time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			clocks, k := newTwoClocks()
			began := k.look().Now
			c.do(clocks, k)
			got := k.look()
			if got.Now.Sub(began) != c.now || got.Doubt() != c.doubt {
				t.Errorf("it is %v, in doubt by %v; want %v, %v", got.Now.Sub(began), got.Doubt(), c.now, c.doubt)
			}
			if got.Since.IsZero() != (c.doubt == 0) || (c.doubt == 0) != (got.Late == got.Now) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// doubted is a store whose wall clock is set ahead while a grant, an approval and a pending call of an hour live, and a
// limit is used up.
type doubted struct {
	*rig
	clocks           *twoClocks
	agent, boss      *Key
	grant            *Grant
	pending, granted string
}

func newDoubted(t *testing.T) *doubted {
	clocks, _ := newTwoClocks()
	d := &doubted{rig: &rig{t: t, fs: vfs.NewMem(), clock: newClock()}, clocks: clocks}
	d.start()
	d.agent, d.boss = d.key("agent", nil, "authorize"), d.key("boss", nil, "approve", "grants")
	d.must(&CreateKey{Key: &Key{ID: "short", Name: "short", Scopes: []string{"authorize"}, CreatedAt: d.s.Now(),
		ExpiresAt: d.s.Now().Add(time.Hour)}, By: system})
	d.grant = &Grant{ID: "stg_1", AgentID: "agent", ToolPattern: "**", MaxUses: 9, IssuedBy: "console:ann",
		Issuers: []string{"console:ann"}}
	d.must(&AddGrant{Grant: d.grant, TTL: time.Hour, By: system, Most: 10})
	d.pending = d.deferred(d.agent, "waits", sdk.Verdict{})
	d.granted = d.deferred(d.agent, "granted", sdk.Verdict{})
	yes := d.answer(d.boss, d.granted, true)
	yes.ApprovedTTL = time.Hour
	d.must(yes)
	if got := d.limited(); got != sdk.Permit {
		t.Fatal(got)
	}
	d.clocks.pass(time.Second)
	return d
}

func (d *doubted) start() {
	set := settings(d.fs, d.clock, func(err error) { d.t.Errorf("fatal: %v", err) })
	set.Now, set.Uptime = d.clocks.wall, d.clocks.up
	s, err := Open(set)
	if err != nil {
		d.t.Fatal(err)
	}
	d.s = s
}

// limited asks for a call that may be made once a day.
func (d *doubted) limited() sdk.Effect {
	c := d.call(d.agent, d.id("x"), sdk.Verdict{Effect: sdk.Permit})
	c.Limits.Charges = []Charge{charge(sdk.LimitRate, "agent", "1", "1", 24*time.Hour)}
	d.must(c)
	return c.Out.Effect
}

// live reports what of it can be used.
func (d *doubted) live() (out []string) {
	byGrant := d.call(d.agent, d.id("g"), sdk.Verdict{Effect: sdk.Defer})
	byGrant.Grants = []*Grant{d.grant}
	d.must(byGrant)
	if byGrant.Out.Effect == sdk.Permit {
		out = append(out, "grant")
	}
	if d.status(d.agent, d.pending) == Pending {
		out = append(out, "pending")
	}
	if d.status(d.agent, d.granted) == Approved {
		out = append(out, "approval")
	}
	if short := d.s.Key("short"); d.commit(Barrier{Key: short}) == nil {
		out = append(out, "key")
	}
	if d.limited() == sdk.Permit {
		out = append(out, "limit")
	}
	return out
}

func (d *doubted) is(when string, want ...string) {
	d.t.Helper()
	got := d.live()
	if len(got) != len(want) {
		d.t.Errorf("%s: %q can be used, want %q", when, got, want)
		return
	}
	for i := range got {
		if got[i] != want[i] {
			d.t.Errorf("%s: %q can be used, want %q", when, got, want)
		}
	}
}

// types counts the records of a type.
func (d *doubted) types(typ string) int { return len(d.takenIn(1, typ)) }

// TestAClockThatIsWrongForAMoment: nothing is over for good, nothing over is used, no limit is open again. What is made
// meanwhile can be used.
func TestAClockThatIsWrongForAMoment(t *testing.T) {
	d := newDoubted(t)
	d.is("before", "grant", "pending", "approval", "key")
	asks := func() sdk.Effect {
		c := d.call(d.agent, "again", sdk.Verdict{Effect: sdk.Defer})
		c.Names.Hashes, c.Grants = [][16]byte{{7}}, []*Grant{d.grant}
		d.must(c)
		return c.Out.Effect
	}
	if got := asks(); got != sdk.Permit {
		t.Errorf("by the grant: %v", got)
	}
	d.clocks.set(100 * 24 * time.Hour)
	d.is("in doubt")
	if got := asks(); got == sdk.Permit {
		t.Error("what the grant has permitted is permitted again")
	}
	token := d.deferred(d.agent, "new", sdk.Verdict{})
	d.must(d.answer(d.boss, token, true))
	c := d.redeem(d.agent, "new", token, sdk.Verdict{Effect: sdk.Defer})
	d.must(c)
	if c.Out.Effect != sdk.Permit {
		t.Errorf("what was approved in doubt: %+v", c.Out)
	}
	spent := d.redeem(d.agent, "granted", d.granted, sdk.Verdict{Effect: sdk.Defer})
	d.must(spent)
	if spent.Out.Effect != sdk.Deny {
		t.Errorf("an approval that is over by the wall clock: %+v", spent.Out)
	}
	d.refused(d.answer(d.boss, d.pending, true), sdk.CodeDeferExpired)
	d.clocks.pass(4 * time.Second)
	if n := d.types("defer_expired"); n != 0 || d.types("clock_in_doubt") != 1 {
		t.Errorf("%d have expired; in doubt: %d records", n, d.types("clock_in_doubt"))
	}
	d.clocks.set(-100 * 24 * time.Hour)
	d.is("set right", "grant", "pending", "approval", "key")
	if d.types("clock_believed") != 1 {
		t.Error("that the clock is believed again is not recorded")
	}
	d.close()
}

// TestAClockThatIsConfirmed: then what is over by it ends for good.
func TestAClockThatIsConfirmed(t *testing.T) {
	d := newDoubted(t)
	d.refused(&BelieveClock{By: system}, sdk.CodeConflict)
	d.clocks.set(3 * time.Hour)
	d.is("in doubt")
	c := &BelieveClock{By: Who{Principal: "admin:0", Method: "peer_uid", Surface: "admin"}}
	d.must(c)
	if c.Was != 3*time.Hour {
		t.Errorf("it was %v ahead", c.Was)
	}
	d.must(&Note{Type: "tick", By: system})
	d.is("confirmed")
	if d.types("defer_expired") < 2 || d.types("clock_believed") != 1 {
		t.Errorf("%d have expired, %d times believed", d.types("defer_expired"), d.types("clock_believed"))
	}
	d.close()
}

// TestAClockThatIsSetBack: what was over stays over, also behind a restart.
func TestAClockThatIsSetBack(t *testing.T) {
	d := newDoubted(t)
	d.clocks.pass(2 * time.Hour)
	d.is("over")
	d.clocks.set(-24 * time.Hour)
	d.is("set back")
	d.close()
	d.start()
	d.agent, d.boss, d.grant = d.s.Key("agent"), d.s.Key("boss"), &Grant{ID: "stg_1"}
	if got := d.limited(); got == sdk.Permit {
		t.Error("a limit is open again")
	}
	g, err := (&tx{s: d.s, q: d.s.seq, st: d.s.seq.state}).grant("stg_1")
	if err != nil || g.Status(g.At(d.s.Times())) == "live" {
		t.Errorf("a grant lives again: %+v, %v", g, err)
	}
	if d.commit(Barrier{Key: d.s.Key("short")}) == nil {
		t.Error("a key lives again")
	}
	d.close()
}

// TestADoubtOutlivesARestart: of the process; the machine's uptime goes on.
func TestADoubtOutlivesARestart(t *testing.T) {
	d := newDoubted(t)
	d.close()
	d.clocks.pass(time.Minute)
	d.clocks.set(100 * 24 * time.Hour)
	d.start()
	if got := d.s.Times(); got.Doubt() != 100*24*time.Hour {
		t.Errorf("in doubt by %v", got.Doubt())
	}
	d.close()
}

// TestWhatIsMadeInADoubt: it is measured by what is certain behind a restart too, and the doubt is no younger for it.
// That it began is recorded once, and that it has ended although the process did not run then.
func TestWhatIsMadeInADoubt(t *testing.T) {
	d := newDoubted(t)
	d.clocks.set(100 * 24 * time.Hour)
	token := d.deferred(d.agent, "new", sdk.Verdict{})
	held := d.s.Times().Held
	for range 3 {
		d.close()
		d.clocks.pass(time.Minute)
		d.start()
		if got := d.s.Times().Held; got != held+time.Minute {
			t.Errorf("in doubt for %v, want %v", got, held+time.Minute)
		}
		held += time.Minute
		d.agent = d.s.Key("agent")
		if got := d.status(d.agent, token); got != Pending {
			t.Errorf("what was asked in the doubt is %v", got)
		}
		if got := d.status(d.agent, d.pending); got != Expired {
			t.Errorf("what was asked before it is %v", got)
		}
		d.must(&Note{Type: "tick", By: system})
	}
	if n := d.types("clock_in_doubt"); n != 1 {
		t.Errorf("in doubt: %d records", n)
	}
	d.close()
	d.clocks.set(-100 * 24 * time.Hour)
	d.start()
	d.must(&Note{Type: "tick", By: system})
	if n := d.types("clock_believed"); n != 1 {
		t.Errorf("believed again: %d records", n)
	}
	d.close()
}

// TestADoubtThatNobodyHasRecorded: it began when nothing was written, and its record comes behind a restart.
func TestADoubtThatNobodyHasRecorded(t *testing.T) {
	d := newDoubted(t)
	d.clocks.set(100 * 24 * time.Hour)
	d.close()
	d.start()
	d.must(&Note{Type: "tick", By: system})
	if n := d.types("clock_in_doubt"); n != 1 {
		t.Errorf("%d records of the doubt", n)
	}
	d.close()
}

// TestAConfirmationOutlivesTheProcess: when it is answered.
func TestAConfirmationOutlivesTheProcess(t *testing.T) {
	base := newCuttable()
	clocks, _ := newTwoClocks()
	d := &doubted{rig: &rig{t: t, fs: base, clock: newClock()}, clocks: clocks}
	d.start()
	clocks.pass(time.Minute)
	clocks.set(3 * time.Hour)
	d.must(&Note{Type: "tick", By: system})
	d.must(&BelieveClock{By: system})
	ended := base.ended()
	d.close()
	set := settings(ended, d.clock, nil)
	set.Now, set.Uptime = clocks.wall, clocks.up
	s, err := Open(set)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Times(); got.Doubt() != 0 {
		t.Errorf("what was confirmed is in doubt by %v", got.Doubt())
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestAKeyThatEndsInADoubt: by the time that is certain; what it has pending is denied, although that is over by the
// other clock.
func TestAKeyThatEndsInADoubt(t *testing.T) {
	d := newDoubted(t)
	c := d.call(d.s.Key("short"), "x", sdk.Verdict{Effect: sdk.Defer})
	c.Defer.TTL = 24 * time.Hour
	d.must(c)
	d.clocks.pass(time.Second)
	d.clocks.set(100 * 24 * time.Hour)
	d.s.Times()
	d.clocks.pass(2 * time.Hour)
	d.must(&Note{Type: "tick", By: system})
	denied := 0
	for _, x := range d.takenIn(1, "defer_resolved") {
		if x.Token == c.Out.Token && x.Status == Denied {
			denied++
		}
	}
	if denied != 1 {
		t.Errorf("denied %d times", denied)
	}
	d.close()
}

// TestASignerInGraceInADoubt: what it has signed does not count while its grace may be over, and is not lost.
func TestASignerInGraceInADoubt(t *testing.T) {
	d := newDoubted(t)
	approved := func(args string) string {
		token := d.deferred(d.agent, args, sdk.Verdict{})
		yes := d.answer(d.boss, token, true)
		yes.ApprovedTTL = 24 * time.Hour
		d.must(yes)
		return token
	}
	token, spent := approved("signed"), approved("spent")
	d.must(&RevokeKey{ID: "boss", Grace: time.Hour, By: system})
	d.clocks.pass(time.Second)
	d.clocks.set(2 * time.Hour)
	if got := d.status(d.agent, token); got != Pending {
		t.Errorf("in doubt it is %s", got)
	}
	if !d.s.KeyStopped("boss") {
		t.Error("the key works although its grace may be over")
	}
	c := d.redeem(d.agent, "spent", spent, sdk.Verdict{Effect: sdk.Defer})
	if d.must(c); c.Out.Effect != sdk.Defer {
		t.Errorf("%+v", c.Out)
	}
	d.clocks.set(-2 * time.Hour)
	if got := d.status(d.agent, token); got != Approved {
		t.Errorf("set right it is %s", got)
	}
	d.close()
}

// TestARolledSignerInADoubt: its successor signs for it, unless that may have ended too.
func TestARolledSignerInADoubt(t *testing.T) {
	d := newDoubted(t)
	token := d.deferred(d.agent, "signed", sdk.Verdict{})
	yes := d.answer(d.boss, token, true)
	yes.ApprovedTTL = 24 * time.Hour
	d.must(yes)
	d.must(&RollKey{ID: "boss", New: &Key{ID: "next", CreatedAt: d.s.Now()}, By: system})
	d.clocks.pass(time.Second)
	d.clocks.set(2 * time.Hour)
	if got := d.status(d.agent, token); got != Approved {
		t.Errorf("in doubt it is %s", got)
	}
	d.must(&RevokeKey{ID: "next", Grace: time.Hour, By: system})
	if got := d.status(d.agent, token); got != Pending {
		t.Errorf("its successor may have ended: it is %s", got)
	}
	d.close()
}

// TestTheClockAfterACrash: it goes on from the newest record, whatever log/head has seen.
func TestTheClockAfterACrash(t *testing.T) {
	base := newCuttable()
	clocks, _ := newTwoClocks()
	d := &doubted{rig: &rig{t: t, fs: base, clock: newClock()}, clocks: clocks}
	d.start()
	clocks.pass(5 * time.Hour)
	d.must(&Note{Type: "tick", By: system})
	at := d.s.Now()
	cut := base.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0, RNG: rand.New(rand.NewPCG(1, 1))})
	d.close()
	clocks.set(-24 * time.Hour)
	clocks.boot()
	set := settings(cut, d.clock, nil)
	set.Boot, set.Now, set.Uptime = anotherBoot, clocks.wall, clocks.up
	s, err := Open(set)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Now(); got.Before(at) {
		t.Errorf("it is %v, and a record is of %v", got, at)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
