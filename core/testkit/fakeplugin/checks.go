package main

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec that huge answers go around
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// each makes a mode that answers checks with what change makes of a permit, and scans with what it makes of a clean
// text.
func each(name, what string, change func(f *fake, a *pluginv1.CheckResponse),
	clean func(f *fake, r *pluginv1.ScanRequest, a *pluginv1.ScanResponse)) *mode {
	return &mode{name: name, what: what,
		check: func(f *fake, _ context.Context, _ uint64, r *pluginv1.CheckRequest) ([]*pluginv1.CheckResponse, error) {
			a := permit(r)
			change(f, a)
			return []*pluginv1.CheckResponse{a}, nil
		},
		scan: func(f *fake, _ context.Context, _ uint64, r *pluginv1.ScanRequest) (*pluginv1.ScanResponse, error) {
			a := &pluginv1.ScanResponse{Id: r.Id}
			if clean == nil {
				a.Error = "not for scans"
			} else {
				clean(f, r, a)
			}
			return a, nil
		}}
}

// from makes a mode that is good until the FAKE_ARG-th call (usually the first), and then does something that gives no
// answer.
func from(name, what string, usually uint64, do func(f *fake, ctx context.Context, n uint64)) *mode {
	return &mode{name: name, what: what,
		check: func(f *fake, ctx context.Context, n uint64, r *pluginv1.CheckRequest) ([]*pluginv1.CheckResponse, error) {
			if n >= f.number(usually) {
				do(f, ctx, n)
				return []*pluginv1.CheckResponse{permit(r)}, nil
			}
			return []*pluginv1.CheckResponse{f.policy(r)}, nil
		},
		scan: func(f *fake, ctx context.Context, n uint64, r *pluginv1.ScanRequest) (*pluginv1.ScanResponse, error) {
			if n >= f.number(usually) {
				do(f, ctx, n)
				return &pluginv1.ScanResponse{Id: r.Id}, nil
			}
			return found(r), nil
		}}
}

func checkModes() []*mode {
	fails := []*mode{
		from("crash-nth", "exits at call FAKE_ARG (3)", 3, func(f *fake, _ context.Context, n uint64) {
			f.die("call %d is one too many", n)
		}),
		from("panic-nth", "panics at call FAKE_ARG (3)", 3, func(_ *fake, _ context.Context, n uint64) {
			_ = make([]int, 0)[n]
		}),
		from("hang", "never answers, from call FAKE_ARG (1) on", 1, func(*fake, context.Context, uint64) { forever() }),
		from("stop-itself", "stops itself as SIGSTOP does, at call FAKE_ARG (1)", 1, func(*fake, context.Context, uint64) {
			stopSelf()
			forever() // other threads run on for a moment
		}),
		from("memory-hog", "takes all the memory it can get, at most 1 GiB, at call FAKE_ARG (1), and waits", 1,
			func(*fake, context.Context, uint64) {
				hog(1 << 30)
				forever()
			}),
		from("file-hog", "opens all the files it can, at most 65536, at call FAKE_ARG (1), and waits", 1,
			func(*fake, context.Context, uint64) {
				openMany(1 << 16)
				forever()
			}),
		from("fork-bomb", "starts as many processes as it can, at most 256, half of them outside its group, at call "+
			"FAKE_ARG (1), and waits", 1, func(f *fake, _ context.Context, _ uint64) {
			n, why := breed(256)
			f.note("bred", map[string]any{"processes": n, "why": why})
			forever()
		}),
		{name: "late", what: "permits FAKE_ARG (30ms) after the deadline", check: func(f *fake, _ context.Context, _ uint64, r *pluginv1.CheckRequest) ([]*pluginv1.CheckResponse, error) {
			time.Sleep(time.Until(time.Unix(0, r.DeadlineUnixNano)) + f.duration(30*time.Millisecond))
			return []*pluginv1.CheckResponse{permit(r)}, nil
		}, scan: func(f *fake, _ context.Context, _ uint64, r *pluginv1.ScanRequest) (*pluginv1.ScanResponse, error) {
			time.Sleep(time.Until(time.Unix(0, r.DeadlineUnixNano)) + f.duration(30*time.Millisecond))
			return &pluginv1.ScanResponse{Id: r.Id}, nil
		}},
		{name: "huge", what: "answers with a reason of FAKE_ARG bytes (1 GiB)", codec: func(f *fake) encoding.CodecV2 { return huge{encoding.GetCodecV2("proto"), f.number(1 << 30)} },
			check: func(_ *fake, _ context.Context, _ uint64, r *pluginv1.CheckRequest) ([]*pluginv1.CheckResponse, error) {
				return []*pluginv1.CheckResponse{permit(r)}, nil
			},
			scan: func(_ *fake, _ context.Context, _ uint64, r *pluginv1.ScanRequest) (*pluginv1.ScanResponse, error) {
				return found(r), nil
			}},
	}
	orphan := from("grandchild-crash", "has a child outside its group that holds its stdout and stderr, and exits at "+
		"call FAKE_ARG (3)", 3,
		func(f *fake, _ context.Context, n uint64) { f.die("call %d is one too many", n) })
	orphan.start = holdPipes
	return append(append(append(fails, oddStreams()...), orphan), wrongAnswers()...)
}

