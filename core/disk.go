package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/datadir"
	"github.com/yett-dev/yett/core/httpd"
	"github.com/yett-dev/yett/sdk"
)

// DiskWarnings says what the disk of the data directory does not give, one line each. None of it keeps a server from
// starting.
func DiskWarnings(cfg *config.Config) (out []string) {
	dir := string(cfg.Storage.Path)
	if dir == "" {
		return nil
	}
	name, nameErr := datadir.CopyOnWrite(dir)
	if nameErr == nil && name != "" && cfg.Storage.Ballast > 0 {
		out = append(out, "storage.path: "+unreserved(name))
	}
	total, sizeErr := datadir.DiskSize(dir)
	if err := errors.Join(nameErr, sizeErr); err != nil {
		return append(out, fmt.Sprintf("storage.path: nobody can say how large the disk of %s is: %v", dir, err))
	}
	if least := cfg.Storage.LeastFree(total); total > 0 && least >= total {
		out = append(out, fmt.Sprintf("storage.min_free: the disk of %s has %d bytes in all, and %s are to stay free, so "+
			"every call is denied: lower it, or move the data directory to a larger disk", dir, total, cfg.Storage.MinFree))
	}
	return out
}

// unreserved says what a copy-on-write file system does not do.
func unreserved(name string) string {
	return fmt.Sprintf("it is on %s, a copy-on-write file system, where a file reserves no room: there is no ballast, so "+
		"when that disk is full, kills and revocations may not be recorded, and a start may fail; keep space free there, "+
		"or move the data directory to ext4 or xfs", name)
}

// ballast is how many bytes of files the store keeps for a full disk.
func (g *Gateway) ballast() (int, error) {
	name, err := datadir.CopyOnWrite(g.dir)
	if err != nil {
		return 0, fmt.Errorf("data directory: which file system %s is on: %w", g.dir, err)
	}
	if g.unreserved = name; name != "" {
		return 0, nil
	}
	return int(g.cfg.Storage.Ballast), nil
}

// disk is the row of /readyz: with a disk that is nearly full the server decides nothing, so it is not ready.
func (g *Gateway) disk() httpd.Part {
	room := g.store.Room()
	part := httpd.Part{Name: "disk", OK: room.Low == "", Detail: room.Low}
	if part.OK && g.unreserved != "" && g.cfg.Storage.Ballast > 0 {
		return httpd.Part{Name: "disk", Beside: true, Detail: unreserved(g.unreserved)}
	}
	return part
}

func (g *Gateway) diskGauges() {
	m := g.metrics
	m.Gauge("yett_storage_low", "1 while the disk of the data directory is nearly full (storage.min_free): every call is "+
		"denied.", nil, func() float64 { return one(g.store.Room().Low != "") })
	m.Gauge("yett_storage_min_free_bytes", "Bytes of that disk that have to be free (storage.min_free).", nil,
		func() float64 { return float64(g.store.Room().MinFree) })
	m.Gauge("yett_storage_ballast_bytes", "Bytes of files that are removed when that disk is full, so that kills and "+
		"revocations can be recorded.", nil, func() float64 { return float64(g.store.Room().Ballast) })
}

// noteStart records which configuration is in force. On a full disk the start goes on all the same, since kills must be
// taken; until the record is written, nothing is permitted.
func (g *Gateway) noteStart(ctx context.Context) error {
	note := func(ctx context.Context) error {
		return g.service.Note(ctx, "config_applied", [2]string{"policy_version", g.gen.Load().Policy},
			[2]string{"version", g.opts.Version})
	}
	err := note(ctx)
	if e, ok := errors.AsType[*sdk.Error](err); !ok || e.Code != sdk.CodeAuditUnavailable || g.store.Room().Low == "" {
		return err
	}
	g.warn("the start is not recorded yet: %v", err)
	g.later.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if note(context.WithoutCancel(ctx)) == nil {
					g.opts.Log.Info("the start is recorded now")
					return
				}
			case <-g.closing:
				return
			}
		}
	})
	return nil
}
