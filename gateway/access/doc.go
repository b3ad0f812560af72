// Package access tells who a caller is and what it may do, from one YAML file (docs/access.md). A Policy is the file as
// read, and does not change; an Authenticator names the caller of a request by its policy, which Replace exchanges at
// once. Everything that a rule allows follows from names alone, so it is decided before anything is read from the ledger.
package access
