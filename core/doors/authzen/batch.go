package authzen

import (
	"context"
	"net/http"
	"time"

	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// batchTime bounds a batch. What it has not reached by then is not decided.
const batchTime = time.Minute

// batchShare is how many times limits.authorize_body the calls of a batch may be together: defaults count for each.
const batchShare = 8

// The semantics of a batch.
const (
	executeAll  = "execute_all"
	untilDeny   = "deny_on_first_deny"
	untilPermit = "permit_on_first_permit"
)

// semantic reads how far a batch goes.
func semantic(req exact.Value) (string, *sdk.Error) {
	options := req.Get("options")
	if k := options.Kind(); k != exact.Object && k != exact.Absent {
		return "", malformed("options must be an object, not %s", k)
	}
	v := options.Get("evaluations_semantic")
	if !v.Exists() {
		return executeAll, nil
	}
	switch s := v.Str(); s {
	case executeAll, untilDeny, untilPermit:
		return s, nil
	}
	return "", malformed("options.evaluations_semantic must be %s, %s or %s", executeAll, untilDeny, untilPermit)
}

// evaluations answers several evaluations, one after the other and in their order.
func (d *door) evaluations(w http.ResponseWriter, r *front.Request) {
	req, err := body(r, &d.set.Limits)
	if err != nil {
		d.refuse(w, r, err)
		return
	}
	list := req.Get("evaluations")
	switch k := list.Kind(); {
	case k != exact.Array && k != exact.Absent:
		d.refuse(w, r, malformed("evaluations must be an array, not %s", k))
		return
	case list.Len() == 0: // as the specification has it
		d.single(w, r, req)
		return
	case list.Len() > d.set.Config.Evaluations:
		d.refuse(w, r, malformed("evaluations has %d entries, more than the limit of %d (doors.authzen.evaluations); "+
			"send them in several requests", list.Len(), d.set.Config.Evaluations))
		return
	}
	how, err := semantic(req)
	if err != nil {
		d.refuse(w, r, err)
		return
	}
	var asked decisions
	defer asked.sent()
	all := d.each(r, req, list, how, &asked)
	for _, o := range all {
		d.settle(r, o)
	}
	out := wire.Object(nil)
	out.List("evaluations", len(all), func(i int, w *wire.Writer) { all[i].members(w) })
	d.answer(w, r, http.StatusOK, kindJSON, out.Close())
}

// each decides the evaluations of a batch until how says that the rest does not matter.
func (d *door) each(r *front.Request, req, list exact.Value, how string, asked *decisions) []*outcome {
	ctx, cancel := context.WithTimeout(r.Context(), batchTime)
	defer cancel()
	var all []*outcome
	room := batchShare * int(d.set.Limits.AuthorizeBody)
	for one := range list.Elements() {
		o := d.one(ctx, r, one, req, &room, asked)
		all = append(all, o)
		if how == untilDeny && !o.permit || how == untilPermit && o.permit {
			break
		}
	}
	return all
}

// one decides one evaluation of a batch. An error is that evaluation's alone.
func (d *door) one(ctx context.Context, r *front.Request, one, req exact.Value, room *int, asked *decisions) *outcome {
	if k := one.Kind(); k != exact.Object {
		return failed(malformed("an evaluation must be an object, not %s", k))
	}
	if ctx.Err() != nil {
		return failed(sdk.Errf(sdk.CodeTimeout, "the evaluations before this one took %s; send fewer at once", batchTime))
	}
	c, bad := readCall(one, req, &d.set.Limits)
	if bad != nil {
		return failed(bad)
	}
	if *room -= c.size(); *room < 0 {
		return failed(sdk.Errf(sdk.CodeTooLarge, "the calls of this batch are larger together than %d times "+
			"limits.authorize_body; send fewer at once", batchShare))
	}
	o, err := d.decide(ctx, r, c, asked)
	if err != nil {
		return failed(d.told(r, err))
	}
	return o
}
