//go:build !unix

package main

const nonblock = 0
