// Package archtest holds the tests of the architecture: which package may import which, where HTTP statuses may
// stand, that packages keep no state, and how long a file may be. A rule that turns out wrong is changed here, with
// its reason, in the commit that needs it.
package archtest
