package edge

import "net/http"

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
