package localservers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	// clusterSlots is Redis's own number.
	clusterSlots = 16384
	// clusterNodeTimeout is, in milliseconds, how long a node must be silent before the others give it up.
	clusterNodeTimeout = "1000"
)

// RedisClusterConfig says how large a cluster is.
type RedisClusterConfig struct {
	// Dir is the folder of all nodes. It is made if absent, and empty. Required.
	Dir string
	// Primaries are the nodes that share the keys. Defaults to 3.
	Primaries int
	// Replicas are nodes that copy the first primary. Defaults to 0.
	Replicas int
	// Log hears what is started and where. Defaults to nothing.
	Log *slog.Logger
}

// RedisCluster is a running Redis Cluster on loopback ports.
type RedisCluster struct {
	// Primaries are in the order of their slots.
	Primaries []*Redis
	Replicas  []*Redis
}

// StartRedisCluster starts the nodes, joins them, and returns when all agree that every slot is served. The context
// bounds the start only.
func StartRedisCluster(ctx context.Context, c RedisClusterConfig) (*RedisCluster, error) {
	cluster := &RedisCluster{}
	if err := cluster.start(ctx, c); err != nil {
		return nil, errors.Join(err, cluster.Stop())
	}
	return cluster, nil
}

func (r *RedisCluster) start(ctx context.Context, c RedisClusterConfig) error {
	primaries := cmp.Or(c.Primaries, 3)
	for i := range primaries + c.Replicas {
		node, err := StartRedis(ctx, RedisConfig{Dir: filepath.Join(c.Dir, fmt.Sprint("node", i)), TCP: true, Log: c.Log, clusterNode: true})
		if err != nil {
			return err
		}
		if i < primaries {
			r.Primaries = append(r.Primaries, node)
		} else {
			r.Replicas = append(r.Replicas, node)
		}
	}
	for i, node := range r.Primaries {
		first, last := i*clusterSlots/primaries, (i+1)*clusterSlots/primaries-1
		if _, err := node.do(ctx, "CLUSTER", "ADDSLOTSRANGE", first, last); err != nil {
			return err
		}
	}
	for i, node := range r.nodes() {
		// Two nodes that begin with one epoch settle it between them, which takes a while.
		if _, err := node.do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1); err != nil {
			return err
		}
		if _, err := r.Primaries[0].do(ctx, "CLUSTER", "MEET", loopback, node.ports.client, node.ports.bus); err != nil {
			return err
		}
	}
	if err := r.wait(ctx, "cluster_state:ok", "cluster_slots_ok:"+strconv.Itoa(clusterSlots), "cluster_known_nodes:"+strconv.Itoa(len(r.nodes()))); err != nil {
		return err
	}
	return r.replicate(ctx)
}

func (r *RedisCluster) replicate(ctx context.Context) error {
	id, err := r.Primaries[0].do(ctx, "CLUSTER", "MYID")
	if err != nil {
		return err
	}
	for _, node := range r.Replicas {
		if _, err := node.do(ctx, "CLUSTER", "REPLICATE", id); err != nil {
			return err
		}
		if err := node.waitReady(ctx, node.copies(ctx)); err != nil {
			return err
		}
	}
	return nil
}

func (r *RedisCluster) wait(ctx context.Context, want ...string) error {
	for _, node := range r.nodes() {
		err := node.waitReady(ctx, func() bool {
			info, err := node.do(ctx, "CLUSTER", "INFO")
			for _, line := range want {
				if !strings.Contains(info, line+"\r\n") {
					return false
				}
			}
			return err == nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *RedisCluster) nodes() []*Redis {
	return append(r.Primaries[:len(r.Primaries):len(r.Primaries)], r.Replicas...)
}

// URL returns the cluster's address as redislease reads it.
func (r *RedisCluster) URL() string {
	var url strings.Builder
	for i, node := range r.nodes() {
		url.WriteString([]string{"redis+cluster://", "?addr=", "&addr="}[min(i, 2)])
		url.WriteString(net.JoinHostPort(loopback, node.ports.client))
	}
	return url.String()
}

// Stop ends every node in order and waits for it.
func (r *RedisCluster) Stop() error {
	var errs []error
	for _, node := range r.nodes() {
		errs = append(errs, node.Stop())
	}
	return errors.Join(errs...)
}
