package config

import (
	"fmt"

	"github.com/yett-dev/yett/config/strict"
)

// Audit says what the log keeps of a call, for how long, and who is given it.
type Audit struct {
	Args        string       `koanf:"args" default:"redacted" enum:"digest|redacted|full" doc:"What is kept of a call's args and of the agent's note: digest (a hash of the args, and no note), redacted (secrets masked) or full."`
	Retention   Retention    `koanf:"retention" doc:"How long records are kept. Everything for ever if not given."`
	Archive     Archive      `koanf:"archive" doc:"A program that takes records before retention removes them."`
	Checkpoints Checkpoints  `koanf:"checkpoints" doc:"Signed checkpoints of the log that leave the data directory."`
	Subscribers []Subscriber `koanf:"subscribers" empty:"ok" doc:"Plugins of kind subscriber that are given the log."`
}

// Retention says which records may go. The zero Retention keeps all.
type Retention struct {
	MaxAge   Duration `koanf:"max_age" min:"1h" max:"36500d" example:"90d" doc:"Records older than this are removed. Their place in the tree stays, so that what remains can be proved. While the wall clock is ahead of the machine's uptime, at most 5 % of them go in an hour."`
	MaxBytes Size     `koanf:"max_bytes" min:"1MiB" max:"1024TiB" example:"50GiB" doc:"When the records are larger than this, the oldest are removed."`
	Hold     Hold     `koanf:"hold" doc:"What is kept beyond that for subscribers that have not got it yet."`
}

// Hold bounds what is kept for slow subscribers.
type Hold struct {
	MaxBytes Size `koanf:"max_bytes" default:"1GiB" max:"1024TiB" doc:"Records that a subscriber has not got are kept up to this size beyond what retention says; then they are removed, and the subscriber is told of the gap."`
}

// Enabled says whether anything is ever removed.
func (r Retention) Enabled() bool { return r.MaxAge > 0 || r.MaxBytes > 0 }

// Subscriber is one reader of the log.
type Subscriber struct {
	Use      string   `koanf:"use" req:"true" format:"name" example:"siem" doc:"Name of a plugin of kind subscriber. One that is taken out keeps its place in the log until yett plugin forget NAME."`
	Types    []string `koanf:"types" format:"name" example:"[\"decision\", \"kill\"]" doc:"Types of records that it gets; all if not given."`
	Agents   []string `koanf:"agents" format:"glob" example:"[\"billing-*\"]" doc:"Patterns of agents: records of others are left out; those of no agent are not."`
	Tools    []string `koanf:"tools" format:"glob" example:"[\"payments/**\"]" doc:"Patterns of tools: records of others are left out; those of no tool are not."`
	Payload  string   `koanf:"payload" default:"redacted" enum:"digest|redacted|full" doc:"What it gets of args, context and the agent's note: digest (nothing but a hash; reasons and errors as the log has them), redacted (secrets masked, in reasons and errors too) or full (as the log has them). A record above 3 MiB comes without them, and says so (withheld: too_large)."`
	Start    string   `koanf:"start" default:"earliest" enum:"earliest|latest" doc:"Where a subscriber begins that was never there before: at the first record that is kept, or behind the last."`
	OnPoison string   `koanf:"on_poison" default:"pause" enum:"pause|dead_letter" doc:"What happens when it fails five times at the same record: pause (until yett plugin resume) or dead_letter (the log says so, and it goes on behind it)."`
	Pos      Pos      `koanf:"-"`
}

func (l *loader) finishAudit(a *Audit) {
	a.Archive.validate(l.Report, a.Retention)
	l.finishCheckpoints(&a.Checkpoints)
	first := map[string]Pos{}
	for i := range a.Subscribers {
		s, key := &a.Subscribers[i], fmt.Sprintf("audit.subscribers[%d]", i)
		s.Pos = l.Report.Origins.At(key)
		l.plugin(s.Use, KindSubscriber, strict.Join(key, "use"))
		if at, twice := first[s.Use]; twice {
			l.Report.Errorf(strict.Join(key, "use"), "%s is given the log at %s already; a plugin has one place in the log",
				strict.Literal(s.Use), at)
		}
		first[s.Use] = s.Pos
	}
}
