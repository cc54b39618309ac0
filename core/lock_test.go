package core

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/datadir"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/scanners"
)

// lockConfig is a gateway on a data directory that does not exist yet.
func lockConfig(t *testing.T) *config.Config {
	t.Helper()
	cfg, err := config.Load(config.Sources{Builtins: scanners.Names(), Serve: true,
		Default: []byte("version: 1\nserver: {metrics: off}\nconsole: {enabled: false}\nsocket: {enabled: false}\n"),
		Flags:   map[string]any{"storage.path": filepath.Join(t.TempDir(), "data"), "server.listen": "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// Of several first starts on one directory one makes the secrets. The others write nothing, and are told who was first.
func TestFirstStartsRace(t *testing.T) {
	cfg, ctx := lockConfig(t), context.Background()
	var mu sync.Mutex
	var up []*Gateway
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for range 8 {
		wg.Go(func() {
			<-begin
			g, err := New(ctx, cfg, Options{Version: "test", CacheDir: compiled, Log: logTo(t.Logf)})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				up = append(up, g)
			} else if used, ok := errors.AsType[*datadir.InUseError](err); !ok || used.PID != os.Getpid() && used.PID != 0 {
				t.Errorf("a start that lost was told: %v", err)
			}
		})
	}
	close(begin)
	wg.Wait()
	if len(up) != 1 {
		t.Fatalf("%d gateways on one directory", len(up))
	}
	by := store.Who{Principal: "test", Method: "system", Surface: "system"}
	made, err := up[0].Service().CreateKey(ctx, ops.KeySpec{Name: "first", Preset: "agent"}, by)
	if err != nil {
		t.Fatal(err)
	}
	secrets := secretsOf(t, cfg)
	if err := up[0].Close(ctx); err != nil {
		t.Fatal(err)
	}
	g, err := New(ctx, cfg, Options{Version: "test", CacheDir: compiled, Log: logTo(t.Logf)})
	if err != nil {
		t.Fatal(err)
	}
	if k, err := g.Service().Authenticate("Bearer " + made.Value); err != nil || k.Name != "first" {
		t.Errorf("the key that the first start made: %v", err)
	}
	if !bytes.Equal(secrets, secretsOf(t, cfg)) {
		t.Error("the secrets on disk have changed")
	}
	if err := g.Close(ctx); err != nil {
		t.Error(err)
	}
}

func secretsOf(t *testing.T, cfg *config.Config) (all []byte) {
	t.Helper()
	for _, name := range []string{"pepper", "audit.key"} {
		b, err := os.ReadFile(filepath.Join(string(cfg.Storage.Path), name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	return all
}

// Where another process holds the directory, a start leaves nothing in it.
func TestHeldDirectoryIsLeftAlone(t *testing.T) {
	cfg := lockConfig(t)
	dir := string(cfg.Storage.Path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	held, err := datadir.Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(context.Background(), cfg, Options{Version: "test", CacheDir: compiled,
		Log: logTo(t.Logf)}); err == nil {
		t.Fatal("two hold one directory")
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 1 || names[0].Name() != datadir.Name {
		t.Errorf("it holds %v: %v", names, err)
	}
	if err := held.Release(); err != nil {
		t.Error(err)
	}
}
