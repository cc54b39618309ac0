package signedhttp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// Demo is a service on this machine's loopback address, in the plugin's own process, for trying a plugin out where
// there is no service yet.
type Demo struct {
	URL  string
	srv  *http.Server
	done chan struct{}
}

// StartDemo serves answer to every request whose body is at most 8 MiB.
func StartDemo(answer string) (*Demo, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &Demo{URL: "http://" + l.Addr().String() + "/", done: make(chan struct{})}
	d.srv = &http.Server{ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 64 << 10,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if n, err := io.Copy(io.Discard, io.LimitReader(r.Body, 8<<20+1)); err != nil || n > 8<<20 {
				w.WriteHeader(http.StatusRequestEntityTooLarge)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer) // a client that is gone needs no answer
		})}
	go func() {
		defer close(d.done)
		_ = d.srv.Serve(l) // ends with Close
	}()
	return d, nil
}

// Close ends the service and waits for it.
func (d *Demo) Close(ctx context.Context) error {
	err := d.srv.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, d.srv.Close())
	}
	<-d.done
	return err
}
