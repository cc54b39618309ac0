package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

func TestServeRefuses(t *testing.T) {
	good := Info{Name: "x", Version: "1"}
	with := func(f func(*Info)) Plugin { a := sample(); a.Info = good; f(&a.Info); return a }
	for want, list := range map[string][]Plugin{
		"a plugin is nil":                {nil},
		"the authorizer has no Check":    {Authorizer{Info: good}},
		"the scanner has no Scan":        {Scanner{Info: good}},
		"the subscriber has no Consume":  {Subscriber{Info: good}},
		"two plugins of kind authorizer": {sample(), sample()},
		"Info.Name is not the first":     {sample(), Scanner{Info: Info{Name: "other"}, Scan: nothing}},
		`Info.Name: ""`:                  {with(func(i *Info) { i.Name = "" })},
		`Info.Name: "Acme"`:              {with(func(i *Info) { i.Name = "Acme" })},
		`Info.Version: ""`:               {with(func(i *Info) { i.Version = "" })},
		"Info.Description":               {with(func(i *Info) { i.Description = "a\nb" })},
		"Info.ConfigSchema":              {with(func(i *Info) { i.ConfigSchema = "{" })},
		"Info.ExampleConfig":             {with(func(i *Info) { i.ExampleConfig = "[]" })},
		"Info.MaxInFlight":               {with(func(i *Info) { i.MaxInFlight = 5000 })},
		`Info.Secrets: "A B"`:            {with(func(i *Info) { i.Secrets = []Secret{{Name: "A B"}} })},
		"a scanner says at least":        {Scanner{Info: good, Scan: nothing}},
		`Info.Secrets: "a" is there`:     {with(func(i *Info) { i.Secrets = []Secret{{Name: "a"}, {Name: "a"}} })},
		`Info.Findings: "secret"`:        {with(func(i *Info) { i.Findings = []FindingKind{{Kind: "secret"}} })},
		`Info.CacheKeyFields: "user"`:    {with(func(i *Info) { i.CacheKeyFields = []string{"user"} })},
		`Info.CacheKeyFields: "args."`:   {with(func(i *Info) { i.CacheKeyFields = []string{"args."} })},
		"CacheKeyFields: 0, 0 and 33 en": {with(func(i *Info) { i.CacheKeyFields = strings.Fields(strings.Repeat("args ", 33)) })},
	} {
		_, err := gather(list[0], list[1:])
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestInfo(t *testing.T) {
	a := sample()
	a.Info.Secrets = []Secret{{Name: "token", Required: true, Description: "of the service"}}
	r := load(t, a, Scanner{Info: Info{Findings: []FindingKind{{"SECRET_X", "an x"}}}, Scan: nothing})
	got, err := r.plugin.Info(t.Context(), &pluginv1.InfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got.GetName() != "sample" || len(got.GetKinds()) != 2 || got.GetApiVersions()[0] != 1 ||
		!got.GetCapabilities().GetCheckStream() ||
		len(got.GetSecrets()) != 1 || got.GetFindings()[0].GetKind() != "SECRET_X" ||
		len(got.GetCapabilities().GetCacheKeyFields()) != 2 {
		t.Error(got)
	}
	var b bytes.Buffer
	if err := printInfo(&b, r.server.parts); err != nil || !json.Valid(b.Bytes()) {
		t.Error(err, b.String())
	}
	for _, want := range []string{`"authorizer"`, `"scanner"`, `"SECRET_X"`, `"required": true`, `"config_schema": {}`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("--info has no %s: %s", want, &b)
		}
	}
	if _, err := r.subscriber.Consume(t.Context()); err == nil {
		if s, err := r.subscriber.Consume(t.Context()); err == nil {
			if _, err = s.Recv(); status.Code(err) != codes.Unimplemented {
				t.Errorf("a kind that it is not: %v", err)
			}
		}
	}
}

func TestDecode(t *testing.T) {
	type inner struct {
		Name string `json:"name"`
	}
	type config struct {
		inner
		Limit int              `json:"limit"`
		List  []inner          `json:"list"`
		Map   map[string]inner `json:"map"`
		At    time.Time        `json:"at"`
		Raw   json.RawMessage  `json:"raw"`
		skip  int
	}
	for text, want := range map[string]string{
		"":   "",
		"{}": "",
		`{"limit":3,"name":"x","list":[{"name":"a"}],"map":{"A":{"name":"b"},"a":{"name":"c"}},"at":"2026-01-02T03:04:05Z","raw":{"X":1}}`: "",
		`{"limits":3}`:             "/limits: unknown member",
		`{"skip":3}`:               "/skip: unknown member",
		`{"Limit":3}`:              "/Limit: unknown member; limit is one",
		`{"limit":3,"limit":4}`:    "invalid JSON at byte",
		`{"list":[{"Name":"a"}]}`:  "/list/0/Name: unknown member",
		`{"map":{"a":{"x":"a"}}}`:  "/map/a/x: unknown member",
		`{"limit":"3"}`:            "/limit: a string does not fit: expected int",
		`{"limit":1.5}`:            "/limit: ",
		`[]`:                       "must be a JSON object, not an array",
		`{} {}`:                    "invalid JSON",
		"{\"name\":\"\xff\"}":      "invalid JSON",
		`{"at":"yesterday"}`:       "yesterday",
		`null`:                     "must be a JSON object",
		strings.Repeat("[", 10000): "invalid JSON",
	} {
		var c config
		_ = c.skip
		err := Settings{Config: json.RawMessage(text)}.Decode(&c)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"a":{"b":[1,{"c":null}]}}`))
	f.Fuzz(func(_ *testing.T, b []byte) {
		var c struct {
			A struct{ B []map[string]*struct{ C any } } `json:"a"`
		}
		_ = Settings{Config: b}.Decode(&c)
	})
}

// TestConfigure wants Validate before Configure, Configure once, and neither for settings with problems.
func TestConfigure(t *testing.T) {
	var calls []string
	var got Settings
	a := sample()
	a.Info.Secrets = []Secret{{Name: "token", Required: true}, {Name: "other"}}
	a.Validate = func(_ context.Context, s Settings) error {
		calls = append(calls, "validate")
		if strings.Contains(string(s.Config), "bad") {
			return errors.New("is bad")
		}
		if strings.Contains(string(s.Config), "empty") {
			return Problems{}
		}
		if strings.Contains(string(s.Config), "panic") {
			panic("x")
		}
		return nil
	}
	a.Configure = func(_ context.Context, s Settings) error { calls = append(calls, "configure"); got = s; return nil }
	r := load(t, a)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(" s3 \n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	big, pipe := token+".big", token+".pipe"
	if err := errors.Join(os.WriteFile(big, make([]byte, maxSecret+1), 0o600), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		config  string
		secrets map[string]string
		want    string
	}{
		{`{"bad":1}`, map[string]string{"token": token}, "validate: is bad"},
		{`{"empty":1}`, map[string]string{"token": token}, "validate: refused without a reason"},
		{`{"panic":1}`, map[string]string{"token": token}, "validate: Validate panicked"},
		{`{}`, nil, "secrets.token this secret is required"},
		{`{}`, map[string]string{"token": token + "x"}, "secrets.token its file cannot be read"},
		{`{}`, map[string]string{"token": big}, "secrets.token its file is longer"},
		{`{}`, map[string]string{"token": pipe}, "secrets.token its file is not a regular file"},
		{`{}`, map[string]string{"token": "/dev/null"}, "secrets.token its file is not a regular file"},
		{`{}`, map[string]string{"token": token, "more": token}, "secrets.more the plugin takes no secret of this name"},
		{`[]`, map[string]string{"token": token}, "must be a JSON object"},
		{`{`, map[string]string{"token": token}, "invalid JSON"},
	} {
		calls = nil
		m, err := r.plugin.Configure(t.Context(), &pluginv1.ConfigureRequest{Config: []byte(c.config), Secrets: c.secrets})
		text := strings.Join(calls, " ") + ": "
		for _, p := range m.GetProblems() {
			text += strings.TrimSpace(p.GetField() + " " + p.GetMessage())
		}
		if err != nil || !strings.Contains(text, c.want) || strings.Contains(text, "configure") {
			t.Errorf("%s %v: %s, %v; want %q", c.config, c.secrets, text, err, c.want)
		}
	}
	req := &pluginv1.ConfigureRequest{Config: []byte(`{"a":1}`), Secrets: map[string]string{"token": token}, Instance: "i",
		Generation: "7"}
	req.ValidateOnly, calls = true, nil
	if m, err := r.plugin.Configure(t.Context(), req); err != nil || len(m.GetProblems()) > 0 ||
		strings.Join(calls, " ") != "validate" {
		t.Error("validate_only:", m, err, calls)
	}
	req.ValidateOnly, calls = false, nil
	if m, err := r.plugin.Configure(t.Context(), req); err != nil || len(m.GetProblems()) > 0 ||
		strings.Join(calls, " ") != "validate configure" {
		t.Error("Configure:", m, err, calls)
	}
	if got.Secrets["token"] != " s3 \n" || len(got.Secrets) != 1 || string(got.Config) != `{"a":1}` ||
		got.Instance != "i" || got.Generation != "7" {
		t.Errorf("%+v", got)
	}
	if _, err := r.plugin.Configure(t.Context(), req); status.Code(err) != codes.FailedPrecondition {
		t.Error("a second time:", err)
	}
}

// TestConfigureFails tells settings that are refused from a start that failed.
func TestConfigureFails(t *testing.T) {
	for _, c := range []struct {
		err     error
		problem string
		code    codes.Code
	}{
		{Problem{"/a", "is bad"}, "is bad", codes.OK},
		{Problems{{"/a", "is bad"}}, "is bad", codes.OK},
		{errors.New("the service is not there"), "", codes.Unknown},
	} {
		a := sample()
		a.Configure = func(context.Context, Settings) error { return c.err }
		r := load(t, a)
		m, err := r.plugin.Configure(t.Context(), &pluginv1.ConfigureRequest{})
		if status.Code(err) != c.code || (c.problem != "") != (len(m.GetProblems()) > 0) {
			t.Errorf("%v: %v, %v", c.err, m, err)
		}
		if _, err := r.authorizer.Check(t.Context(), request(1, "permit")); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("asked after it: %v", err)
		}
		if _, err := r.plugin.Configure(t.Context(), &pluginv1.ConfigureRequest{}); status.Code(err) !=
			codes.FailedPrecondition {
			t.Errorf("a second try: %v", err)
		}
	}
}

// TestConfigureAgain: a plugin that somebody else starts is told its settings by each connection, also after a restart
// of the gateway. What is in force stays in force; other settings are refused before they reach the plugin.
func TestConfigureAgain(t *testing.T) {
	calls := 0
	a := sample()
	a.Validate, a.Configure = nil, func(context.Context, Settings) error { calls++; return nil }
	r := load(t, a)
	r.server.outside = true
	for _, c := range []struct{ config, problem string }{
		{`{"a":1}`, ""}, {`{"a":1}`, ""}, {`{"a":2}`, "other settings are in force"}, {``, "other settings are in force"}, {`{"a":1}`, ""},
	} {
		m, err := r.plugin.Configure(t.Context(), &pluginv1.ConfigureRequest{Config: []byte(c.config), Generation: c.config})
		if err != nil || len(m.GetProblems()) > 0 != (c.problem != "") ||
			c.problem != "" && !strings.Contains(m.GetProblems()[0].GetMessage(), c.problem) {
			t.Errorf("%s: %v, %v; want %q", c.config, m, err, c.problem)
		}
	}
	if v, err := r.authorizer.Check(t.Context(), request(1, "permit")); err != nil ||
		v.GetEffect() != pluginv1.CheckResponse_EFFECT_PERMIT || calls != 1 {
		t.Errorf("%v, %v after %d calls of Configure", v, err, calls)
	}
}

func TestManyProblems(t *testing.T) {
	a := sample()
	a.Validate = func(context.Context, Settings) error {
		return make(Problems, 100)
	}
	r := load(t, a)
	m, err := r.plugin.Configure(t.Context(), &pluginv1.ConfigureRequest{ValidateOnly: true})
	if n := len(m.GetProblems()); err != nil || n != maxProblems || m.GetProblems()[n-1].GetMessage() != "and 37 more" {
		t.Error(len(m.GetProblems()), err)
	}
}

func TestHealth(t *testing.T) {
	var down error
	a := sample()
	a.Health = func() error { return down }
	r := load(t, a)
	r.configure(t, "")
	down = errors.New("no route") // before the stream: there is no race
	h, err := r.plugin.Health(t.Context(), &pluginv1.HealthRequest{IntervalMs: 1})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if m, err := h.Recv(); err != nil || m.GetStatus() != pluginv1.HealthResponse_STATUS_NOT_SERVING ||
			m.GetDetail() != "no route" {
			t.Fatal(m, err)
		}
	}
	for _, ms := range []uint32{0, maxInterval + 1} {
		h, err := r.plugin.Health(t.Context(), &pluginv1.HealthRequest{IntervalMs: ms})
		if err == nil {
			_, err = h.Recv()
		}
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("interval %d: %v", ms, err)
		}
	}
}

func TestClip(t *testing.T) {
	for _, s := range []string{"", "ä", strings.Repeat("ä", maxLine), "\xff" + strings.Repeat("x", maxLine)} {
		if got := clip(s); len(got) > maxLine || strings.ToValidUTF8(got, "") != got ||
			len(s) <= maxLine && s != got && s[0] != '\xff' {
			t.Errorf("%.10q becomes %.10q of %d", s, got, len(got))
		}
	}
}

// The host masks what a plugin says: it must see no part of a word, of which it would not know that it is a secret's.
func TestClipCutsBetweenWords(t *testing.T) {
	secret := "tok" + "_" + strings.Repeat("k9", 16)
	for at := range maxLine + 10 {
		for _, blank := range []string{" ", "\n"} {
			got := clip(strings.Repeat("y", at) + blank + secret + blank + strings.Repeat("z", maxLine))
			if rest := strings.ReplaceAll(got, secret, ""); strings.ContainsAny(rest, "k_") ||
				!strings.HasSuffix(got, "(cut)") || len(got) > maxLine {
				t.Fatalf("%d bytes before: %q", at, got)
			}
		}
	}
}
