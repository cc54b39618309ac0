package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// The groups say when a mode shows itself, and so what a test may expect.
const (
	groupGood     = "good"     // is right, whatever else it does
	groupStart    = "start"    // never becomes ready
	groupSettings = "settings" // is refused, or never becomes ready
	groupCheck    = "check"    // becomes ready (unless it is asked before), and its calls fail
	groupNoise    = "noise"    // is a nuisance, and its answers are right
	groupConform  = "conform"  // runs, and breaks a rule that the host does not depend on
	groupFeed     = "feed"     // a subscriber's
)

// mode is one way to misbehave. What is nil or zero is right.
type mode struct {
	name, group, what string

	start    func(f *fake) // before the handshake
	instead  func(f *fake) // of everything that comes behind it
	protocol uint          // the version of the handshake
	codec    func(f *fake) encoding.CodecV2
	deaf     bool // lives on when it is asked to end
	rude     bool // ends at once when it is asked to, whatever it has begun

	info   func(f *fake, r *pluginv1.InfoResponse)
	onInfo func(f *fake, ctx context.Context)
	// nil, nil: as a good one
	configure func(f *fake, ctx context.Context, r *pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error)
	health    func(f *fake, ctx context.Context, n uint64, r *pluginv1.HealthResponse) error
	check     func(f *fake, ctx context.Context, n uint64, r *pluginv1.CheckRequest) ([]*pluginv1.CheckResponse, error)
	first     bool // misbehaves from the host's first trial on
	oneByOne  bool // the stream of checks ends behind the first answer
	scan      func(f *fake, ctx context.Context, n uint64, r *pluginv1.ScanRequest) (*pluginv1.ScanResponse, error)
	take      func(f *fake, stream grpc.ServerStream, n uint64, b *pluginv1.Batch) ([]*pluginv1.Ack, error)
	unread    bool
}

// modes are all of them.
func modes() (all []*mode) {
	for _, g := range []struct {
		name string
		of   []*mode
	}{
		{groupGood, goodModes()}, {groupStart, startModes()}, {groupSettings, settingsModes()}, {groupCheck, checkModes()},
		{groupNoise, noiseModes()}, {groupConform, conformModes()}, {groupFeed, subscriberModes()},
	} {
		for _, m := range g.of {
			m.group = g.name
			all = append(all, m)
		}
	}
	return all
}

func goodModes() []*mode {
	return []*mode{
		{name: "good", what: "permits fake/permit/**, denies fake/deny/**, defers fake/defer/**, permits fake/slow/** late (FAKE_ARG, 100ms), abstains otherwise; finds " + markWord},
		{name: "ttl", what: "is good, and its answers hold for FAKE_ARG (1s) for the same tool_id",
			info: func(_ *fake, r *pluginv1.InfoResponse) { r.Capabilities.CacheKeyFields = []string{"tool_id"} },
			check: func(f *fake, _ context.Context, _ uint64, r *pluginv1.CheckRequest) ([]*pluginv1.CheckResponse, error) {
				a := f.policy(r)
				a.TtlMs = f.duration(time.Second).Milliseconds()
				return []*pluginv1.CheckResponse{a}, nil
			}},
		{name: "intruder", what: "is good, and when it is asked about intrude/** goes for the target in FAKE_ARG and says on stderr what succeeded",
			check: func(f *fake, _ context.Context, _ uint64, r *pluginv1.CheckRequest) ([]*pluginv1.CheckResponse, error) {
				if strings.HasPrefix(r.GetCall().GetToolId(), "intrude/") {
					intrude(f)
				}
				return []*pluginv1.CheckResponse{f.policy(r)}, nil
			}},
		{name: "relentless", what: "is good, and from a question about harass/** to one about peace/** it goes for the target in FAKE_ARG, for processes, memory, disk and files, over and over",
			check: func(f *fake, _ context.Context, _ uint64, r *pluginv1.CheckRequest) ([]*pluginv1.CheckResponse, error) {
				f.harassment(r.GetCall().GetToolId())
				return []*pluginv1.CheckResponse{f.policy(r)}, nil
			}},
		{name: "environment", what: "is good, and writes its environment, arguments, descriptors, limits and ids to FAKE_OUT", start: func(f *fake) { f.note("environment", surroundings()) }},
	}
}

// stuck waits for ever, whatever becomes of the call.
func stuck[R any](f *fake, _ context.Context) (R, error) {
	forever()
	var none R
	return none, nil
}

func forever() {
	for {
		time.Sleep(time.Hour)
	}
}

