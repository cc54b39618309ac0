// Package live holds the tests that run real, unmodified coding agents under Yett's hooks, with a real gateway and a
// scripted model, in the private place of package rig. They look at what happened and at what the model was sent, never
// at what an agent says of itself. It has no code of its own, and must never start an agent outside of that place.
package live
