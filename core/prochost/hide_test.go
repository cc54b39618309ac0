package prochost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/sdk"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// tellConfigure is the answer of a guest that says its secret back.
func tellConfigure(how, secret string) (*pluginv1.ConfigureResponse, error) {
	switch how {
	case "problem":
		return &pluginv1.ConfigureResponse{Problems: []*pluginv1.Problem{{Field: secret, Message: "bad token " + secret},
			{Message: strings.Repeat("y", 280) + secret},
			{Message: fmt.Sprintf("%q", secret)}}}, nil
	case "invalid":
		return nil, status.Errorf(codes.InvalidArgument, "bad token %q", secret)
	case "internal":
		return nil, status.Error(codes.Internal, "bad token "+secret)
	case "death":
		fmt.Fprintln(realStdout, "token", secret)
		fmt.Fprintln(os.Stderr, "token", secret)
		fmt.Fprintf(realStderr, "token %q\n", secret)
		os.Exit(3)
	}
	return nil, nil
}

// tell says the guest's secret back in an answer.
func (g *guest) tell(where string, a *pluginv1.CheckResponse) {
	said := "with " + g.secrets["token"]
	switch where {
	case "reason":
		a.Reason = said
	case "message":
		a.Message = said
	case "rule":
		a.RuleId = said
	case "error":
		a.Error = said
	case "code":
		a.Code = "A_" + g.secrets["token"]
	case "approver":
		a.Effect, a.Approvers = pluginv1.CheckResponse_EFFECT_DEFER, []string{"key:" + g.secrets["token"]}
	case "death":
		fmt.Fprintln(realStderr, said)
		os.Exit(3)
	}
}

// told is what leaves this package of a plugin that has a secret.
type told struct {
	secret string
	mu     sync.Mutex
	all    []string
}

func (w *told) options() Options {
	return Options{Log: func(_ string, _ int, line string) { w.add(line) }, Notify: func(c Change) { w.add(c.Reason) }}
}

func (w *told) add(texts ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, texts...)
}

func (w *told) err(err error) { w.add(err.Error(), chain.Words(err)) }

func (w *told) status(s Status) {
	w.add(s.Detail, s.Words)
	for _, r := range s.Replicas {
		w.add(r.Detail, r.Words)
	}
}

