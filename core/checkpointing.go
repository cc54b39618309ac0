package core

import (
	"crypto/x509"
	"fmt"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/checkpoints"
	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/obs"
)

// openCheckpoints holds the log against what has left the data directory.
func (g *Gateway) openCheckpoints() error {
	set, err := checkpointing(g.cfg)
	if err != nil {
		return err
	}
	set.Log, set.Signer, set.Origin = g.store, g.signer, log.Origin(g.store.ID())
	set.Now, set.Report, set.Alarm = time.Now, g.warn, g.alarm
	if g.checkpoints, err = checkpoints.New(set); err != nil {
		return err
	}
	return g.checkpoints.Check()
}

// checkpoint signs a checkpoint for a subscriber; "" for records of a store before a restore, whose key is not there,
// and for what log/head does not know of yet.
func (g *Gateway) checkpoint(store string, size uint64, root [32]byte) string {
	if store != g.store.ID() || g.store.InHead() < size {
		return ""
	}
	text, err := g.signer.Checkpoint(size, root)
	if err != nil {
		g.warn("sign a checkpoint for a subscriber: %v", err)
	}
	return text
}

// checkpointing is where checkpoints go, with the files that the configuration names.
func checkpointing(cfg *config.Config) (set checkpoints.Settings, err error) {
	c := &cfg.Audit.Checkpoints
	set.Every = c.Every.Std()
	for _, path := range c.Files {
		set.Files = append(set.Files, string(path))
	}
	for i, w := range c.Webhooks {
		roots, err := checkpointRoots(cfg, fmt.Sprintf("audit.checkpoints.webhooks[%d].ca", i), w.CA)
		if err != nil {
			return set, err
		}
		set.Webhooks = append(set.Webhooks, checkpoints.Webhook{Name: w.Name, URL: w.URL, Key: w.Key(), Roots: roots})
	}
	for i, w := range c.Witnesses {
		roots, err := checkpointRoots(cfg, fmt.Sprintf("audit.checkpoints.witnesses[%d].ca", i), w.CA)
		if err != nil {
			return set, err
		}
		set.Witnesses = append(set.Witnesses, checkpoints.Witness{URL: w.URL, Key: w.Key(), Roots: roots})
	}
	return set, nil
}

// checkpointRoots is how a receiver is trusted; nil where the machine's authorities do.
func checkpointRoots(cfg *config.Config, key string, ca config.Path) (*x509.CertPool, error) {
	if ca == "" {
		return nil, nil
	}
	return authorities(cfg, key, ca)
}

// checkpointGauges shows how it stands with each place that gets checkpoints.
func (g *Gateway) checkpointGauges() {
	g.metrics.Table([]string{"destination", "kind"}, []obs.Column{
		gauge("yett_checkpoint_destination_age_seconds", "For how long a destination of checkpoints (a file, a webhook or a "+
			"witness) has lacked the newest one; 0 when it has it."),
		gauge("yett_checkpoint_destination_records", "Records that the newest checkpoint covers which a destination took "+
			"since the start."),
		gauge("yett_checkpoint_destination_failing", "1 when a destination of checkpoints did not take one, or could not be "+
			"asked, when it was tried last."),
		gauge("yett_checkpoint_destination_differs", "1 when a destination of checkpoints knows another log, or more "+
			"records than the log has: somebody has put the data directory back to an earlier time, or another one in its "+
			"place."),
	}, func(emit func([]string, ...float64)) {
		for _, s := range g.checkpoints.Status() {
			emit([]string{s.Name, s.Kind}, s.Behind.Seconds(), float64(s.Size), one(s.Err != nil),
				one(checkpoints.Differs(s.Err)))
		}
	})
}
