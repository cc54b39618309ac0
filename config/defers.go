package config

import (
	"github.com/yett-dev/yett/config/strict"
)

// Defers are the times of calls that wait for a person.
type Defers struct {
	TTL         Duration `koanf:"ttl" default:"5m" min:"1s" max:"365d" doc:"How long a call waits for its approval unless the rule says otherwise; then it is denied."`
	ApprovedTTL Duration `koanf:"approved_ttl" default:"5m" min:"1s" max:"30d" doc:"How long an approval may be redeemed."`
	MaxTTL      Duration `koanf:"max_ttl" default:"30d" min:"1s" max:"365d" doc:"The longest wait that a rule may ask for."`
}

func (d *Defers) validate(r *strict.Report) {
	if d.TTL > d.MaxTTL {
		r.Errorf("defers.ttl", "%s is longer than defers.max_ttl (%s)", d.TTL, d.MaxTTL)
	}
}
