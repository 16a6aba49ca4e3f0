//go:build race

package pubsub_test

// manyChannels is smaller under the race detector, which makes a quadratic scan stand out sooner.
const manyChannels = 20_000
