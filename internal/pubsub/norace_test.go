//go:build !race

package pubsub_test

const manyChannels = 100_000
