// Command rawserver serves rawmcp as a program of its own: on stdio, or with -http over HTTP, where it prints its URL
// as its first line. It must do nothing that rawmcp does not, and reads no environment, so that a test that starts it
// and one that has it in its own process see the same server.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/yett-dev/yett/cmd/internal/mcptest/rawmcp"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "rawserver:", err)
		os.Exit(1)
	}
}

func run() error {
	addr := flag.String("http", "", "serve HTTP at this address; without it, stdio")
	modes := flag.String("mode", "", "modes, with commas")
	versions := flag.String("versions", "", "protocol versions, with commas; all without it")
	record := flag.String("record", "", "file to which each thing that comes is appended as a line of JSON")
	var opt rawmcp.Options
	flag.StringVar(&opt.Key, "key", "", "bearer token that requests over HTTP need")
	flag.StringVar(&opt.Secret, "secret", "", "what the secret tools give away")
	flag.BoolVar(&opt.SSE, "sse", false, "answer each request over HTTP with a stream of events")
	flag.Parse()
	opt.Modes, opt.Versions = list(*modes), list(*versions)
	for _, mode := range opt.Modes {
		if rawmcp.Modes[mode] == "" {
			return fmt.Errorf("unknown mode %q", mode)
		}
	}
	if *record != "" {
		f, err := os.OpenFile(*record, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		opt.Record = f // the process's end closes it
	}
	server := rawmcp.New(opt)
	if *addr == "" {
		return server.ServeStdio(context.Background(), os.Stdin, os.Stdout)
	}
	ln, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/mcp\n", ln.Addr())
	return http.Serve(ln, server)
}

func list(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}
