package redislease

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// connectTimeout bounds the wait for a connection, new or free.
const connectTimeout = 500 * time.Millisecond

// Open makes a client for a redis://, rediss:// or unix:// URL. It does not connect yet. Timeouts and retries that
// the URL names win over ours. The caller closes the client.
func Open(rawURL string, config Config) (redis.UniversalClient, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	o, err := redis.ParseURL(rawURL)
	if err != nil {
		// A url.Error quotes the URL, and its cause a part that may be the password.
		var quoting *url.Error
		if errors.As(err, &quoting) {
			return nil, errors.New("redis url: it cannot be parsed; special characters in a password are percent-encoded")
		}
		return nil, fmt.Errorf("redis url: %w", err)
	}
	o.DialTimeout = cmp.Or(o.DialTimeout, connectTimeout)
	o.PoolTimeout = cmp.Or(o.PoolTimeout, connectTimeout)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, config.CallTimeout)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, config.CallTimeout)
	o.MaxRetries = cmp.Or(o.MaxRetries, 2)
	o.DialerRetries = cmp.Or(o.DialerRetries, 1)
	// Without it a deadline does not reach the socket, and a hung server holds its callers.
	o.ContextTimeoutEnabled = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(o), nil
}
