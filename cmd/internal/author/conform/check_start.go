package conform

import (
	"context"
	"fmt"
	"time"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

func startChecks() []check {
	return []check{
		{name: "handshake", process: true, limit: startLimit + 5*time.Second, run: checkHandshake,
			expects: "started with nothing in its environment but the handshake's variables, one handshake line within 10 s, " +
				"and an answer on its socket"},
		{name: "mtls", process: true, limit: startLimit + 5*time.Second, run: checkMTLS,
			expects: "with PLUGIN_CLIENT_CERT set, the connection is mutual TLS, and who does not hold that certificate is " +
				"not answered"},
		{name: "start", limit: startLimit + 5*time.Second, run: checkStart,
			expects: "the gateway's own host can start it and call Info: private empty working directory, no inherited " +
				"environment, stdin and stdout not a terminal"},
	}
}

func checkHandshake(ctx context.Context, r *run) error {
	s, err := r.direct(ctx, false)
	if err != nil {
		return err
	}
	defer r.done(s)
	if _, err := r.plugin(s).Info(ctx, r.infoRequest(1)); err != nil {
		return r.gone(s, fmt.Errorf("Info on the socket of the handshake: %s", said(err)))
	}
	r.shook = true
	r.saw("%d ms", s.took.Milliseconds())
	return nil
}

func checkMTLS(ctx context.Context, r *run) error {
	if !r.shook {
		return skipped("not run: handshake failed")
	}
	s, err := r.direct(ctx, true)
	if err != nil {
		return err
	}
	defer r.done(s)
	if _, err := r.plugin(s).Info(ctx, r.infoRequest(1)); err != nil {
		return r.gone(s, failed("the certificate in PLUGIN_CLIENT_CERT (PEM) is the only client to trust, the one in the "+
			"handshake line is the server's, and its name is localhost",
			"Info over mutual TLS: %s", said(err)))
	}
	conn, err := s.stranger()
	if err != nil {
		return err
	}
	defer conn.Close()
	within, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := pluginv1.NewPluginClient(bounded{conn}).Info(within, r.infoRequest(1)); err == nil {
		return failed("demand and verify the client's certificate (tls.RequireAndVerifyClientCert; in Python "+
			"require_client_auth=True)",
			"a client without the gateway's certificate was answered: whoever is on the machine could ask the plugin")
	}
	return nil
}

func checkStart(ctx context.Context, r *run) error {
	s, err := r.fresh(ctx)
	if err != nil {
		return err
	}
	r.main = nil
	info, err := r.plugin(s).Info(ctx, r.infoRequest(1))
	if err != nil {
		return r.gone(s, fmt.Errorf("Info: %s", said(err)))
	}
	r.info = info
	r.came = atSession
	r.done(s)
	return nil
}

// infoRequest names the versions that a host speaks.
func (r *run) infoRequest(versions ...uint32) *pluginv1.InfoRequest {
	return &pluginv1.InfoRequest{HostVersion: r.opts.Version, ApiVersions: versions}
}
