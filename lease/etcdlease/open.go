package etcdlease

import (
	"context"
	"crypto/tls"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

const (
	// connectTimeout bounds the wait for a connection, and for a password to be accepted.
	connectTimeout = 500 * time.Millisecond
	// reconnectInterval is how long a client that is cut off waits at most until it tries again.
	reconnectInterval = time.Second
	// keepAliveTime and keepAliveTimeout are when a connection that is silent is given up. gRPC asks no earlier.
	keepAliveTime, keepAliveTimeout = 10 * time.Second, 3 * time.Second
)

// Open makes a Locker with a client of its own, which the caller closes. It does not connect yet. The URL is one of
//
//	etcd://[user:password@]host[:2379][,host[:2379]…]
//	etcds://[user:password@]host[:2379][,host[:2379]…][?ca=/path/ca.pem][&cert=/path/client.pem&key=/path/client.key]
//
// where further hosts are other members of the same cluster, and etcds uses TLS: with the certificate authorities of the
// file that ca names, else of the system, and with a client certificate if one is named. http and https, as etcd's own tools
// write them, mean the same, also before each host: https://a:2379,https://b:2379.
//
// With a password, the role needs to read and write below the prefix of Config:
// etcdctl role grant-permission ROLE --prefix=true readwrite PREFIX/.
//
// An error says what is wrong with the URL and never quotes a password.
func Open(rawURL string, config Config) (*Locker, error) {
	u, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	tlsConfig, err := u.tlsConfig()
	if err != nil {
		return nil, err
	}
	c := &connector{gate: newGate(), config: u.clientConfig(tlsConfig)}
	l, err := newLocker(c, config)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (u etcdURL) clientConfig(t *tls.Config) clientv3.Config {
	return clientv3.Config{
		Endpoints: u.endpoints, Username: u.user, Password: u.password, TLS: t,
		DialTimeout: connectTimeout, DialKeepAliveTime: keepAliveTime, DialKeepAliveTimeout: keepAliveTimeout,
		// What fails is told by the calls.
		Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: reconnectInterval},
			MinConnectTimeout: connectTimeout,
		})},
	}
}

// connector makes a client when it is needed. The client asks for its password to be accepted while it is made, which fails
// while etcd is down; a gateway starts then all the same.
type connector struct {
	config clientv3.Config
	gate   gate

	mu     sync.Mutex
	client *clientv3.Client // guarded by mu
	closed bool             // guarded by mu
}

func (c *connector) get(ctx context.Context) (*clientv3.Client, error) {
	if client, err := c.made(); client != nil || err != nil {
		return client, err
	}
	if err := c.gate.enter(ctx); err != nil {
		return nil, err
	}
	defer c.gate.leave()
	if client, err := c.made(); client != nil || err != nil {
		return client, err
	}
	client, err := clientv3.New(c.config)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		client.Close()
		return nil, errIsClosed
	}
	c.client = client
	return client, nil
}

func (c *connector) made() (*clientv3.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errIsClosed
	}
	return c.client, nil
}

// close closes the client if it was made here.
func (c *connector) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	if c.client == nil || len(c.config.Endpoints) == 0 {
		return nil
	}
	return c.client.Close()
}
