package mcpd

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/yett-dev/yett/core/doors/ask"
	"github.com/yett-dev/yett/sdk/wire"
)

// A call that waits for a person has three ways out, by what the client can do: it is asked to show its user the page
// on which people approve (in the newer era as a result that asks for input, in the older one as a request on the
// stream of the answer), or the call is held open for a while and then answered as a failed tool. Whatever the client
// says of that page counts for nothing: the store knows whether the call is approved.

// wait is for a call that was deferred just now.
func (x *exchange) wait(d *ask.Decision) {
	url := x.g.approvalURL(d.DecisionID)
	switch {
	case d.DeferToken == "":
		x.refuse(deniedText(d.AuthorizeResponse), d.ReasonCode, d.DecisionID)
	case x.c.modern && x.c.urls && url != "":
		x.askInput(d.DeferToken, d.DecisionID, url)
	case !x.c.modern && x.c.urls && url != "" && x.c.events && x.c.session != nil:
		x.showPage(d, url)
	default:
		x.hold(d, url, x.g.set.Config.Wait.Std(), nil)
	}
}

// approvalURL is the page on which people answer a call. It has no token: who opens it must be signed in.
func (g *Gateway) approvalURL(decision string) string {
	if base := g.set.Console(); base != "" {
		return base + "/approvals/" + decision
	}
	return ""
}

// waitingText is what a person or a model reads of a call that waits.
func waitingText(decision, url string) string {
	text := "This call waits for a person's approval (" + decision + ")"
	if url != "" {
		text += ". It is answered at " + url
	}
	return text
}

// stateEnds is how long a sealed state counts: no deferred call lives longer.
const stateEnds = 24 * time.Hour

// askInput answers with a result that asks the client to show a page and to send the call again.
func (x *exchange) askInput(token, decision, url string) {
	sealed, err := x.g.seals.seal(sealState, &state{Key: x.r.Caller.Key.ID, Server: x.srv.name, Token: token,
		Digest: x.digest(), Ends: x.g.set.Now().Add(stateEnds)})
	if err != nil {
		x.undecided(err)
		return
	}
	o := wire.Object(nil)
	o.Str("jsonrpc", "2.0")
	o.Raw("id", []byte(x.id()))
	o.Object("result", func(w *wire.Writer) {
		w.Str("resultType", "input_required")
		w.Object("inputRequests", func(w *wire.Writer) {
			w.Object("approval", func(w *wire.Writer) {
				w.Str("method", "elicitation/create")
				w.Object("params", func(w *wire.Writer) { pageParams(w, decision, url, "") })
			})
		})
		w.Str("requestState", sealed)
	})
	x.out.answer(http.StatusOK, string(o.Close()))
}

func pageParams(w *wire.Writer, decision, url, id string) {
	w.Str("mode", "url")
	w.Opt("elicitationId", id)
	w.Str("message", waitingText(decision, "")+".")
	w.Str("url", url)
}

// digest names what a request asks for, without what may differ when it is sent again.
func (x *exchange) digest() string {
	args, f := reparse(without(x.msg.raw, x.msg.params, "_meta", "inputResponses", "requestState"), x.g.lim)
	if f != nil {
		return ""
	}
	sum := sha256.New()
	sum.Write([]byte(x.tool + "\x00" + x.msg.method + "\x00"))
	sum.Write(args.AppendCanonical(nil))
	return hexOf(sum.Sum(nil))
}

// continues reports whether a request brings a state that looks like one of ours. A server's own has another form.
func (x *exchange) continues() bool {
	return x.c.modern && strings.HasPrefix(x.msg.params.Get("requestState").Str(), sealPrefix)
}

// resume is for a request that is sent again with its state.
func (x *exchange) resume() {
	var s state
	forged := x.g.seals.open(sealState, x.msg.params.Get("requestState").Str(), &s) != nil ||
		s.Key != x.r.Caller.Key.ID || s.Server != x.srv.name || s.Digest == "" || s.Digest != x.digest()
	if forged || !x.g.set.Now().Before(s.Ends) {
		x.fail(&fault{code: codeParams, msg: "the requestState is not that of this request, or has expired: send the call " +
			"without it"})
		return
	}
	st, err := x.g.set.Asker.DeferStatus(x.r.Context(), x.r.Caller, s.Token, seconds(x.g.set.Config.Wait.Std()))
	switch {
	case err != nil:
		x.undecided(err)
	case st.Status == "pending":
		x.refuse("This call still waits for a person's approval. Send the identical call again later.", "DEFER_PENDING", "")
	default:
		x.redeem(s.Token, st, "")
	}
}