func settingsModes() []*mode {
	return []*mode{
		{name: "hang-info", what: "never answers Info", onInfo: func(*fake, context.Context) { forever() }},
		{name: "hang-configure", what: "never answers Configure",
			configure: func(f *fake, ctx context.Context, _ *pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
				return stuck[*pluginv1.ConfigureResponse](f, ctx)
			}},
		{name: "exit-configure", what: "ends when it is configured", configure: func(f *fake, _ context.Context, r *pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
			if !r.ValidateOnly {
				f.die("settings are too much")
			}
			return nil, nil
		}},
		{name: "refuse-configure", what: "finds a problem in any settings", configure: func(*fake, context.Context, *pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
			return &pluginv1.ConfigureResponse{Problems: []*pluginv1.Problem{{Field: "/note", Message: "does not please"}}}, nil
		}},
		{name: "error-configure", what: "answers Configure with an error", configure: func(*fake, context.Context, *pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
			return nil, status.Error(codes.InvalidArgument, "settings do not please")
		}},
		{name: "wrong-api", what: "speaks api version 7 only", info: func(_ *fake, r *pluginv1.InfoResponse) { r.ApiVersions = []uint32{7} }},
		{name: "wrong-kind", what: "is a scanner only (FAKE_ARG: authorizer, subscriber)", info: func(f *fake, r *pluginv1.InfoResponse) {
			kinds := map[string]pluginv1.Kind{"authorizer": pluginv1.Kind_KIND_AUTHORIZER, "scanner": pluginv1.Kind_KIND_SCANNER,
				"subscriber": pluginv1.Kind_KIND_SUBSCRIBER}
			r.Kinds = []pluginv1.Kind{kinds[f.word("scanner")]}
		}},
		{name: "info-changes", what: "says another version after each start, and ends at call FAKE_ARG (3)",
			info: func(_ *fake, r *pluginv1.InfoResponse) { r.Version = fmt.Sprintf("1.0.%d", os.Getpid()) },
			check: func(f *fake, _ context.Context, n uint64, r *pluginv1.CheckRequest) ([]*pluginv1.CheckResponse, error) {
				if n >= f.number(3) {
					f.die("call %d is one too many", n)
				}
				return []*pluginv1.CheckResponse{f.policy(r)}, nil
			}},
		{name: "no-kind", what: "is of no kind", info: func(_ *fake, r *pluginv1.InfoResponse) { r.Kinds = nil }},
		{name: "bad-name", what: "has a name with a line feed", info: func(_ *fake, r *pluginv1.InfoResponse) { r.Name = "Fake\n2" }},
		{name: "bad-version", what: "has a version with an escape sequence", info: func(_ *fake, r *pluginv1.InfoResponse) { r.Version = "1\x1b[2J" }},
		{name: "bad-schema", what: "has an invalid config schema", info: func(_ *fake, r *pluginv1.InfoResponse) { r.ConfigSchema = `{"type":"nonsense"}` }},
		{name: "outside-schema", what: "has a config schema that refers to a file", info: func(_ *fake, r *pluginv1.InfoResponse) { r.ConfigSchema = `{"$ref":"file:///etc/passwd"}` }},
		{name: "huge-info", what: "says a description of FAKE_ARG bytes (8 MiB)", info: func(f *fake, r *pluginv1.InfoResponse) { r.Description = repeated('d', f.number(8<<20)) }},
		badFirst(),
		{name: "health-not-serving", what: "says that it does not serve, from the FAKE_ARG-th time on (first)", health: func(f *fake, _ context.Context, n uint64, r *pluginv1.HealthResponse) error {
			if n+1 >= f.number(1) {
				r.Status, r.Detail = pluginv1.HealthResponse_STATUS_NOT_SERVING, "closed for today"
			}
			return nil
		}},
		{name: "health-never", what: "never says that it is well", health: func(f *fake, ctx context.Context, _ uint64, _ *pluginv1.HealthResponse) error {
			_, err := stuck[bool](f, ctx)
			return err
		}},
	}
}

// badFirst answers wrongly from the first trial on.
func badFirst() *mode {
	m := each("bad-first", "answers every call with another id, even the host's trial",
		func(_ *fake, a *pluginv1.CheckResponse) {
			a.Id += 7
		}, func(_ *fake, _ *pluginv1.ScanRequest, a *pluginv1.ScanResponse) { a.Id += 7 })
	m.first = true
	return m
}

func conformModes() []*mode {
	return []*mode{
		{name: "validate-effect", what: "takes settings into use that it was only asked about",
			configure: func(f *fake, _ context.Context, r *pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
				f.configured.Store(true)
				f.note("configure", map[string]any{"validate_only": r.ValidateOnly})
				return nil, nil
			}},
		{name: "validate-anything", what: "finds no problem in any settings", configure: func(f *fake, _ context.Context, r *pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
			if !r.ValidateOnly {
				f.configured.Store(true)
			}
			return &pluginv1.ConfigureResponse{}, nil
		}},
		{name: "bad-example", what: "has an example that its own schema refuses", info: func(_ *fake, r *pluginv1.InfoResponse) { r.ExampleConfig = `{"nota":1}` }},
		{name: "permit-unknown", what: "permits what it does not know", check: func(f *fake, _ context.Context, _ uint64, r *pluginv1.CheckRequest) ([]*pluginv1.CheckResponse, error) {
			if a := f.policy(r); a.Error != "" || a.Effect != pluginv1.CheckResponse_EFFECT_ABSTAIN {
				return []*pluginv1.CheckResponse{a}, nil
			}
			return []*pluginv1.CheckResponse{permit(r)}, nil
		}},
		{name: "permit-malformed", what: "permits a malformed request", check: func(f *fake, _ context.Context, _ uint64, r *pluginv1.CheckRequest) ([]*pluginv1.CheckResponse, error) {
			a := f.policy(r)
			if a.Error != "" {
				a = permit(r)
			}
			return []*pluginv1.CheckResponse{a}, nil
		}},
		{name: "serial", what: "answers one call at a time, each after FAKE_ARG (20ms)", check: func(f *fake, _ context.Context, _ uint64, r *pluginv1.CheckRequest) ([]*pluginv1.CheckResponse, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			time.Sleep(f.duration(20 * time.Millisecond))
			return []*pluginv1.CheckResponse{f.policy(r)}, nil
		}},
		{name: "no-drain", what: "is good, and drops what it has begun when it is asked to end", rude: true},
	}
}
