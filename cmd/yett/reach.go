package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/core/admin"
	"github.com/yett-dev/yett/sdk/client"
)

// whereHelp says how commands that use an API key find the server.
const whereHelp = `
The server is found by --url or --socket, by --data DIR or --config FILE of a server on this machine, or by YETT_URL and
YETT_SOCKET. Who asks is the API key in YETT_API_KEY.

Exit codes: 0 done, 1 error, 2 usage, 4 not authenticated.`

// reach is how a command that speaks with an API key finds the running server.
type reach struct {
	target
	url, socket string
	cleartext   bool
}

func (r *reach) bind(cmd *cobra.Command) {
	r.target.bind(cmd)
	cmd.Flags().StringVar(&r.url, "url", "", "URL of the HTTP API, such as http://127.0.0.1:8420 (default YETT_URL)")
	cmd.Flags().StringVar(&r.socket, "socket", "", "path of the server's socket (default YETT_SOCKET)")
	cmd.Flags().BoolVar(&r.cleartext, "cleartext", false, "let the key travel over http to another host")
}

// options works out where the server is. Flags count before the environment, and both are never mixed.
func (r *reach) options(ctx context.Context) (client.Options, error) {
	opts := client.Options{URL: r.url, Socket: r.socket, Retries: 2, AllowCleartext: r.cleartext}
	local := r.data != "" || r.config != ""
	switch {
	case local && (r.url != "" || r.socket != ""):
		return opts, usage("give --url and --socket, or --data or --config, not both")
	case local:
		err := r.with(func(c *admin.Client) error {
			var status struct{ URL, Socket string }
			err := c.Do(ctx, "GET", "/status", nil, &status)
			opts.URL, opts.Socket = status.URL, status.Socket
			return err
		})
		return opts, err
	case r.url == "" && r.socket == "":
		opts.URL, opts.Socket = os.Getenv("YETT_URL"), os.Getenv("YETT_SOCKET")
		if opts.URL == "" && opts.Socket == "" {
			return opts, usage("where is the server? give --url URL, --socket PATH or --data DIR, or set YETT_URL or YETT_SOCKET")
		}
	}
	return opts, nil
}

// use runs fn with a client of the server. what says whose key is needed.
func (r *reach) use(ctx context.Context, what string, fn func(c *client.Client) error) error {
	opts, err := r.options(ctx)
	if err != nil {
		return err
	}
	return dial(opts, what, fn)
}

func dial(opts client.Options, what string, fn func(c *client.Client) error) error {
	if os.Getenv("YETT_API_KEY") == "" && opts.URL != "" { // over the socket alone this user may be mapped to a key
		return &exitCode{exitUnauthenticated, fmt.Errorf("YETT_API_KEY is not set: this needs %s", what)}
	}
	c, err := client.New(opts)
	if err != nil {
		return usage("%w", err)
	}
	defer c.Close()
	return told(fn(c))
}

// shown is an error whose text may hold the server's, or somebody's, words.
type shown struct{ error }

func (e shown) Error() string { return visible(e.error.Error()) }
func (e shown) Unwrap() error { return e.error }

// told gives an error of the client its exit code.
func told(err error) error {
	var coded *exitCode
	if err == nil || errors.As(err, &coded) {
		return err
	}
	err = shown{err}
	switch {
	case errors.Is(err, client.ErrUnauthenticated):
		return &exitCode{exitUnauthenticated, err}
	case errors.Is(err, client.ErrNoTransport):
		return usage("%w (--url, --socket)", err)
	}
	return err
}
