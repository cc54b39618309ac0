package config

import (
	"github.com/yett-dev/yett/config/strict"
)

// Archive is a program that is given records before retention removes them. The zero Archive is none.
type Archive struct {
	Exec    Path        `koanf:"exec" empty:"ok" example:"/usr/local/bin/yett-archive" doc:"Program that is given each sealed file of the log before retention removes it, as an export on stdin that yett audit verify checks alone. YETT_ARCHIVE_NAME in its environment is a file name for it. Exit status 0 says that it was taken; with any other nothing is removed, and it is run again a minute later. After a restart it may be given the same records again, with the same name."`
	Args    []string    `koanf:"args" empty:"ok" example:"[\"s3://logs/yett\"]" doc:"Arguments of the program."`
	Digest  string      `koanf:"digest" format:"digest" empty:"ok" example:"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" doc:"SHA-256 of the program's file, as sha256sum prints it. Required with exec. A file that differs is never run."`
	Timeout Duration    `koanf:"timeout" default:"10m" min:"1s" max:"24h" doc:"How long the program may take for one file of the log. Then it is killed."`
	Env     Values      `koanf:"env" doc:"The whole environment of the program, names and texts. Nothing of the server's own is handed on. No place for secrets."`
	User    PluginUser  `koanf:"user" doc:"User that the program runs as; the server's own if not given."`
	Paths   PluginPaths `koanf:"paths" doc:"Files and directories that the program may use beside those of the system and its own working directory."`
	Network []Port      `koanf:"network" one:"ok" most:"256" example:"[443]" doc:"none, or the TCP ports that the program may connect to. Not restricted if not given."`
}

// Process is the program as a plugin process is described. It may start others: it may be a script.
func (a *Archive) Process() *Plugin {
	return &Plugin{Exec: a.Exec, Digest: a.Digest, Env: a.Env, User: a.User, Paths: a.Paths, Network: a.Network,
		Confine: ConfineBest}
}

func (a *Archive) validate(r *strict.Report, kept Retention) {
	const key = "audit.archive"
	if a.Exec == "" {
		for _, name := range []string{"args", "digest", "env", "user.uid", "user.gid", "paths.read", "paths.write",
			"network"} {
			if at := strict.Join(key, name); r.Origins.Written(at) {
				r.Errorf(at, "has no effect without audit.archive.exec: name the program")
			}
		}
		return
	}
	p := a.Process()
	switch {
	case missing(string(a.Exec)):
		r.Errorf(strict.Join(key, "exec"), "there is no file %s: copy it there, or correct the path, which counts from the "+
			"folder of this configuration", a.Exec)
	case a.Digest == "":
		r.Errorf(strict.Join(key, "digest"), "is required with exec: \"sha256:\" and 64 hex digits, as sha256sum prints them")
	}
	if !kept.Enabled() {
		r.Errorf(strict.Join(key, "exec"), "has no effect without audit.retention: records are archived before retention "+
			"removes them; set audit.retention.max_age or max_bytes, or use yett audit archive")
	}
	if a.User.GID == 0 {
		a.User.GID = a.User.UID
	}
	if a.User.UID == 0 && a.User.GID != 0 {
		r.Errorf(strict.Join(key, "user.gid"), "needs user.uid")
	}
	p.checkEnv(r, strict.Join(key, "env"))
	p.checkConfine(r, key)
}
