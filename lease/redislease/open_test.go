package redislease_test

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/fencegate/fencegate/lease/redislease"
)

func TestOpenSingleAndSentinel(t *testing.T) {
	for _, url := range []string{
		"redis://localhost", "rediss://u:p@localhost:6380/3", "unix:///run/redis.sock",
		"redis+sentinel://localhost?master_name=m", "rediss+sentinel://u:p@a:1/3?master_name=m&addr=b:2&username=u&password=p",
	} {
		o := opened(t, url).(*redis.Client).Options()
		if !o.ContextTimeoutEnabled || o.DialTimeout != 500*time.Millisecond || o.PoolTimeout != 500*time.Millisecond ||
			o.ReadTimeout != time.Second || o.WriteTimeout != time.Second || o.MaxRetries != 2 || o.DialerRetries != 1 || !o.DisableIdentity ||
			o.MaintNotificationsConfig.Mode != maintnotifications.ModeDisabled {
			t.Errorf("%s: options %+v", url, o)
		}
		if tls := o.TLSConfig != nil; tls != strings.HasPrefix(url, "rediss") {
			t.Errorf("%s: TLS is %v", url, tls)
		}
		if strings.Contains(url, "/3") && o.DB != 3 {
			t.Errorf("%s: database %d", url, o.DB)
		}
		if strings.Contains(url, "username=u") && (o.Username != "u" || o.Password != "p") {
			t.Errorf("%s: user %q", url, o.Username)
		}
	}
}

func TestOpenCluster(t *testing.T) {
	for url, addrs := range map[string][]string{
		"redis+cluster://localhost":                      {"localhost:6379"},
		"redis+cluster://localhost/":                     {"localhost:6379"},
		"rediss+cluster://u:p@[::1]:7000?addr=b:1":       {"[::1]:7000", "b:1"},
		"redis+cluster://:p%40@a:7000?addr=b:1&addr=c:2": {"a:7000", "b:1", "c:2"},
	} {
		o := opened(t, url).(*redis.ClusterClient).Options()
		if !slices.Equal(o.Addrs, addrs) {
			t.Errorf("%s: addresses %q", url, o.Addrs)
		}
		if !o.ContextTimeoutEnabled || o.DialTimeout != 500*time.Millisecond || o.PoolTimeout != 500*time.Millisecond ||
			o.ReadTimeout != time.Second || o.WriteTimeout != time.Second || o.MaxRetries != -1 || o.DialerRetries != 1 || !o.DisableIdentity ||
			o.ReadOnly || o.MaintNotificationsConfig.Mode != maintnotifications.ModeDisabled {
			t.Errorf("%s: options %+v", url, o)
		}
		if tls := o.TLSConfig != nil; tls != strings.HasPrefix(url, "rediss") {
			t.Errorf("%s: TLS is %v", url, tls)
		}
		if strings.Contains(url, "%40") && o.Password != "p@" {
			t.Errorf("%s: password %q", url, o.Password)
		}
	}
}

func TestOpenTakesTimeoutsFromTheURL(t *testing.T) {
	for _, url := range []string{"redis://a?dial_timeout=2s", "redis+sentinel://a?dial_timeout=2s&master_name=m"} {
		if o := opened(t, url).(*redis.Client).Options(); o.DialTimeout != 2*time.Second {
			t.Errorf("%s: a dial timeout of %v", url, o.DialTimeout)
		}
	}
	if o := opened(t, "redis+cluster://a?dial_timeout=2s").(*redis.ClusterClient).Options(); o.DialTimeout != 2*time.Second {
		t.Errorf("cluster: a dial timeout of %v", o.DialTimeout)
	}
}

func TestOpenKnowsSentinelsPort(t *testing.T) {
	err := opened(t, "redis+sentinel://127.1.2.3?master_name=m").Ping(t.Context()).Err()
	var dial *net.OpError
	if !errors.As(err, &dial) || dial.Addr.String() != "127.1.2.3:26379" {
		t.Errorf("it called %v", err)
	}
}

func TestOpenRefusesAndSaysWhy(t *testing.T) {
	for url, want := range map[string]string{
		"http://u:secret@host":                               "begins with none of",
		"secret":                                             "begins with none of",
		"redis:localhost:6379":                               `"//" is missing`,
		"redis://host/x":                                     `database number: "x"`,
		"redis://host?nonsense=1":                            "unexpected option: nonsense",
		"redis://host?read_timeout=soon":                     "invalid read_timeout",
		"redis://host?a=b;c":                                 "options cannot be parsed",
		"unix://":                                            "empty unix socket path",
		"unix://run/redis.sock":                              "unix:///path",
		"redis+sentinel://host":                              "needs master_name",
		"redis+sentinel://u:secret@host?addr=b:1":            "needs master_name",
		"redis+sentinel://host?master_name=m&addr=b":         "addr param: b",
		"redis+sentinel://host?master_name=m&replica_only=1": "reads from replicas",
		"redis+sentinel://host?master_name=m&route_randomly=0&route_randomly=1": "reads from replicas",
		"redis+sentinel://a,b?master_name=m":                                    "addr=host:port",
		"redis+sentinel://a:1,b:2?master_name=m":                                "addr=host:port",
		"redis+cluster://host/1":                                                "one database",
		"redis+cluster://host?db=1":                                             "one database",
		"redis+cluster://host?route_by_latency=true":                            "reads from replicas",
		"redis+cluster://host?read_only=true":                                   "reads from replicas",
		"redis+cluster://host?master_name=m":                                    "unexpected option: master_name",

		// The password is not encoded, or is not where it belongs.
		"redis://u:secret@host:port":                            "percent-encoded",
		"redis://:secret/x@host":                                "percent-encoded",
		"redis://u:secret%zz@host":                              "percent-encoded",
		"redis://u:1/secret@host":                               "percent-encoded",
		"redis://u:1?secret@host":                               "percent-encoded",
		"redis://u:1?secret=@host":                              "percent-encoded",
		"redis://u:1#secret@host":                               "percent-encoded",
		"unix://u:1/secret@/run/redis.sock":                     "percent-encoded",
		"redis+sentinel://u:1/secret@host?master_name=m":        "percent-encoded",
		"redis+sentinel://host?master_name=m&addr=u:secret@b:1": "percent-encoded",
		"redis+sentinel://host?master_name=m&password=x&secret": "percent-encoded",
		"redis+cluster://u:1?secret@host":                       "percent-encoded",
		"redis+cluster://host?addr=u:secret@b:1":                "percent-encoded",
		"redis://u:secret@host?nonsense=1":                      "unexpected option: nonsense",
	} {
		client, err := redislease.Open(url, redislease.Config{})
		switch {
		case err == nil:
			client.Close()
			t.Errorf("%s was accepted", url)
		case strings.Contains(err.Error(), "secret"):
			t.Errorf("the error tells the password: %v", err)
		case !strings.Contains(err.Error(), want):
			t.Errorf("%s: %v, want something about %s", url, err, want)
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

func opened(t *testing.T, url string) redis.UniversalClient {
	t.Helper()
	client, err := redislease.Open(url, redislease.Config{})
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}
