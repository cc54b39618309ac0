package config

import (
	"github.com/yett-dev/yett/config/strict"
)

// Storage is where keys, defers, grants and the audit log live.
type Storage struct {
	Path   Path   `koanf:"path" example:"/var/lib/yett" restart:"true" doc:"Directory of the database; made if it does not exist. Required to serve."`
	Engine string `koanf:"engine" default:"pebble" enum:"pebble" later:"etcd" restart:"true" doc:"What keeps the data. etcd is reserved until it exists."`
}

func (s *Storage) validate(r *strict.Report, serve bool) {
	if serve && s.Path == "" {
		r.Errorf("storage.path", "is required to serve: the directory that holds keys, approvals and the audit log; set "+
			"it, or give --data DIR")
	}
}
