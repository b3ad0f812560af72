package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/redislease"
)

const oldestRedis = 7

// checkRedis takes a lease of its own and gives it back, then looks at each server that keeps leases.
func checkRedis(ctx context.Context, r *report, url, prefix string) {
	const what = "Redis"
	cfg := redislease.Config{Prefix: prefix}
	client, err := redislease.Open(url, cfg)
	if err != nil {
		r.fail(what, "%v", err)
		return
	}
	defer client.Close()
	locker, err := redislease.New(client, cfg)
	if err != nil {
		r.fail(what, "%v", err)
		return
	}
	if err := tryLease(ctx, locker); err != nil {
		r.fail(what, "a lease cannot be taken and given back: %v", err)
		return
	}
	r.ok(what, "a lease can be taken and given back, below %s", prefix)
	if cluster, ok := client.(*redis.ClusterClient); ok {
		var mu sync.Mutex // one node at a time, so that its lines stay together
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			checkRedisServer(ctx, r, node, what+" "+node.Options().Addr)
			return nil
		})
		if err != nil {
			r.fail(what, "%v", err)
		}
		return
	}
	checkRedisServer(ctx, r, client, what)
}

func tryLease(ctx context.Context, locker lease.Locker) error {
	name := "fencegate doctor " + rand.Text()
	e := lease.Entry{Value: fence.DigestOf(name), Holder: "fencegate doctor", TTL: lease.MinTTL * 50}
	if _, err := locker.Enter(ctx, name, e); err != nil {
		return err
	}
	dropped, err := locker.Drop(ctx, name, e.Value)
	if err == nil && !dropped.Had {
		err = errors.New("it was gone at once: does something else delete keys?")
	}
	return err
}

// checkRedisServer tolerates a server that does not tell, such as the one that fencegate dev keeps in process.
func checkRedisServer(ctx context.Context, r *report, server redis.Cmdable, what string) {
	sent := time.Now()
	if there, err := server.Time(ctx).Result(); err == nil {
		r.tellSkew("clock of "+what, there, sent)
	}
	info := redisInfo(ctx, server)
	if len(info) == 0 {
		r.warn(what+" settings", "it does not tell: no INFO, or no right to it")
		return
	}
	version := info["redis_version"]
	if major, err := strconv.Atoi(strings.SplitN(version, ".", 2)[0]); err != nil || major < oldestRedis {
		r.fail(what+" version", "%s; 7 or newer is needed", version)
	} else {
		r.ok(what+" version", "%s", version)
	}
	if role := info["role"]; role != "master" {
		r.fail(what+" role", "%s: leases are taken on a primary", role)
	} else {
		r.ok(what+" role", "primary with %s replicas", info["connected_slaves"])
	}
	tellEviction(r, what+" eviction", info)
	switch {
	case info["aof_enabled"] == "1":
		r.ok(what+" persistence", "append-only file: leases survive a restart")
	default:
		r.ok(what+" persistence", "no append-only file: a restart may lose leases, which others can take then; tokens stay unique and in order")
	}
}

// tellEviction warns where Redis may throw leases away early. Their tokens stay safe; their holders are surprised.
func tellEviction(r *report, what string, info map[string]string) {
	policy := info["maxmemory_policy"]
	switch {
	case policy == "noeviction":
		r.ok(what, "noeviction")
	case policy == "":
		r.warn(what, "it does not tell its maxmemory_policy: see that it is noeviction, or leases pass on early when memory is short")
	case info["maxmemory"] == "0":
		r.warn(what, "%s, without a memory limit at present: with one, leases would pass on early; set maxmemory-policy noeviction", policy)
	default:
		r.warn(what, "%s: when memory is short leases pass on early; set maxmemory-policy noeviction", policy)
	}
}

// redisInfo reads the sections it can.
func redisInfo(ctx context.Context, server redis.Cmdable) map[string]string {
	info := make(map[string]string)
	for _, section := range []string{"server", "memory", "persistence", "replication"} {
		text, err := server.Info(ctx, section).Result()
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
			if name, value, ok := strings.Cut(lines.Text(), ":"); ok {
				info[name] = value
			}
		}
	}
	return info
}
