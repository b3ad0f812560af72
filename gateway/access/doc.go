// Package access tells who a caller is and what it may do, from one YAML file (docs/access.md). A Policy is the file as
// read, and does not change; an Authenticator names the caller of a request by its policy, which Replace exchanges at
// once. Everything that a rule allows follows from names alone, so it is decided before anything is read from the ledger.
//
// A caller comes with a secret, with a client certificate, or with a JWT of one of the policy's issuers. A JWT is trusted for
// what its issuer has signed: a jwtChecker holds the signature against the keys that a keySource has now, and a result is good only
// while these keys stay. What cannot be checked at present is unavailable, neither let in nor refused.
package access
