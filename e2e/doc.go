// Package e2e tests the built binary against real servers: paused and killed workers, killed gateways, outages, and the
// commands that the documentation shows.
package e2e
