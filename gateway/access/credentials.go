package access

import (
	"encoding/base64"
	"net"
	"net/netip"
	"strings"

	"github.com/fencegate/fencegate/fence"
)

// maxBearer is the longest secret in bytes.
const maxBearer = 512

// bearer returns the secret or JWT of the one Authorization line. Which of two lines counts is something on which a proxy and
// the gateway could differ.
func bearer(lines []string) (string, error) {
	if len(lines) == 1 {
		scheme, presented, _ := strings.Cut(lines[0], " ")
		presented = strings.Trim(presented, " ")
		if strings.EqualFold(scheme, "Bearer") && presented != "" && len(presented) <= maxJWT {
			return presented, nil
		}
	}
	return "", malformed()
}

func malformed() error {
	return fence.Errorf(fence.CodeUnauthenticated,
		"send the secret in one header line, Authorization: Bearer <secret>, with at most %d bytes (a JWT of an issuer: %d)", maxBearer, maxJWT).In("Authorization")
}

// GeneratedPrefix begins a generated secret, of 32 random bytes in base64url.
const GeneratedPrefix = "fg_"

// isGenerated tells whether a secret has the form of one that fencegate auth new makes.
func isGenerated(secret string) bool {
	encoded, found := strings.CutPrefix(secret, GeneratedPrefix)
	random, err := base64.RawURLEncoding.DecodeString(encoded)
	return found && err == nil && len(random) == 32
}

// address is who is counted as one client: an IPv4 address, or the /64 of an IPv6 address, within which everybody may
// choose addresses freely. What has no address (a Unix socket) counts as one client.
type address = netip.Prefix

func addressOf(remote string) address {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return address{}
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return address{}
	}
	ip = ip.Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	prefix, err := ip.Prefix(bits)
	if err != nil {
		return address{}
	}
	return prefix
}
