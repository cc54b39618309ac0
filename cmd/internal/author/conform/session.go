package conform

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/yett-dev/yett/core/confine"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

const (
	startLimit = 10 * time.Second
	closeLimit = 3 * time.Second
	maxFile    = 512 << 20 // bytes of a plugin's file
)

// bounded puts our bound on what a plugin may answer on each call.
type bounded struct{ grpc.ClientConnInterface }

func (b bounded) options(opts []grpc.CallOption) []grpc.CallOption {
	return append(opts, grpc.MaxCallRecvMsgSize(maxAnswer))
}

func (b bounded) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return b.ClientConnInterface.Invoke(ctx, method, args, reply, b.options(opts)...)
}

func (b bounded) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string,
	opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return b.ClientConnInterface.NewStream(ctx, desc, method, b.options(opts)...)
}

func (r *run) plugin(s Session) pluginv1.PluginClient {
	return pluginv1.NewPluginClient(bounded{s.Conn()})
}

func (r *run) authorizer(s Session) pluginv1.AuthorizerClient {
	return pluginv1.NewAuthorizerClient(bounded{s.Conn()})
}

func (r *run) scanner(s Session) pluginv1.ScannerClient {
	return pluginv1.NewScannerClient(bounded{s.Conn()})
}

func (r *run) subscriber(s Session) pluginv1.SubscriberClient {
	return pluginv1.NewSubscriberClient(bounded{s.Conn()})
}

// fresh opens a session that nothing has been said on yet.
func (r *run) fresh(ctx context.Context) (Session, error) {
	ctx, cancel := context.WithTimeout(ctx, r.opts.start)
	defer cancel()
	open := r.opts.Open
	if open == nil {
		open = r.host
	}
	s, err := open(ctx)
	if err != nil {
		return nil, err
	}
	r.opened = append(r.opened, s)
	return s, nil
}

// policy is what the options leave to the plugin, and the files with its secrets.
func (r *run) policy() confine.Policy {
	p := r.opts.Confine
	if r.secrets != nil && r.secrets.dir != "" {
		p.Read = append(slices.Clone(p.Read), r.secrets.dir)
	}
	return p
}

// direct starts the plugin by hand, see direct.go.
func (r *run) direct(ctx context.Context, mtls bool) (*directSession, error) {
	o := r.opts
	o.Confine = r.policy()
	s, err := startDirect(ctx, o, r.digest, mtls, r.journal.line)
	if err != nil {
		return nil, err
	}
	r.opened = append(r.opened, s)
	return s, nil
}

// configured gives the session that most checks share: a live one that has its settings.
func (r *run) configured(ctx context.Context) (Session, error) {
	if r.main != nil && !ended(r.main) {
		return r.main, nil
	}
	if r.main != nil {
		return nil, r.gone(r.main, failed("a plugin stays up whatever it is asked", "the plugin ended between two checks"))
	}
	s, err := r.fresh(ctx)
	if err != nil {
		return nil, fmt.Errorf("start it again: %w", err)
	}
	if r.opts.Connect == "" { // else it has its settings from the check of that name
		if err := r.configure(ctx, s); err != nil {
			return nil, r.gone(s, err)
		}
	}
	r.main = s
	return s, nil
}

// configure hands over the settings in earnest.
func (r *run) configure(ctx context.Context, s Session) error {
	resp, err := r.plugin(s).Configure(ctx, r.request(s, false))
	if err != nil {
		return fmt.Errorf("Configure: %s", said(err))
	}
	if len(resp.Problems) > 0 {
		return fmt.Errorf("Configure: %s", problems(resp))
	}
	return nil
}

// request are the settings for one session. The gateway's host puts the secrets into files of its own.
func (r *run) request(s Session, validateOnly bool) *pluginv1.ConfigureRequest {
	secrets := r.secrets.names()
	if h, ok := s.(interface{ Secrets() map[string]string }); ok {
		secrets = h.Secrets()
	}
	return &pluginv1.ConfigureRequest{Config: r.config, Secrets: secrets, ValidateOnly: validateOnly, Instance: "conform",
		Generation: generation}
}

// ended says whether the process of a session is no more.
func ended(s Session) bool {
	p := s.Process()
	if p == nil {
		return false
	}
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// gone adds to an error how the process ended, if it did.
func (r *run) gone(s Session, err error) error {
	if err == nil || s == nil {
		return err
	}
	p := s.Process()
	if p == nil {
		return err
	}
	code := status.Code(err)
	var f *fault
	if errors.As(err, &f) || code == codes.Unavailable || code == codes.Unknown || code == codes.Internal {
		select { // the connection breaks a moment before the process is reaped, and longer when another one holds its pipes
		case <-p.Done():
		case <-time.After(2 * time.Second):
		}
	}
	if !ended(s) {
		return err
	}
	how := "the process ended: " + p.Exit().String()
	if f != nil {
		return &fault{err.Error() + "; " + how, f.advice}
	}
	return failed("a plugin stays up whatever it is asked: look at its log (--log)", "%s; %s", said(err), how)
}

// forget ends the shared session, so that the next check gets a new one.
func (r *run) forget() {
	r.main = nil
	for _, s := range r.opened {
		endSession(s)
	}
	r.opened = nil
}

// done ends one session.
func (r *run) done(s Session) {
	for i := range r.opened {
		if r.opened[i] == s {
			r.opened = append(r.opened[:i], r.opened[i+1:]...)
			break
		}
	}
	if r.main == s {
		r.main = nil
	}
	endSession(s)
}

// alone ends all other sessions, before one is fed: the gateway gives the log to one process of a subscriber at a time,
// so a subscriber may have to itself what it writes to.
func (r *run) alone(s Session) {
	for _, other := range slices.Clone(r.opened) {
		if other != s {
			r.done(other)
		}
	}
}

// endSession never waits longer than its limits.
func endSession(s Session) {
	p := s.Process()
	if p != nil {
		p.Kill()
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	_ = s.Close(ctx) // the process is killed: there is nothing left to mend
	if p != nil {
		select {
		case <-p.Done():
		case <-ctx.Done():
		}
	}
}

func (r *run) close() {
	r.forget()
	r.secrets.remove()
}

// entries lists what is in the working directory of a process, names and sizes.
func entries(pid int) (map[string]int64, error) {
	out := map[string]int64{}
	root := fmt.Sprintf("/proc/%d/cwd/", pid)
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		if len(out) > 10_000 {
			return errors.New("more than 10000 files")
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		out[path] = info.Size()
		return nil
	})
	return out, err
}
