package redislease

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// kind is what a URL names.
type kind int

const (
	single kind = iota
	sentinel
	cluster
)

const encode = `special characters in a user name or password are percent-encoded ("@" is %40, "/" is %2F, "#" is %23, "&" is %26)`

// redisURL is a URL as go-redis's parsers take it, with what our scheme says beyond theirs.
type redisURL struct {
	*url.URL
	kind kind
}

// parseURL checks what go-redis passes over without a word. Its errors quote nothing: a password whose special
// characters are not encoded may be split over any part of the URL.
func parseURL(raw string) (redisURL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return redisURL{}, errors.New("redis url: it cannot be parsed; " + encode + ", and further hosts are given as addr=host:port")
	}
	r := redisURL{URL: u}
	switch u.Scheme {
	case "redis", "rediss", "unix":
	case "redis+sentinel", "rediss+sentinel":
		r.kind = sentinel
	case "redis+cluster", "rediss+cluster":
		r.kind = cluster
	default:
		return redisURL{}, errors.New("redis url: it begins with none of redis://, rediss://, unix://, redis+sentinel://, rediss+sentinel://, redis+cluster:// and rediss+cluster://")
	}
	u.Scheme, _, _ = strings.Cut(u.Scheme, "+")
	if err := r.check(); err != nil {
		return redisURL{}, fmt.Errorf("redis url: %w", err)
	}
	return r, nil
}

func (r redisURL) check() error {
	query, err := url.ParseQuery(r.RawQuery)
	switch {
	case err != nil:
		return errors.New("its options cannot be parsed; " + encode)
	case r.Opaque != "":
		return errors.New(`"//" is missing behind the scheme`)
	case r.Fragment != "":
		return errors.New(`it has a "#"; ` + encode)
	case r.Scheme == "unix" && r.Host != "":
		return errors.New("a unix URL has a path and no host: unix:///path/to/redis.sock; " + encode)
	case strings.Contains(r.Host, ","):
		return errors.New("further hosts are given as addr=host:port")
	case r.kind == cluster && (strings.Trim(r.Path, "/") != "" || query.Has("db")):
		return errors.New("a cluster has one database only: a cluster URL names none")
	}
	return nil
}

// explain passes on what go-redis says about a URL, unless it may quote a part of a password.
func explain(u *url.URL, err error) error {
	var quoting *url.Error
	split := strings.Contains(u.Path+u.RawQuery, "@")
	if split || u.Query().Has("password") || errors.As(err, &quoting) {
		return errors.New("redis url: its database or one of its options is wrong; " + encode)
	}
	return fmt.Errorf("redis url: %w", err)
}