// redeem is for a call about which a person has decided.
func (x *exchange) redeem(token string, st *wire.DeferStatusResponse, callID string) {
	switch {
	case st.Status != "approved":
		text := "A person has not approved this call (" + st.Status + ")"
		if st.Reason != "" && st.Status == "denied" {
			text += ": " + st.Reason
		}
		x.refuse(text+". Do not repeat it.", "DEFER_"+strings.ToUpper(st.Status), "")
	case len(st.ModifiedArgs) > 0:
		x.refuse("A person has approved this call with other arguments only: "+string(st.ModifiedArgs)+
			". Nothing was run.", "MODIFIED_ARGS", "")
	default:
		x.decide(token, callID)
	}
}

// hold waits for the answer of a person as long as the client is there and within lasts, or until stop is closed.
func (x *exchange) hold(d *ask.Decision, url string, within time.Duration, stop <-chan struct{}) {
	ctx, cancel := context.WithCancel(x.r.Context())
	defer cancel()
	if stop != nil {
		go func() {
			select {
			case <-stop:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	ends := x.g.set.Now().Add(within)
	for {
		left := ends.Sub(x.g.set.Now())
		if left <= 0 || ctx.Err() != nil || x.stopping() {
			break
		}
		st, err := x.g.set.Asker.DeferStatus(ctx, x.r.Caller, d.DeferToken, min(seconds(left), 55))
		if err != nil {
			break // too many wait, or nobody does any more: the model is told to come back
		}
		if st.Status != "pending" {
			id := ""
			if d.CallID != "" && x.c.session != nil {
				id = d.CallID + resumed
			}
			x.redeem(d.DeferToken, st, id)
			return
		}
	}
	if x.r.Context().Err() != nil {
		return
	}
	x.refuse(waitingText(d.DecisionID, url)+". Tell the user, and send the identical call again once it is approved.",
		d.ReasonCode, d.DecisionID)
}

// stopping reports whether the gateway goes down: nobody waits for a person then.
func (x *exchange) stopping() bool {
	select {
	case <-x.r.Caller.Stopping:
		return true
	default:
		return false
	}
}

func seconds(d time.Duration) int { return min(max(int((d+time.Second-1)/time.Second), 0), 60) }

// pages are the pages that clients of the older era were asked to show, by the id of the request. Safe for concurrent
// use.
type pages struct {
	mu   sync.Mutex
	open map[string]*page
}

// page is one of them.
type page struct {
	session string // whose answer counts
	refused chan struct{}
	once    sync.Once
}

func newPages() *pages { return &pages{open: map[string]*page{}} }

// pagePrefix begins the ids of our own requests to clients. A server's requests keep theirs; one that begins like
// this is not passed on.
const pagePrefix = "yett-page-"

// showPage asks the client on the stream of the answer to show a page, and goes on when the call is answered there.
func (x *exchange) showPage(d *ask.Decision, url string) {
	var raw [12]byte
	x.g.set.Random(raw[:])
	id := pagePrefix + hexOf(raw[:])
	p := &page{session: x.c.session.ID, refused: make(chan struct{})}
	x.g.pages.mu.Lock()
	x.g.pages.open[id] = p
	x.g.pages.mu.Unlock()
	defer func() {
		x.g.pages.mu.Lock()
		delete(x.g.pages.open, id)
		x.g.pages.mu.Unlock()
	}()
	o := wire.Object(nil)
	o.Str("jsonrpc", "2.0")
	o.Str("id", id)
	o.Str("method", "elicitation/create")
	o.Object("params", func(w *wire.Writer) { pageParams(w, d.DecisionID, url, d.DecisionID) })
	x.out.begin()
	if !x.out.event(eventOf(string(o.Close()))) {
		return
	}
	x.hold(d, url, pageOpen, p.refused)
}

// pageOpen is how long a call waits whose client shows a page. The client may give up before.
const pageOpen = 10 * time.Minute

// answered takes a client's answer to a request of a server, or to one of ours.
func (g *Gateway) answered(x *exchange) {
	id := x.msg.id.Str()
	if !strings.HasPrefix(id, pagePrefix) {
		x.tool = toolPrefix + x.srv.name + "/answer"
		x.forward(x.msg.raw, nil)
		return
	}
	g.pages.mu.Lock()
	p := g.pages.open[id]
	g.pages.mu.Unlock()
	if p == nil || x.c.session == nil || x.c.session.ID != p.session {
		x.fail(&fault{code: codeInvalid, status: http.StatusBadRequest, msg: "no request of this id waits for an answer"})
		return
	}
	// accept says that the page was opened; only a refusal changes anything, and that ends the wait alone
	if x.msg.member("result").Get("action").Str() != "accept" {
		p.once.Do(func() { close(p.refused) })
	}
	x.out.w.WriteHeader(http.StatusAccepted)
}
