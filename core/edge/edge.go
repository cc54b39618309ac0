// Package edge holds what every listener asks of strangers before anything else runs: which paths are exact, how many
// connections one address may hold without a key, how many bytes of messages may be in memory, and whose word about a
// client's address counts. It knows no protocol, no key and no operation. It must never let an unknown caller take what
// a known one needs.
package edge
