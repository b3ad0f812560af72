package redislease_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/fencegate/fencegate/lease/redislease"
)

func TestOpen(t *testing.T) {
	for _, url := range []string{"redis://localhost", "rediss://u:p@localhost:6380/3", "unix:///run/redis.sock"} {
		client, err := redislease.Open(url, redislease.Config{})
		if err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		o := client.(*redis.Client).Options()
		if !o.ContextTimeoutEnabled || o.DialTimeout != 500*time.Millisecond || o.PoolTimeout != 500*time.Millisecond || o.MaxRetries != 2 ||
			o.MaintNotificationsConfig.Mode != maintnotifications.ModeDisabled {
			t.Errorf("%s: options %+v", url, o)
		}
		client.Close()
	}
	client, err := redislease.Open("redis://localhost?dial_timeout=2s", redislease.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if o := client.(*redis.Client).Options(); o.DialTimeout != 2*time.Second {
		t.Errorf("the URL asked for a dial timeout of 2s, got %v", o.DialTimeout)
	}
}

func TestOpenRefusesWithoutTellingThePassword(t *testing.T) {
	for _, url := range []string{"redis://u:secret@host:port", "redis://:secret/x@host", "http://u:secret@host", "secret", "redis://u:secret@host?nonsense=1", "redis://u:secret%zz@host"} {
		_, err := redislease.Open(url, redislease.Config{})
		if err == nil {
			t.Errorf("%s was accepted", url)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error tells the password: %v", err)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, c := range []redislease.Config{{Prefix: "a{b}"}, {CallTimeout: -1}} {
		if _, err := redislease.Open("redis://localhost", c); err == nil {
			t.Errorf("open: %+v was accepted", c)
		}
		client := redis.NewClient(&redis.Options{})
		if _, err := redislease.New(client, c); err == nil {
			t.Errorf("new: %+v was accepted", c)
		}
		client.Close()
	}
	if _, err := redislease.New(nil, redislease.Config{}); err == nil {
		t.Error("no client was accepted")
	}
}
