//go:build !unix

package policyfiles

const nonblock = 0
