package main

import (
	"context"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// etcdMutex makes one client with n sessions: two mutexes of one session are one. Its calls are counted but for the watch
// by which each waits, which is a message on a stream.
func etcdMutex(url string, n int, done *closers) (candidate, error) {
	calls := new(atomic.Int64)
	count := func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		calls.Add(1)
		return invoke(ctx, method, request, reply, conn, options...)
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{url}, Logger: zap.NewNop(), DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(count)},
	})
	if err != nil {
		return candidate{}, err
	}
	done.add(client.Close)
	c := candidate{
		name: etcd, contends: true, alone: true,
		calls: func(context.Context) (int64, error) { return calls.Load(), nil },
	}
	for range n {
		session, err := concurrency.NewSession(client)
		if err != nil {
			return candidate{}, err
		}
		done.add(func() error { session.Orphan(); return nil })
		c.clients = append(c.clients, func(ctx context.Context, name string) (func(context.Context) error, error) {
			mutex := concurrency.NewMutex(session, name)
			if err := mutex.Lock(ctx); err != nil {
				return nil, err
			}
			return mutex.Unlock, nil
		})
	}
	return c, nil
}
