package etcdlease

import (
	"reflect"
	"strings"
	"testing"
)

func TestURL(t *testing.T) {
	for raw, want := range map[string]etcdURL{
		"etcd://a":                    {endpoints: []string{"http://a:2379"}},
		"http://a:1/":                 {endpoints: []string{"http://a:1"}},
		"etcd://a,b:1,[::1],[::2]:2":  {endpoints: []string{"http://a:2379", "http://b:1", "http://[::1]:2379", "http://[::2]:2"}},
		"etcd://u:p@a":                {endpoints: []string{"http://a:2379"}, user: "u", password: "p"},
		"etcds://u%3A:p%40%2F%23@a,b": {endpoints: []string{"https://a:2379", "https://b:2379"}, user: "u:", password: "p@/#", secure: true},
		"https://a:1,https://b:2":     {endpoints: []string{"https://a:1", "https://b:2"}, secure: true},
		"http://u:p@a:1,http://b":     {endpoints: []string{"http://a:1", "http://b:2379"}, user: "u", password: "p"},
		"etcds://a?ca=/c.pem":         {endpoints: []string{"https://a:2379"}, secure: true, ca: "/c.pem"},
		"https://a/?cert=c&key=k":     {endpoints: []string{"https://a:2379"}, secure: true, cert: "c", key: "k"},
		"etcds://a?ca=%2Fwith%20a&cert=c&key=k": {
			endpoints: []string{"https://a:2379"}, secure: true, ca: "/with a", cert: "c", key: "k",
		},
	} {
		if got, err := parseURL(raw); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", raw, got, err, want)
		}
	}
}

func TestURLIsRefusedAndSaysWhy(t *testing.T) {
	for raw, want := range map[string]string{
		"":                                  "begins with none of",
		"secret":                            "begins with none of",
		"redis://u:secret@a":                "begins with none of",
		"etcd:a":                            "begins with none of",
		"etcd://":                           "hosts cannot be read",
		"etcd://a,":                         "hosts cannot be read",
		"etcd://a:b":                        "hosts cannot be read",
		"etcd://::1":                        "hosts cannot be read",
		"etcd://a:1,https://u:secret@b":     "has a path",
		"etcd://:2379":                      "hosts cannot be read",
		"etcd://u@a":                        "go together",
		"etcd://:secret@a":                  "go together",
		"etcd://u:se@cret@a":                "percent-encoded",
		"etcd://u:se:cret@a":                "percent-encoded",
		"etcd://u:se/cret@a":                "percent-encoded",
		"etcd://u:se#cret@a":                "percent-encoded",
		"etcd://u:se?cret@a":                "percent-encoded",
		"etcd://u:%secret@a":                "percent-encoded",
		"etcd://a/fencegate":                "has a path",
		"etcd://a?ca=/secret":               "are for etcds",
		"etcds://a?cert=/secret":            "cert and key go together",
		"etcds://a?ca=":                     "is empty or given twice",
		"etcds://a?ca=1&ca=2":               "is empty or given twice",
		"etcds://a?password=secret":         "none of ca, cert and key",
		"etcds://u:p@a?ca=/none/secret.pem": "certificate authorities",
	} {
		_, err := Open(raw, Config{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want that it %s", raw, err, want)
		}
		// The name of a file may be told.
		if err != nil && !strings.Contains(want, "authorities") && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "cret@")) {
			t.Errorf("%s: the error quotes it: %v", raw, err)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, c := range []Config{{CallTimeout: -1}, {Prefix: "a/"}, {Prefix: "\xff"}} {
		if l, err := Open("etcd://a", c); err == nil {
			l.Close()
			t.Errorf("%+v is taken", c)
		}
	}
	if _, err := New(nil, Config{}); err == nil {
		t.Error("no client is taken")
	}
}

func FuzzURL(f *testing.F) {
	f.Add("etcds://u:p%40@a:1,[::1]?ca=c&cert=d&key=e")
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := parseURL(raw)
		if err != nil {
			return
		}
		if len(u.endpoints) == 0 {
			t.Fatal("no endpoints")
		}
		for _, e := range u.endpoints {
			if !strings.HasPrefix(e, "http") || strings.ContainsAny(e, "@,?#") {
				t.Fatalf("endpoint %q of %q", e, raw)
			}
		}
	})
}