// oddStreams end too soon, answer too often, or not at all.
func oddStreams() []*mode {
	return []*mode{
		{name: "ends-stream", what: "denies, and ends the stream behind each answer", oneByOne: true,
			check: func(_ *fake, _ context.Context, _ uint64, r *pluginv1.CheckRequest) ([]*pluginv1.CheckResponse, error) {
				return []*pluginv1.CheckResponse{{Id: r.Id, Effect: pluginv1.CheckResponse_EFFECT_DENY, Code: "FAKE_DENY"}}, nil
			}},
		{name: "no-answer", what: "ends the stream without an answer", oneByOne: true,
			check: func(*fake, context.Context, uint64, *pluginv1.CheckRequest) ([]*pluginv1.CheckResponse, error) {
				return nil, errOver
			}},
		{name: "twice", what: "denies, and then permits the same call", check: func(_ *fake, _ context.Context, _ uint64, r *pluginv1.CheckRequest) ([]*pluginv1.CheckResponse, error) {
			return []*pluginv1.CheckResponse{{Id: r.Id, Effect: pluginv1.CheckResponse_EFFECT_DENY, Code: "FAKE_DENY"},
				permit(r)}, nil
		}},
		{name: "unasked", what: "permits a hundred calls that nobody made, and denies the one", check: func(_ *fake, _ context.Context, _ uint64, r *pluginv1.CheckRequest) ([]*pluginv1.CheckResponse, error) {
			var all []*pluginv1.CheckResponse
			for i := range uint64(100) {
				all = append(all, permit(&pluginv1.CheckRequest{Id: r.Id + 1<<40 + i}))
			}
			return append([]*pluginv1.CheckResponse{{Id: r.Id, Effect: pluginv1.CheckResponse_EFFECT_DENY, Code: "FAKE_DENY"}},
				all...), nil
		}},
		{name: "health-silent", what: "says once that it is well, and then nothing more; and hangs with every call",
			health: func(f *fake, ctx context.Context, n uint64, _ *pluginv1.HealthResponse) error {
				if n > 0 {
					forever()
				}
				return nil
			},
			check: func(f *fake, ctx context.Context, _ uint64, _ *pluginv1.CheckRequest) ([]*pluginv1.CheckResponse, error) {
				return stuck[[]*pluginv1.CheckResponse](f, ctx)
			},
			scan: func(f *fake, ctx context.Context, _ uint64, _ *pluginv1.ScanRequest) (*pluginv1.ScanResponse, error) {
				return stuck[*pluginv1.ScanResponse](f, ctx)
			}},
	}
}

