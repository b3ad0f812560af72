package redislease

import (
	"cmp"
	"errors"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

var errReplicas = errors.New("redis url: an option reads from replicas, which may not have heard of a lease yet")

const (
	// connectTimeout bounds the wait for a connection, new or free.
	connectTimeout = 500 * time.Millisecond
	// topologyInterval is how old the client's map of a cluster may become. A node that refuses connections does not
	// make the client look for its successor, so this bounds how long a fail-over goes unnoticed.
	topologyInterval = time.Second
	// sentinelPort is Sentinel's own default; go-redis assumes 6379.
	sentinelPort = "26379"
)

// Open makes a client for a Redis URL. It does not connect yet; the caller closes the client. The URL is one of
//
//	redis://[user:password@]host[:6379][/db][?option=value&…]
//	unix://[user:password@]/path/to/redis.sock[?db=n&option=value&…]
//	redis+sentinel://[user:password@]host[:26379][/db]?master_name=name[&addr=host:port…][&username=user&password=password][&option=value…]
//	redis+cluster://[user:password@]host[:6379][?addr=host:port…][&option=value…]
//
// With rediss in place of redis the connections, those to Sentinels too, use TLS. Of a Sentinel URL, user and password
// before the host are those of the Sentinels, username and password behind it those of the Redis they watch. addr
// names a further Sentinel or cluster node and may be repeated. The options are those of go-redis (dial_timeout,
// read_timeout, pool_size, …); what the URL says of timeouts and retries wins over ours. Options that read from
// replicas are refused: a replica may not have heard of a lease yet.
//
// An error says what is wrong with the URL and never quotes a password.
func Open(rawURL string, config Config) (redis.UniversalClient, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	u, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	switch u.kind {
	case sentinel:
		return config.openSentinel(u.URL)
	case cluster:
		return config.openCluster(u.URL)
	default:
		return config.openSingle(u.URL)
	}
}

func (c Config) openSingle(u *url.URL) (redis.UniversalClient, error) {
	o, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, explain(u, err)
	}
	c.tune(tunables{&o.DialTimeout, &o.PoolTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.DialerRetries, &o.ContextTimeoutEnabled, &o.DisableIdentity})
	o.MaxRetries = cmp.Or(o.MaxRetries, 2)
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(o), nil
}

func (c Config) openSentinel(u *url.URL) (redis.UniversalClient, error) {
	if u.Port() == "" {
		u.Host += ":" + sentinelPort
	}
	o, err := redis.ParseFailoverURL(u.String())
	if err != nil {
		return nil, explain(u, err)
	}
	if o.ReplicaOnly || o.RouteByLatency || o.RouteRandomly {
		return nil, errReplicas
	}
	if o.MasterName == "" {
		return nil, errors.New("redis url: a Sentinel URL needs master_name, the name under which the Sentinels know the primary")
	}
	c.tune(tunables{&o.DialTimeout, &o.PoolTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.DialerRetries, &o.ContextTimeoutEnabled, &o.DisableIdentity})
	o.MaxRetries = cmp.Or(o.MaxRetries, 2)
	return redis.NewFailoverClient(o), nil
}

func (c Config) openCluster(u *url.URL) (redis.UniversalClient, error) {
	o, err := redis.ParseClusterURL(u.String())
	if err != nil {
		return nil, explain(u, err)
	}
	if o.ReadOnly || o.RouteByLatency || o.RouteRandomly {
		return nil, errReplicas
	}
	c.tune(tunables{&o.DialTimeout, &o.PoolTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.DialerRetries, &o.ContextTimeoutEnabled, &o.DisableIdentity})
	// MaxRetries stays off: a cluster client retries by itself, on the node that has the key by then.
	o.ClusterStateReloadInterval = topologyInterval
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClusterClient(o), nil
}

// tunables are the options that every kind of client has.
type tunables struct {
	dial, pool, read, write *time.Duration
	dialerRetries           *int
	contextTimeout          *bool
	noIdentity              *bool
}

func (c Config) tune(t tunables) {
	*t.dial = cmp.Or(*t.dial, connectTimeout)
	*t.pool = cmp.Or(*t.pool, connectTimeout)
	*t.read = cmp.Or(*t.read, c.CallTimeout)
	*t.write = cmp.Or(*t.write, c.CallTimeout)
	*t.dialerRetries = cmp.Or(*t.dialerRetries, 1)
	// Without it a deadline does not reach the socket, and a hung server holds its callers.
	*t.contextTimeout = true
	// Before 7.2 Redis answers it with an error, which would stand in the traces of each new connection.
	*t.noIdentity = true
}
