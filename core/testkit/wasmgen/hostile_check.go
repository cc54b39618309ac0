package wasmgen

import (
	"math"

	"github.com/yett-dev/yett/sdk/abi"
)

// What an honest authorizer of this table goes by: how agent_id begins, and with it the call's document.
const (
	PermittedAgent = "please" // permit, with CheckCode
	ArmedAgent     = "zealot" // the hostile part runs; no call that admission tries has it
	OtherAgent     = "others" // abstain
	CheckCode      = "TEST_KIND"
)

// agentAt is where agent_id begins in the document of a call.
const agentAt = BufferAt + len(`{"agent_id":"`)

// decide is a call of decide; it leaves the answer on the stack.
func decide(effect, code, codeLen, reason, reasonLen, ttl int) []byte {
	return Host(abi.ImportDecide, I32(effect), I32(code), I32(codeLen), I32(reason), I32(reasonLen), I32(ttl))
}

// permit is a decision that every host takes.
func permit() []byte { return Cat(decide(abi.EffectPermit, KindAt, KindLen, TextAt, 11, 0), Drop) }

func agentIs(name string) []byte {
	return Cat(I32(agentAt), Load8, I32(int(name[0])), Eq)
}

// honestCheck permits what PermittedAgent asks for.
func honestCheck() []byte {
	return Cat(agentIs(PermittedAgent), If, permit(), Else, decide(abi.EffectAbstain, 0, 0, 0, 0, 0), Drop, End, I32(0))
}

// authorizer is honest until ArmedAgent calls: then it runs armed, which leaves a status.
func authorizer(armed []byte) Guest {
	return Guest{Locals: 4, Check: Cat(agentIs(ArmedAgent), If, armed, Return, End, honestCheck())}
}

// Authorizers are hostile modules that decide calls. A right answer is PERMIT with CheckCode for PermittedAgent and no
// opinion about everybody else. A Fails fails for ArmedAgent, and must deny; an Answers has Effect there. All are
// honest otherwise.
func Authorizers() []Hostile {
	var out []Hostile
	for _, part := range [][]Hostile{decisions(), checks(), alwaysBad()} {
		for _, h := range part {
			h.Line = Budgets
			h.Twin = Guest{Locals: 4, Check: honestCheck()}.Encode()
			out = append(out, h)
		}
	}
	return out
}

// armedCheck fails when it is armed.
func armedCheck(name string, armed []byte) Hostile {
	return Hostile{Name: name, Want: Fails, Module: authorizer(armed).Encode()}
}

// decisions hand over what no host may take, nor mend in silence. Each would permit if it were taken for what it looks
// like.
func decisions() []Hostile {
	const end = GuestPages << 16
	says := func(name string, effect, code, codeLen, reason, reasonLen, ttl int) Hostile {
		return armedCheck("decide-"+name, Cat(decide(effect, code, codeLen, reason, reasonLen, ttl), Drop, I32(0)))
	}
	takes := func(name, effect string, e, ttl int) Hostile {
		h := says(name, e, KindAt, KindLen, TextAt, 11, ttl)
		h.Want, h.Effect = Answers, effect
		return h
	}
	one := abi.EffectPermit
	return []Hostile{
		says("effect-4", 4, KindAt, KindLen, 0, 0, 0),
		says("effect-257", 257, KindAt, KindLen, 0, 0, 0),
		says("effect-minus-1", -1, KindAt, KindLen, 0, 0, 0),
		says("ttl-minus-1", one, KindAt, KindLen, 0, 0, -1),
		says("ttl-least", abi.EffectDefer, KindAt, KindLen, 0, 0, math.MinInt32),
		says("code-outside", one, -8, 4, 0, 0, 0),
		says("code-across-the-end", one, end-4, 8, 0, 0, 0),
		says("code-length-wraps", one, KindAt, -1, 0, 0, 0),
		says("code-empty", one, KindAt, 0, 0, 0, 0),
		says("code-lower-case", one, TextAt, 11, 0, 0, 0),
		says("code-not-utf-8", one, BadUTF8At, 2, 0, 0, 0),
		says("code-of-zeros", one, ZerosAt, 9, 0, 0, 0),
		says("code-of-64-kib", one, ZerosAt, 1<<16-1, 0, 0, 0),
		says("abstain-with-a-code", abi.EffectAbstain, KindAt, KindLen, 0, 0, 0),
		says("reason-outside", one, KindAt, KindLen, -8, 4, 0),
		says("reason-across-the-end", one, KindAt, KindLen, end-4, 8, 0),
		says("reason-length-wraps", one, KindAt, KindLen, TextAt, -1, 0),
		says("reason-of-4-kib-and-one-byte", one, KindAt, KindLen, ZerosAt, 4<<10+1, 0),
		says("reason-not-utf-8", one, KindAt, KindLen, BadUTF8At, 2, 0),
		takes("permit-with-the-largest-ttl", "PERMIT", one, math.MaxInt32),
		takes("defer-with-the-largest-ttl", "DEFER", abi.EffectDefer, math.MaxInt32),
		takes("deny", "DENY", abi.EffectDeny, 0),
	}
}

