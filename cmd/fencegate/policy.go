package main

import (
	"fmt"

	"github.com/fencegate/fencegate/gateway/access"
)

// checkPolicy refuses a policy with a principal that could never come in: one without a secret comes with a client
// certificate, and those are accepted only where --tls-client-ca names authorities.
func checkPolicy(policy *access.Policy, clientCA bool) error {
	for p := range policy.Principals() {
		if p.Secrets() == 0 && !clientCA {
			return fmt.Errorf("the principal %q has no secret_sha256, and without --tls-client-ca it cannot come with a certificate", p.Principal())
		}
	}
	return nil
}
