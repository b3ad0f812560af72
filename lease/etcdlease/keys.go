package etcdlease

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencegate/fencegate/fence"
)

// keys are the names of what a deployment keeps, below its prefix:
//
//	<prefix>/leases/<name>/held                              who holds the lease, or has it reserved
//	<prefix>/leases/<name>/queue/<place>-<value>-<gateway>   an entry of its queue, in the order of places
//	<prefix>/leases/<name>/entry/<value>                     where the value stands: the last part of the key above
//	<prefix>/gateways/<gateway>                              is there while the gateway is
//	<prefix>/signals/<gateway>/<kind>/<name>                 the last signal of a kind, for some seconds
//
// Names are in base64url, which has no slash.
type keys string

func (k keys) lease(name string) leaseKeys {
	return leaseKeys(string(k) + "/leases/" + encodeName(name))
}

func (k keys) gateway(id string) string { return string(k) + "/gateways/" + id }

func (k keys) signals(gateway string) string { return string(k) + "/signals/" + gateway + "/" }

func (k keys) signal(gateway, kind, name string) string {
	return k.signals(gateway) + kind + "/" + encodeName(name)
}

func encodeName(name string) string { return base64.RawURLEncoding.EncodeToString([]byte(name)) }

func decodeName(text string) (string, error) {
	name, err := base64.RawURLEncoding.DecodeString(text)
	return string(name), err
}

// leaseKeys are the names of what is kept for one lease.
type leaseKeys string

func (k leaseKeys) held() string { return string(k) + "/held" }

func (k leaseKeys) entry(v fence.Digest) string { return string(k) + "/entry/" + v.String() }

func (k leaseKeys) queue() string { return string(k) + "/queue/" }

func (k leaseKeys) stand(s stand) string { return k.queue() + s.String() }

// from is the range of the stands from a place on, before that of the stands before one, behind that of those behind it.
func (k leaseKeys) from(place int64) (string, clientv3.OpOption) {
	return fmt.Sprintf("%s%0*d", k.queue(), placeDigits, place), clientv3.WithRange(clientv3.GetPrefixRangeEnd(k.queue()))
}

func (k leaseKeys) before(s stand) (string, clientv3.OpOption) {
	return k.queue(), clientv3.WithRange(k.stand(s))
}

func (k leaseKeys) behind(s stand) (string, clientv3.OpOption) {
	return k.stand(s) + "\x00", clientv3.WithRange(clientv3.GetPrefixRangeEnd(k.queue()))
}

// stand is where an entry stands in a queue, and whose it is. Two entries that were made in the same moment may share a
// place: then their values decide.
type stand struct {
	place   int64
	value   fence.Digest
	gateway string
}

const (
	placeDigits  = 20
	digestDigits = 2 * len(fence.Digest{})
)

func (s stand) String() string {
	return fmt.Sprintf("%0*d-%s-%s", placeDigits, s.place, s.value, s.gateway)
}

// parseStand reads what String wrote, and reports false for anything else.
func parseStand(text string) (s stand, ok bool) {
	place, rest, _ := strings.Cut(text, "-")
	value, gateway, _ := strings.Cut(rest, "-")
	n, err := strconv.ParseInt(place, 10, 64)
	if err != nil {
		return stand{}, false
	}
	s = stand{place: n, gateway: gateway}
	if s.value, ok = parseDigest(value); !ok || s.String() != text {
		return stand{}, false
	}
	return s, true
}

// standOf reads where an entry stands from its key.
func standOf(kv *mvccpb.KeyValue) (stand, bool) {
	key := string(kv.Key)
	return parseStand(key[strings.LastIndexByte(key, '/')+1:])
}
