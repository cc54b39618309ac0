package reload

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/admin"
	"github.com/yett-dev/yett/core/loaded"
	"github.com/yett-dev/yett/core/pin"
	"github.com/yett-dev/yett/core/trust"
)

// What a reload did with a plugin.
const (
	pluginAdded    = "added"
	pluginReloaded = "reloaded"
	pluginKept     = "kept"
	pluginRemoved  = "removed"
)

// pluginsAfter says what became of each plugin between two generations: which bytes run now, and why those of a plugin
// that stayed are not what its file holds, if so.
func pluginsAfter(old, next *loaded.Generation) []admin.PluginChange {
	names := slices.Concat(slices.Collect(maps.Keys(old.Plugins)), slices.Collect(maps.Keys(next.Plugins)))
	slices.Sort(names)
	out := []admin.PluginChange{}
	for _, name := range slices.Compact(names) {
		was, is := old.Plugins[name], next.Plugins[name]
		c := admin.PluginChange{Name: name, What: pluginReloaded}
		if was != nil {
			c.Was = was.Digest()
		}
		if is != nil {
			c.Digest = is.Digest()
		}
		switch {
		case is == nil:
			c.What = pluginRemoved
		case was == nil:
			c.What = pluginAdded
		case was == is:
			c.What, c.Why = pluginKept, "nothing it is made of has changed"
			if note := otherFile(next.Config.Plugins[name]); note != "" {
				c.Why, c.Stale = note, true
			}
		case c.Was != c.Digest:
			c.Why = "its file has changed"
		default:
			c.Why = "its settings have changed"
		}
		out = append(out, c)
	}
	return out
}

// otherFile says that a plugin's file is not any more what its digest says; "" if it is, or there is none. Whatever the
// file holds, it is not run: at the next start it would be refused.
func otherFile(p config.Plugin) string {
	if p.File() == "" || p.Digest == "" {
		return ""
	}
	until := "the server ends"
	if p.Exec != "" {
		until = "its process ends"
	}
	digest, err := pin.File(string(p.File()), trust.MaxProgram)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("%s is gone; what was loaded runs on until %s", p.File(), until)
	case err != nil:
		return fmt.Sprintf("%s cannot be read (%v); what was loaded runs on until %s", p.File(), err, until)
	case digest == p.Digest:
		return ""
	}
	return fmt.Sprintf("%s has changed: it has %s, pinned is %s, which runs on until %s. To run the new file, put its "+
		"digest into the configuration or run yett plugin lock, then reload",
		p.File(), digest, p.Digest, until)
}

// told is a line for the log about a plugin that did not stay as it was, or should not have; "" for the others.
func told(c admin.PluginChange) string {
	switch {
	case c.Stale:
		return fmt.Sprintf("plugin %s was kept: %s", c.Name, c.Why)
	case c.What == pluginReloaded && c.Was != c.Digest:
		return fmt.Sprintf("plugin %s was reloaded: %s, was %s", c.Name, c.Digest, c.Was)
	case c.What == pluginReloaded:
		return fmt.Sprintf("plugin %s was reloaded: %s", c.Name, c.Why)
	case c.What != pluginKept:
		return fmt.Sprintf("plugin %s was %s", c.Name, c.What)
	}
	return ""
}
