package host

import (
	"cmp"
	"context"
	"runtime"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/yett-dev/yett/core/wasm/check"
)

// All that stops a running guest is in this file, and nothing else knows how. A module is rewritten when it is let in:
// it counts its own instructions down from a slice and calls tick when that is used up. There the call's budget is
// checked first, which depends on nothing but the module and its input, and only then the clock, which is the backstop.

const (
	// SliceFuel is the most units that a guest gets at once: 5–55 µs of compiled code that computes, and a few ms of code
	// made to be as slow as a machine can be, such as touching a new page with every store.
	SliceFuel = 100_000
	// yieldEvery is after how many slices a guest gives its processor away. Each slice lets the collector in anyway: its
	// end is a call into Go code. To queue up behind everybody else after each of them would make a call's duration, and
	// so the deadline, a matter of load.
	yieldEvery = 4
	// longCall is how long a call has had a processor when it stands back. Most end before.
	longCall = time.Millisecond
	// longSlice is how much a long call's thread asks the kernel for at once: the more one asks for, the longer it waits
	// for it.
	longSlice = 100 * time.Millisecond
	// lostTime is how long others may have a long call's processor in one turn before it rests, and restMost how long it
	// rests at most.
	lostTime, restMost = time.Millisecond, 50 * time.Millisecond
	// FuelPerMillisecond makes a call's budget from its timeout where the operator gives none. Guests that compute take
	// 0.05–0.25 ns a unit, so that on an idle machine the budget ends well before the timeout: a verdict does not change
	// because a machine is slower or busier than another. A guest that waits for memory all the time takes more.
	FuelPerMillisecond = 4_000_000
	// MaxFuel is the largest budget of one call, units.
	MaxFuel = uint64(MaxTimeout/time.Millisecond) * FuelPerMillisecond

	// stackStep is how much stack a call has at first, and gets at once when it nests deeper than ever before in this
	// call, bytes. The runtime makes a new stack of twice the size then and moves everything there, which no instruction
	// shows: so growth is paid by the byte. Frames that are used again cost nothing more.
	stackStep     = 64 << 10
	stackByteFuel = 4

	// usualStack is how deep calls may nest, bytes by the rewriter's estimate, without costing the instance. A Go guest
	// that reads JSON of 128 levels stays below.
	usualStack = check.StackBudget / 4

	minDerivedFuel = 1_000_000 // a start or a call of less is not worth its bookkeeping

	// What host functions cost, units, by what they take: a call some 40 ns, random numbers most of all.
	hostCallFuel   = 256
	findingFuel    = 1024
	logLineFuel    = 2048
	randomByteFuel = 4
	bytesPerUnit   = 4
)

// maxPrinted is how many bytes one fd_write takes; a guest must expect short writes.
const maxPrinted = 64 << 10

// derivedFuel is the budget that belongs to a time limit.
func derivedFuel(d time.Duration) uint64 {
	return max(uint64(d.Microseconds())*(FuelPerMillisecond/1000), minDerivedFuel)
}

// begin readies the call for a guest's run: at most d from now, or until ctx ends, and at most budget units.
func (c *call) begin(ctx context.Context, d time.Duration, budget uint64) {
	c.Context = ctx
	c.deadline = time.Now().Add(d)
	if end, ok := ctx.Deadline(); ok && end.Before(c.deadline) {
		c.deadline = end
	}
	c.budget = budget
}

// refill is the next slice: what is left of the budget and one unit more, so that it is noticed when it is used up.
func (c *call) refill() int32 {
	c.slice = int64(min(SliceFuel, c.budget-c.used+1))
	return int32(c.slice)
}

// countFuel counts what the guest took of its slice. left may be below zero: a charge is made before it is known to
// fit.
func (c *call) countFuel(left int32) {
	if took := c.slice - int64(left); took > 0 {
		c.used += uint64(took)
	}
	c.slice = int64(left)
}

// tick runs when a slice is used up.
func (c *call) tick(left int32) int32 {
	c.countFuel(left)
	c.checkBudget()
	c.pause()
	return c.refill()
}

func (c *call) checkBudget() {
	if c.used > c.budget {
		c.fault(ErrFuel, "%d units", c.budget)
	}
}

// pause checks the clock and the caller, and lets others run now and then: guests that wait for a processor when the
// turn is over, and whatever else this process does.
func (c *call) pause() {
	c.unpaused = 0
	err := c.late()
	c.pauses++
	switch {
	case err != nil:
	case machine.over(c.had, c.turn) || c.pauses%yieldEvery == 0 && c.yield():
		c.giveTurn()
		err = c.takeTurn()
	}
	if err != nil {
		c.err = c.in.module.fault(c.export, ErrInterrupted, "", err)
		panic(c.err)
	}
}

// yield lets whatever else this process does have the processor. A long call stands back before that, and then yields
// once in a turn only: to let others run costs its thread two changes of context. rest says that it must end its turn,
// so that it rests.
func (c *call) yield() (rest bool) {
	now := time.Now()
	switch {
	case c.back && now.Sub(c.yielded) < turnTime:
		return false
	case !c.back && c.had+now.Sub(c.turn) >= longCall:
		c.standBack()
	}
	c.yielded = now
	runtime.Gosched()
	return c.lost() >= lostTime
}

