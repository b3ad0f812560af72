package main

import (
	"fmt"

	"github.com/fencegate/fencegate/gateway/access"
)

// checkPolicy refuses a policy with a principal that could never come in: one without a secret or S3 key that is no subject of an issuer comes
// with a client certificate, and those are accepted only where --tls-client-ca names authorities.
func checkPolicy(policy *access.Policy, clientCA bool) error {
	for p := range policy.Principals() {
		if p.Secrets() == 0 && len(p.AccessKeys()) == 0 && p.Issuer() == nil && !clientCA {
			return fmt.Errorf("the principal %q has no secret_sha256 and no s3_keys, is of no issuer, and without --tls-client-ca it cannot come with a certificate", p.Principal())
		}
	}
	return nil
}
