package config

import (
	"github.com/yett-dev/yett/config/strict"
)

// What settings are made of, and what is said of them, belongs to package strict. Others meet these names in Config.
type (
	// Pos is where something was written.
	Pos = strict.Pos
	// Problem is one thing that is wrong.
	Problem = strict.Problem
	// Error is what Load returns: everything that is wrong, sorted by place.
	Error = strict.Error
	// Change is one value that differs between two configurations.
	Change = strict.Change
	// Size is a number of bytes.
	Size = strict.Size
	// Duration is a span of time.
	Duration = strict.Duration
	// Decimal is an exact number above 0.
	Decimal = strict.Decimal
	// Path is the path of a file or directory.
	Path = strict.Path
	// Port is a TCP port, or NoPort.
	Port = strict.Port
	// Values are free settings.
	Values = strict.Values
	// Secret is one value that a plugin is handed in secret.
	Secret = strict.Secret
	// Document is a JSON object as text.
	Document = strict.Document
)

// NoPort stands in a list of ports for no network at all; it is written "none".
const NoPort = strict.NoPort

// SecretName says whether what has that name is a secret.
func SecretName(name string) bool { return strict.SecretName(name) }

// ParseDuration reads a duration as settings are written, such as "1h30m" or "30d".
func ParseDuration(s string) (Duration, error) { return strict.ParseDuration(s) }