// standBack makes the thread that the call runs on, and keeps from now on, one that the kernel takes the processor from
// as soon as another one wants it. Without this a thread that wakes up waits for the next tick, 4 ms for many kernels,
// each time that the call's is on its processor.
func (c *call) standBack() {
	runtime.LockOSThread()
	c.back = true
	setSlice(longSlice)
	c.clocks()
}

// clocks begins to count what a long call's thread loses to others.
func (c *call) clocks() {
	if c.back {
		c.since, c.ran = time.Now(), threadTime()
	}
}

// lost is how long others have had the processor of a long call, in this turn and since it stands back.
func (c *call) lost() time.Duration {
	if !c.back || c.turn.IsZero() {
		return 0
	}
	return time.Since(c.since) - (threadTime() - c.ran)
}

// leave ends what a call has of processors. It may be called again.
func (c *call) leave() {
	c.giveTurn()
	if c.back {
		c.back = false
		setSlice(0)
		runtime.UnlockOSThread()
	}
}

// takeTurn waits for a processor, if the call has none; the error is why there was none in time. The call keeps it,
// between exports too, until it ends or somebody else's turn comes.
func (c *call) takeTurn() error {
	if !c.turn.IsZero() {
		return nil
	}
	if !machine.acquireTurn(c.Context, c.key, c.had < turnTime, c.deadline) {
		return cmp.Or(c.Context.Err(), context.DeadlineExceeded)
	}
	c.turn = time.Now()
	c.clocks()
	return nil
}

// giveTurn gives the processor back, if the call has one.
func (c *call) giveTurn() {
	if !c.turn.IsZero() {
		if lost := c.lost(); lost >= lostTime {
			machine.rest(c.key, min(lost, restMost))
		}
		c.had += time.Since(c.turn)
		c.turn = time.Time{}
		machine.releaseTurn()
	}
}

// late is why the call must end now; nil if it need not.
func (c *call) late() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	if !time.Now().Before(c.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// charge takes units for work of the host, before it is done. Work of the host alone cannot outlast a slice unseen.
func (c *call) charge(units int) {
	c.used += uint64(units)
	c.checkBudget()
	if c.unpaused += units; c.unpaused >= SliceFuel {
		c.pause()
	}
}

// chargeBytes is charge for reading or copying n bytes.
func (c *call) chargeBytes(n int) { c.charge(n / bytesPerUnit) }

// ticker and overflow are the two functions that the rewritten module imports and its author cannot.
type (
	ticker   struct{}
	overflow struct{}
)

func (ticker) Call(ctx context.Context, a []uint64) {
	c, ok := ctx.(*call)
	if !ok {
		panic(errNoCall)
	}
	a[0] = uint64(uint32(c.tick(int32(uint32(a[0])))))
}

func (overflow) Call(ctx context.Context, _ []uint64) {
	c, ok := ctx.(*call)
	if !ok {
		panic(errNoCall)
	}
	c.deepen()
}

// chainFuel is what a call pays for the frames that no function counts when it is entered, those of functions that
// cannot recur: most modules have less of them than a call has at first.
func (m *Module) chainFuel() uint64 {
	return (max(m.checked.Chain, stackStep) - stackStep) * stackByteFuel
}

// memoryFuel is what a call pays for the memory that it begins with, where the kernel gives that page by page: a unit a
// byte, since the first touch of 4 KiB takes 1 to 3 µs and may be one instruction. It is a quarter of the budget at
// most: a module with much memory need not touch all of it, and if it does the clock ends it.
func (c *call) memoryFuel() uint64 {
	if c.in.module.isolation == Pooled || c.in.mem == nil || c.in.mem.Size() <= copyMost {
		return 0
	}
	return min(uint64(c.in.mem.Size()), c.budget/4)
}

// deepen gives a call that nests deeper than before the stack for it, step by step, and has it pay for each.
func (c *call) deepen() {
	left := int32(uint32(c.in.depth.Get()))
	for left < 0 { // one frame may be larger than a step
		step := min(stackStep, check.StackBudget-c.stack)
		if step <= 0 {
			c.fault(ErrStack, "more than %d bytes", check.StackBudget)
		}
		c.stack += step
		left += int32(step)
		// The runtime keeps what its stack has grown to, so an instance that went deep is not used again.
		c.deep = c.deep || c.stack > usualStack
		c.charge(step * stackByteFuel)
	}
	c.in.depth.Set(uint64(uint32(left)))
}

// provideMeter makes both importable in a runtime.
func provideMeter(ctx context.Context, rt wazero.Runtime) error {
	i32 := []api.ValueType{api.ValueTypeI32}
	b := rt.NewHostModuleBuilder(check.HostModule)
	b.NewFunctionBuilder().WithGoFunction(ticker{}, i32, i32).Export(check.ImportTick)
	b.NewFunctionBuilder().WithGoFunction(overflow{}, nil, nil).Export(check.ImportOverflow)
	_, err := b.Instantiate(ctx)
	return err
}