// check wants the secret nowhere, and a mark in its place.
func (w *told) check(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	text := strings.Join(w.all, "\n")
	for part := range strings.FieldsSeq(w.secret) {
		if strings.Contains(text, strings.Trim(part, `"\`)) {
			t.Errorf("it says %s: %s", part, text)
		}
	}
	if !strings.Contains(text, "secret of plugins.guest.secrets.token") {
		t.Errorf("there is no mark: %s", text)
	}
}

func (w *told) give(s *Spec) {
	s.Secrets = map[string][]byte{"token": []byte(w.secret)}
	s.Hide = chain.NewHider([]chain.Handed{{Key: "plugins.guest.secrets.token", Value: w.secret}})
}

var toldSecrets = []string{"tok" + "_0123456789ABC", `tok"Quoted\` + `Backslash "Third0000`}

// TestStartsHideSecrets: however a plugin says a secret back while it is started.
func TestStartsHideSecrets(t *testing.T) {
	testkit.Slow(t, "starts plugins that fail")
	for _, mode := range []string{"problem", "invalid", "internal", "death", "health", "version"} {
		for i, secret := range toldSecrets {
			if mode == "version" && i > 0 {
				continue // printable, and short enough
			}
			t.Run(fmt.Sprint(mode, i), func(t *testing.T) {
				w := &told{secret: secret}
				s := guestSpec("stock-tells-" + mode)
				w.give(&s)
				if mode == "health" {
					s.StartTimeout = time.Second
				}
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				p, err := Load(ctx, w.options(), s)
				if err != nil {
					t.Fatal(err)
				}
				err = p.Wait(ctx)
				if err == nil {
					t.Fatal("it came up")
				}
				w.err(err)
				w.status(p.Status())
				if err := p.Close(context.Background()); err != nil {
					t.Error(err)
				}
				if mode != "health" {
					if err := Validate(ctx, w.options(), s); err == nil {
						t.Error("its settings are taken")
					} else {
						w.err(err)
					}
				}
				w.check(t)
			})
		}
	}
}

// TestAnswersHideSecrets: however a plugin says a secret back in an answer.
func TestAnswersHideSecrets(t *testing.T) {
	modes(t, func(t *testing.T, mode string) {
		for _, where := range []string{"reason", "message", "rule", "error", "code", "approver"} {
			w := &told{secret: strings.Repeat("T0K", 5)}
			p := loaded(t, guestSpec(mode), w.options(), with(w.give))
			v, err := check(p, "tell/"+where)
			if where == "approver" { // a defer: no on_error makes it weaker
				if err != nil || v.Effect != sdk.Deny || v.Code != sdk.ReasonStepError || v.From != nil {
					t.Errorf("%s: %+v, %v", where, v, err)
				}
			} else if wrong := where == "error" || where == "code"; wrong {
				wantNothing(t, v, err)
				if !errors.Is(err, ErrAnswer) {
					t.Errorf("%s: %v", where, err)
				}
				w.err(err)
			} else if err != nil {
				t.Fatal(err)
			}
			w.add(v.Reason, v.Message, v.RuleID, v.Code)
			if where == "code" {
				w.add("secret of plugins.guest.secrets.token") // it is an error instead
			}
			w.check(t)
		}
	})
}

// TestDeathHidesSecrets: what a plugin says last.
func TestDeathHidesSecrets(t *testing.T) {
	w := &told{secret: toldSecrets[0]}
	p := loaded(t, guestSpec("stock"), w.options(), with(w.give))
	_, err := check(p, "tell/death")
	if err == nil {
		t.Fatal("it answers")
	}
	w.err(err)
	until(t, "it is seen to have ended", func() bool { s := p.Status(); w.status(s); return s.Replicas[0].Crashes > 0 })
	w.check(t)
}

// TestDeathHidesWhatDoesNotPrint: its last lines show in other signs what does not print in a secret.
func TestDeathHidesWhatDoesNotPrint(t *testing.T) {
	words := []string{"first0000", "second0000", "third0000", "fourth0000"}
	w := &told{secret: words[0] + "\t" + words[1] + "\x1b" + words[2] + "\xff\xfe" + words[3]}
	p := loaded(t, guestSpec("stock"), w.options(), with(w.give))
	_, err := check(p, "tell/death")
	if err == nil {
		t.Fatal("it answers")
	}
	w.err(err)
	until(t, "it is seen to have ended", func() bool { s := p.Status(); w.status(s); return s.Replicas[0].Crashes > 0 })
	w.secret = strings.Join(words, " ")
	w.check(t)
}

// TestFindingsHideSecrets: what a scanner puts in place of a finding, and why it failed.
func TestFindingsHideSecrets(t *testing.T) {
	w := &told{secret: toldSecrets[0]}
	p := loaded(t, guestSpec("stock"), w.options(), with(w.give, func(s *Spec) { s.Kind = Scanner }))
	found, err := p.Scan(context.Background(), &chain.Input{Text: "x", ToolID: "tell"})
	if err != nil || len(found) != 1 || found[0].Replacement != "[secret of plugins.guest.secrets.token]" {
		t.Errorf("%+v, %v", found, err)
	}
	if _, err = p.Scan(context.Background(), &chain.Input{Text: "x", ToolID: "tell-error"}); err == nil {
		t.Fatal("it does not fail")
	}
	w.err(err)
	w.check(t)
}

// TestAcksHideSecrets: why a subscriber refuses a record, and how its stream ends.
func TestAcksHideSecrets(t *testing.T) {
	for _, mode := range []string{"ack", "status"} {
		w := &told{secret: toldSecrets[0]}
		p := loaded(t, guestSpec("stock-tells-"+mode), w.options(), func(s *Spec) { s.Kind = Subscriber; w.give(s) })
		stream, err := p.Consume(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&pluginv1.Batch{LastSeq: 1}); err != nil {
			t.Fatal(err)
		}
		ack, err := stream.Recv()
		if mode == "ack" && err != nil || mode == "status" && status.Code(err) != codes.Internal {
			t.Fatalf("%v, %v", ack, err)
		}
		if w.add(ack.GetError()); err != nil {
			w.err(err)
		}
		w.check(t)
	}
}
