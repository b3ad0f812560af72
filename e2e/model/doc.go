// Package model holds a Promela model of the protocol, and checks it with spin: see README.md.
package model
