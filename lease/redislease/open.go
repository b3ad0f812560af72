package redislease

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

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
	setIfZero(&o.DialTimeout, 500*time.Millisecond)
	setIfZero(&o.PoolTimeout, 500*time.Millisecond)
	setIfZero(&o.ReadTimeout, config.CallTimeout)
	setIfZero(&o.WriteTimeout, config.CallTimeout)
	setIfZero(&o.MaxRetries, 2)
	setIfZero(&o.DialerRetries, 1)
	// Without it a deadline does not reach the socket, and a hung server holds its callers.
	o.ContextTimeoutEnabled = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(o), nil
}

func setIfZero[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
