package prochost

import "github.com/yett-dev/yett/core/places"

// whose is a call's key, and whether it masks.
type whose struct {
	key  string
	mask bool
}

const maskMost = 4 // places of masking

// shares says how a plugin that takes so many calls at once shares them out: some are masking's, so that no output
// waits for masking, nor masking for outputs. None of its own: there is only one. One key's slow calls leave a place to
// another key. No place is added for either: a plugin gets no more at once than it and the operator allow.
func shares(kind Kind, most int) (calls, masks int) {
	if kind != Scanner || most < 2 {
		return most, 0
	}
	masks = min(max(most/8, 1), maskMost)
	return most - masks, masks
}

func (p *Plugin) makePlaces() {
	calls, masks := shares(p.spec.Kind, p.spec.MaxInFlight)
	p.places = places.New(places.Rules{Most: calls, Queue: p.spec.Queue})
	p.masks.Store(p.places)
	if masks > 0 {
		p.masks.Store(places.New(places.Rules{Most: masks, Queue: p.spec.Queue}))
	}
}

// limitPlaces is for a plugin that wants fewer calls at once than the operator allows. It is called before the first
// call.
func (p *Plugin) limitPlaces(most int) {
	calls, masks := shares(p.spec.Kind, most)
	p.places.Limit(calls)
	if masks == 0 {
		p.masks.Store(p.places)
		return
	}
	p.masks.Load().Limit(masks)
}

// of are the places of such a call.
func (p *Plugin) of(who whose) *places.Places {
	if who.mask {
		return p.masks.Load()
	}
	return p.places
}

// waits is how many calls wait for a place.
func (p *Plugin) waits() int {
	n := p.places.Waiting()
	if masks := p.masks.Load(); masks != p.places {
		n += masks.Waiting()
	}
	return n
}
