package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

// peer is another program that serves rows over HTTP, on Node.js.
type peer struct {
	name, script string
	dialect      dialect
}

func peers() []peer {
	return []peer{
		{"postgraphile", "postgraphile.mjs", graphql{}},
		{"feathers", "feathers.mjs", plain{"/wallets/"}},
	}
}

// peerCases starts the peers. One that cannot be started is left out, and it is told why.
func (b *bench) peerCases(ctx context.Context) (list []*candidate, err error) {
	for _, p := range peers() {
		name := casePeer + p.name
		if !b.only.MatchString(name) {
			continue
		}
		c, err := b.startPeer(ctx, p)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			b.miss(name, err)
			continue
		}
		b.servers.add(func() error { c.stop(); return nil })
		list = append(list, b.peerCase(p, c))
	}
	return list, nil
}

func (b *bench) peerCase(p peer, c *child) *candidate {
	return &candidate{
		name: casePeer + p.name, clients: clients(), pool: poolSize, on: b.wallets, unfenced: true, peer: true, serving: one(c), open: openHTTP(b.wallets, p.dialect, one(c)),
	}
}

func (b *bench) startPeer(ctx context.Context, p peer) (*child, error) {
	if b.peers == "" {
		return nil, errors.New("-peers names no folder")
	}
	node := b.node()
	if node == "" {
		return nil, errors.New("there is no Node.js")
	}
	env := []string{serviceURL + "=" + b.servers.postgres.URL(""), fmt.Sprint("BENCH_POOL=", poolSize), "NODE_ENV=production", "GRAPHILE_ENV=production"}
	return startChild(ctx, b.servers.dir, casePeer+p.name, node, env, filepath.Join(b.peers, p.script))
}
