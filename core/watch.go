package core

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/yett-dev/yett/core/store"
)

// How often the files of the configuration are looked at, and the most that is read of one, bytes.
const (
	watchEvery = 2 * time.Second
	watchMost  = 32 << 20
	reloadMost = 10 * time.Minute // plugins may take their time to start
)

// watch reloads when the content of a file changes that the configuration was read from. It polls: a watcher of the system
// loses files that are replaced, and misses network file systems.
func (g *Gateway) watch() {
	if g.opts.Load == nil {
		return
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	seen := g.look("", "")
	for {
		select {
		case <-g.closing:
			return
		case <-tick.C:
		}
		now := g.look(seen.stats, seen.sum)
		if now.sum == seen.sum {
			seen = now
			continue
		}
		// Written halfway is no reason for an error: it must have held still for one round.
		select {
		case <-g.closing:
			return
		case <-tick.C:
		}
		if again := g.look("", ""); again.sum != now.sum {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), reloadMost)
		g.background.Go(func() {
			select {
			case <-g.closing:
				cancel()
			case <-ctx.Done():
			}
		})
		_, _ = g.Reload(ctx, store.Who{Principal: "system:file_change", Method: "system", Surface: "system"}) // says everywhere how it went
		cancel()
		seen = g.look("", "") // the new one may be read from other files
	}
}

// look is what the files are now. Unless a file's dates or size changed, its content is not read.
func (g *Gateway) look(stats, sum string) (out struct{ stats, sum string }) {
	files := g.gen.Load().cfg.Files()
	if main := g.opts.ConfigFile; main != "" {
		drops, _ := filepath.Glob(filepath.Join(filepath.Dir(main), "conf.d", "*"))
		files = append(files, drops...)
		files = append(files, filepath.Join(filepath.Dir(main), "plugins.lock"))
	}
	slices.Sort(files)
	files = slices.Compact(files)
	var b strings.Builder
	for _, f := range files {
		if st, err := os.Stat(f); err != nil {
			fmt.Fprintf(&b, "%s: gone\n", f)
		} else {
			fmt.Fprintf(&b, "%s: %d %d\n", f, st.Size(), st.ModTime().UnixNano())
		}
	}
	if out.stats = b.String(); out.stats == stats {
		out.sum = sum
		return out
	}
	hash := sha256.New()
	for _, name := range files {
		fmt.Fprintf(hash, "\x00%s\x00", name)
		if f, err := os.Open(name); err == nil {
			if st, err := f.Stat(); err == nil && st.Mode().IsRegular() {
				_, _ = io.Copy(hash, io.LimitReader(f, watchMost)) // what cannot be read now changes the hash; the reload says why
			}
			f.Close()
		}
	}
	out.sum = hex.EncodeToString(hash.Sum(nil))
	return out
}
