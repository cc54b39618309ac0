package admin

import (
	"errors"
	"io"
	"net/http"

	"github.com/yett-dev/yett/sdk"
)

// written remembers whether anything of an answer has gone.
type written struct {
	http.ResponseWriter
	some bool
}

func (w *written) Write(b []byte) (int, error) {
	w.some = true
	return w.ResponseWriter.Write(b)
}

// backup answers GET /backup with a tar archive. The manifest is its last file: an answer that was cut is no backup.
func (s *Server) backup(w http.ResponseWriter, r *http.Request) {
	to := &written{ResponseWriter: w}
	w.Header().Set("Cache-Control", "no-store")
	out, end := TarOut(to)
	m, err := s.set.Backup(s.set.Signer, func(name string, bytes int64, data io.Reader) error {
		return errors.Join(r.Context().Err(), out(name, bytes, data)) // whoever asked may have hung up
	})
	if err == nil {
		err = end()
	}
	switch {
	case err == nil:
		s.set.Log("admin: a backup was made for %s: records up to %d", who(r).Principal, m.Seq)
	case !to.some:
		answer(w, nil, sdk.Errf(sdk.CodeConflict, "%v", err))
	default:
		s.set.Log("admin: %v", err)
		panic(http.ErrAbortHandler) // the client must not take a cut backup for a whole one
	}
}
