package edge

import (
	"context"
	"net"
	"net/http"
)

// Exact is h for exact paths, and refuse for all others, which the standard library would tidy and redirect.
func Exact(h http.Handler, refuse http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, exact := Path(r.RequestURI); !exact {
			refuse(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
}

type guestKey struct{}

// ConnContext is an http.Server's ConnContext that keeps the guest for Visitor.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, guestKey{}, GuestOf(c))
}

// Visitor is the guest that sent a request; nil if it came by no Door.
func Visitor(r *http.Request) *Guest {
	g, _ := r.Context().Value(guestKey{}).(*Guest)
	return g
}

// Served is h where a request needs no key: its connection counts as known while it is answered.
func Served(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g := Visitor(r)
		g.Know(true)
		defer g.Know(false)
		h.ServeHTTP(w, r)
	})
}