// checks end otherwise than with one decision and status 0, most of them after they said permit.
func checks() []Hostile {
	first := func(name string, body ...[]byte) Hostile { return armedCheck("check-"+name, Cat(Cat(body...), I32(0))) }
	status := func(name string, n int) Hostile {
		return armedCheck("check-permits-with-status-"+name, Cat(permit(), I32(n)))
	}
	put := func(slot int) []byte { return Cat(Host(abi.ImportPut, I32(slot), I32(TextAt), I32(11)), Drop) }
	yield := Cat(Host("sched_yield"), Drop)
	deep := armedCheck("check-permits-and-recurs", Cat(permit(), I32(60), CallTo(FirstExtra)))
	g := authorizer(Cat(permit(), I32(60), CallTo(FirstExtra)))
	g.Extra = []Func{doubling(FirstExtra)}
	deep.Module = g.Encode()
	return []Hostile{
		first("decides-twice", permit(), permit()),
		first("permits-then-denies", permit(), decide(abi.EffectDeny, KindAt, KindLen, 0, 0, 0), Drop),
		first("decides-never"),
		first("traps", Unreachable),
		first("permits-and-traps", permit(), Unreachable),
		first("traps-with-a-broken-code", StoreAt(KindAt, I32(0)), Unreachable),
		first("permits-and-exits", permit(), Host("proc_exit", I32(0))),
		first("permits-and-puts-an-error", permit(), put(abi.SlotError)),
		first("permits-and-puts-metadata", permit(), put(abi.SlotMetadata)),
		first("permits-and-puts-state", permit(), put(abi.SlotState)),
		first("permits-and-emits", permit(), Sound.Code(), Drop),
		first("emits", Sound.Code(), Drop),
		first("loops", Forever()),
		first("permits-and-loops", permit(), Forever()),
		first("permits-and-floods", permit(), Loop, yield, Br(0), End),
		deep,
		status("bad-config", abi.StatusBadConfig),
		status("internal", abi.StatusInternal),
		status("of-the-author", abi.AuthorStatus),
		status("minus-1", -1),
	}
}

// alwaysBad are wrong about every call, so that admission sees it.
func alwaysBad() []Hostile {
	always := func(name string, body ...[]byte) Hostile {
		return Hostile{Name: "check-always-" + name, Want: Refused,
			Module: Guest{Locals: 4, Check: Cat(Cat(body...), I32(0))}.Encode()}
	}
	return []Hostile{
		always("decides-twice", permit(), permit()),
		always("decides-never"),
		always("traps", permit(), Unreachable),
		always("loops", permit(), Forever()),
		always("emits", permit(), Sound.Code(), Drop),
	}
}