// wrongAnswers are permits and clean texts that do not hold.
func wrongAnswers() []*mode {
	finding := func(f *fake, r *pluginv1.ScanRequest) *pluginv1.Finding {
		return &pluginv1.Finding{Kind: "FAKE_MARK", Start: 0, End: uint64(min(len(r.Text), 1)), Confidence: 1,
			Severity: pluginv1.Finding_SEVERITY_HIGH}
	}
	// bad is a mode of scans alone.
	bad := func(name, what string, spoil func(r *pluginv1.ScanRequest, x *pluginv1.Finding)) *mode {
		m := each(name, what, func(_ *fake, a *pluginv1.CheckResponse) { a.Error = "not for checks" },
			func(f *fake, r *pluginv1.ScanRequest, a *pluginv1.ScanResponse) {
				if len(r.Text) == 0 {
					return
				}
				x := finding(f, r)
				spoil(r, x)
				a.Findings = []*pluginv1.Finding{x}
			})
		return m
	}
	return []*mode{
		each("wrong-id", "answers with another id", func(_ *fake, a *pluginv1.CheckResponse) { a.Id += 1 << 40 },
			func(_ *fake, _ *pluginv1.ScanRequest, a *pluginv1.ScanResponse) { a.Id += 1 << 40 }),
		each("zero-id", "answers with id 0", func(_ *fake, a *pluginv1.CheckResponse) { a.Id = 0 },
			func(_ *fake, _ *pluginv1.ScanRequest, a *pluginv1.ScanResponse) { a.Id = 0 }),
		each("unknown-effect", "answers with effect FAKE_ARG (77), and a code", func(f *fake, a *pluginv1.CheckResponse) {
			a.Effect = pluginv1.CheckResponse_Effect(f.number(77))
		}, nil),
		each("no-effect", "answers without an effect", func(_ *fake, a *pluginv1.CheckResponse) {
			a.Effect = pluginv1.CheckResponse_EFFECT_UNSPECIFIED
		}, nil),
		each("no-code", "permits without a reason code", func(_ *fake, a *pluginv1.CheckResponse) { a.Code = "" }, nil),
		each("bad-code", "permits with an invalid reason code", func(_ *fake, a *pluginv1.CheckResponse) {
			a.Code = "fine by me\r\nX-Yett-Effect: PERMIT"
		}, nil),
		each("long-reason", "permits with a reason of 1 MiB", func(_ *fake, a *pluginv1.CheckResponse) {
			a.Reason = repeated('r', 1<<20)
		}, nil),
		each("long-rule", "permits with a rule id of 300 bytes", func(_ *fake, a *pluginv1.CheckResponse) {
			a.RuleId = repeated('r', 300)
		}, nil),
		each("error-permit", "permits and says that it failed", func(_ *fake, a *pluginv1.CheckResponse) {
			a.Error = "but it failed"
		},
			func(_ *fake, _ *pluginv1.ScanRequest, a *pluginv1.ScanResponse) { a.Error = "but it failed" }),
		each("bad-approvals", "defers to 4 billion approvers with odd names", func(_ *fake, a *pluginv1.CheckResponse) {
			a.Effect, a.Approvals, a.Approvers, a.Priority = pluginv1.CheckResponse_EFFECT_DEFER, 1<<32-1, []string{"everybody"},
				"urgent"
		}, nil),
		bad("scan-kind", "finds a kind that it did not announce", func(_ *pluginv1.ScanRequest, x *pluginv1.Finding) {
			x.Kind = "OTHER"
		}),
		bad("scan-span", "finds a span behind the end of the text", func(r *pluginv1.ScanRequest, x *pluginv1.Finding) {
			x.Start, x.End = 0, uint64(len(r.Text))+1
		}),
		bad("scan-wrap", "finds a span from 2^64-1 to 1", func(_ *pluginv1.ScanRequest, x *pluginv1.Finding) {
			x.Start, x.End = 1<<64-1, 1
		}),
		bad("scan-severity", "finds something of an unknown severity", func(_ *pluginv1.ScanRequest, x *pluginv1.Finding) {
			x.Severity = 77
		}),
		bad("scan-action", "suggests an unknown action", func(_ *pluginv1.ScanRequest, x *pluginv1.Finding) {
			x.Suggested = 77
		}),
		bad("scan-confidence", "finds something with confidence 7", func(_ *pluginv1.ScanRequest, x *pluginv1.Finding) {
			x.Confidence = 7
		}),
		each("scan-many", "finds a thousand spans", func(_ *fake, a *pluginv1.CheckResponse) { a.Error = "not for checks" },
			func(f *fake, r *pluginv1.ScanRequest, a *pluginv1.ScanResponse) {
				for range 1000 {
					a.Findings = append(a.Findings, finding(f, r))
				}
			}),
	}
}

func repeated(c byte, n uint64) string { return strings.Repeat(string(c), int(n)) }

// huge is the codec of an answer that is far larger than the memory it takes: its reason is one block again and again.
// The message is right in every other way. Only permits and findings are so large.
type huge struct {
	encoding.CodecV2
	size uint64
}

func (h huge) Marshal(v any) (mem.BufferSlice, error) {
	field := protowire.Number(4) // CheckResponse.reason
	switch v := v.(type) {
	case *pluginv1.CheckResponse:
		if v.Effect != pluginv1.CheckResponse_EFFECT_PERMIT {
			return h.CodecV2.Marshal(v)
		}
	case *pluginv1.ScanResponse:
		if len(v.Findings) == 0 {
			return h.CodecV2.Marshal(v)
		}
		field = 99 // unknown, so that nothing but the size is wrong with it
	default:
		return h.CodecV2.Marshal(v)
	}
	out, err := h.CodecV2.Marshal(v)
	if err != nil {
		return nil, err
	}
	out = append(out, mem.SliceBuffer(protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.BytesType),
		h.size)))
	block := mem.SliceBuffer([]byte(repeated('x', 1<<20)))
	for left := h.size; left > 0; left -= min(left, 1<<20) {
		out = append(out, block[:min(left, 1<<20)])
	}
	return out, nil
}
