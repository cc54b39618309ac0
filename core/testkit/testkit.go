// Package testkit is what the tests of several packages share: where their files lie. Only tests import it, and nothing
// of it is in the binary. It must never decide what a test expects.
package testkit
