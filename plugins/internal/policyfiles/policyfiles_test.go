package policyfiles

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/plugin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// word is an engine of one word: it permits when that is "permit".
type word string

func (w *word) Decide(context.Context, *plugin.Call) (sdk.Verdict, error) {
	if *w == "permit" {
		return sdk.Verdict{Effect: sdk.Permit}, nil
	}
	return sdk.Verdict{Effect: sdk.Deny}, nil
}

// shelf is where the words come from. Its functions may be changed between two looks.
type shelf struct {
	text   string
	fail   error // of reading
	loads  int
	during func() // called by Load
}

type book struct {
	*shelf
	text string
}

func (b book) Digest() [sha256.Size]byte { return sha256.Sum256([]byte(b.text)) }

func (b book) Load(context.Context) (*word, error) {
	b.loads++
	if b.during != nil {
		b.during()
	}
	if b.text != "permit" && b.text != "forbid" {
		return nil, errors.New(b.text + " is no policy")
	}
	w := word(b.text)
	return &w, nil
}

// opened is an authorizer whose only setting is what it reads, and its log.
func opened(t *testing.T, s *shelf) (*Authorizer[*word], *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	a := New(func(plugin.Settings) (*Origin[*word], error) {
		return &Origin[*word]{Field: "/text", Read: func() (Source[*word], error) {
			if s.fail != nil {
				return nil, s.fail
			}
			return book{s, s.text}, nil
		}, Tell: func(log *slog.Logger, w *word) { log.Warn("told of " + string(*w)) }}, nil
	})
	if err := a.Configure(t.Context(), plugin.Settings{Log: slog.New(slog.NewTextHandler(&out, nil))}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return a, &out
}

func effect(t *testing.T, a *Authorizer[*word]) sdk.Effect {
	t.Helper()
	v, err := a.Check(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return v.Effect
}

// The log says of each reason once why newer content is not taken, and once that it is over. Refused content is loaded
// once.
func TestRefusalsAreTold(t *testing.T) {
	s := &shelf{text: "permit"}
	a, out := opened(t, s)
	p := a.InForce()
	var last Sighting
	for _, step := range []struct {
		text  string
		fail  error
		says  string
		loads int
	}{
		{"perm", nil, "error=\"perm is no policy\"", 1},
		{"forbi", nil, "error=\"forbi is no policy\"", 1},
		{"", errors.New("disk gone"), "error=\"disk gone\"", 0},
		{"permit", nil, "the policies on disk are those in force again", 0},
	} {
		out.Reset()
		before := s.loads
		s.text, s.fail = step.text, step.fail
		for range 5 {
			last = p.Refresh(t.Context(), last)
		}
		if n := strings.Count(out.String(), "level="); n != 1 || !strings.Contains(out.String(), step.says) {
			t.Errorf("%q: the log has %d lines, wanted one with %s: %s", step.text, n, step.says, out)
		}
		if s.loads-before != step.loads {
			t.Errorf("%q was loaded %d times; want %d", step.text, s.loads-before, step.loads)
		}
		if effect(t, a) != sdk.Permit {
			t.Errorf("%q is in force", step.text)
		}
	}
	if p.Refused() != "" {
		t.Errorf("still refused: %s", p.Refused())
	}
	out.Reset()
	s.text = "forbid"
	p.Refresh(t.Context(), p.Refresh(t.Context(), last))
	if got := out.String(); !strings.Contains(got, "newer policies loaded") || !strings.Contains(got, "digest=sha256:") ||
		!strings.Contains(got, "told of forbid") {
		t.Errorf("the log of newer policies is %s", got)
	}
}

// Content that goes on changing is never taken, whatever each look finds.
func TestUnsettledContent(t *testing.T) {
	s := &shelf{text: "permit"}
	a, _ := opened(t, s)
	var last Sighting
	for i := range 10 {
		s.text = "forbid" + strings.Repeat(" ", i)
		last = a.InForce().Refresh(t.Context(), last)
		if !last.Pending || s.loads != 1 || effect(t, a) != sdk.Permit {
			t.Fatalf("look %d: %+v, loaded %d times", i, last, s.loads)
		}
	}
}

// Content that an engine's library cannot bear is refused like any other.
func TestPanicIsRefused(t *testing.T) {
	s := &shelf{text: "permit"}
	a, out := opened(t, s)
	p := a.InForce()
	s.text, s.during = "forbid", func() { panic("index out of range") }
	last := p.Refresh(t.Context(), p.Refresh(t.Context(), Sighting{}))
	if last.Pending || effect(t, a) != sdk.Permit || !strings.Contains(p.Refused(), "index out of range") ||
		!strings.Contains(out.String(), "newer policies refused") {
		t.Errorf("%+v, refused %q: %s", last, p.Refused(), out)
	}
}

// Of newer content that takes long to load the log says once that it does. A quick load is not worth a word.
func TestSlowLoad(t *testing.T) {
	for took, want := range map[time.Duration]int{9 * time.Second: 0, time.Minute: 1} {
		synctest.Test(t, func(t *testing.T) {
			s := &shelf{text: "permit"}
			a, out := opened(t, s)
			s.text, s.during = "forbid", func() {
				if effect(t, a) != sdk.Permit {
					t.Error("what was in force is no more")
				}
				<-time.After(took)
			}
			p := a.InForce()
			p.Refresh(t.Context(), p.Refresh(t.Context(), Sighting{}))
			if n := strings.Count(out.String(), "still being loaded; those of before stay in force"); n != want ||
				effect(t, a) != sdk.Deny {
				t.Errorf("a load of %s: said %d times; want %d: %s", took, n, want, out)
			}
		})
	}
}

// What was loaded while the plugin ends is neither put into force nor refused.
func TestEndsWhileLoading(t *testing.T) {
	s := &shelf{text: "permit"}
	a, out := opened(t, s)
	p := a.InForce()
	ctx, cancel := context.WithCancel(t.Context())
	s.text, s.during = "forbid", cancel
	last := p.Refresh(ctx, Sighting{})
	if again := p.Refresh(ctx, last); again != last || effect(t, a) != sdk.Permit || p.Refused() != "" ||
		strings.Contains(out.String(), "newer") {
		t.Errorf("%+v, refused %q: %s", again, p.Refused(), out)
	}
}

// An error of Configure names the field, and what was in force before goes on.
func TestConfigureFails(t *testing.T) {
	s := &shelf{text: "permit"}
	a, _ := opened(t, s)
	before := a.InForce()
	for _, broken := range []shelf{{text: "perm"}, {fail: errors.New("disk gone")}} {
		s.text, s.fail = broken.text, broken.fail
		for step, err := range map[string]error{"configure": a.Configure(t.Context(), plugin.Settings{}),
			"validate": a.Validate(t.Context(), plugin.Settings{})} {
			var p plugin.Problem
			if !errors.As(err, &p) || p.Field != "/text" {
				t.Errorf("%s of %+v: %v; want a problem of /text", step, broken, err)
			}
		}
	}
	if a.InForce() != before || effect(t, a) != sdk.Permit {
		t.Error("what was in force is no more")
	}
}

// Another Configure ends the looking of the one before (goleak), and Close waits for a look that is under way.
func TestCloseWaits(t *testing.T) {
	looking, release := make(chan struct{}), make(chan struct{})
	looks := 0
	a := New(func(plugin.Settings) (*Origin[*word], error) {
		return &Origin[*word]{Every: time.Millisecond, Read: func() (Source[*word], error) {
			if looks++; looks == 2 { // the first one is Configure's
				close(looking)
				<-release
			}
			return book{&shelf{}, "permit"}, nil
		}}, nil
	})
	if err := a.Configure(t.Context(), plugin.Settings{Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	p := a.InForce()
	<-looking
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Close(over); !errors.Is(err, context.Canceled) {
		t.Errorf("while a look is under way: %v", err)
	}
	if _, err := a.Check(t.Context(), nil); err == nil {
		t.Error("a closed plugin answers")
	}
	close(release)
	<-p.done
	if err := a.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestConfigureAgain(t *testing.T) {
	text := "permit"
	a := New(func(plugin.Settings) (*Origin[*word], error) {
		now := text
		return &Origin[*word]{Every: time.Millisecond, Read: func() (Source[*word], error) {
			return book{&shelf{}, now}, nil
		}}, nil
	})
	var first *Policies[*word]
	for _, text = range []string{"permit", "forbid"} {
		if err := a.Configure(t.Context(), plugin.Settings{Log: slog.New(slog.DiscardHandler)}); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = a.InForce()
		}
	}
	<-first.done
	if effect(t, a) != sdk.Deny {
		t.Error("the settings of before are in force")
	}
	if err := a.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestDigest(t *testing.T) {
	files := func(parts ...string) (fs []File) {
		for i := 0; i < len(parts); i += 2 {
			fs = append(fs, File{parts[i], []byte(parts[i+1])})
		}
		return fs
	}
	seen := map[[sha256.Size]byte]string{}
	for name, d := range map[string][sha256.Size]byte{
		"none":            Digest(nil),
		"one":             Digest(files("a", "b")),
		"moved border":    Digest(files("ab", "")),
		"two":             Digest(files("a", "b", "c", "d")),
		"run together":    Digest(files("a", "bcd")),
		"other name":      Digest(files("x", "b")),
		"other content":   Digest(files("a", "x")),
		"something first": Digest(files("a", "b"), []byte("x")),
		"first and empty": Digest(files("a", "b"), nil, []byte("x")),
	} {
		if other := seen[d]; other != "" {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[d] = name
	}
	if again := Digest(files("a", "b")); seen[again] != "one" {
		t.Error("the same files have two digests")
	}
}

func TestSort(t *testing.T) {
	files := []File{{Name: "c"}, {Name: "a"}, {Name: "b"}}
	if twice := Sort(files); twice != "" || files[0].Name+files[1].Name+files[2].Name != "abc" {
		t.Errorf("%v, %q", files, twice)
	}
	if twice := Sort([]File{{Name: "b"}, {Name: "a"}, {Name: "b"}}); twice != "b" {
		t.Errorf("twice is %q", twice)
	}
}
