package main

import (
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5/pgconn"
)

const redacted = "xxxxx"

// effective lists the flags of the command that was called with their values, whoever set them. Those tagged secret:""
// are shown without their secrets, those tagged secret:"url" too where they are URLs.
func effective(k *kong.Context) []slog.Attr {
	var attrs []slog.Attr
	for _, f := range k.Flags() {
		if f.Name == "help" {
			continue
		}
		value := fmt.Sprint(k.FlagValue(f))
		if f.Tag.Has("secret") && (f.Tag.Get("secret") != "url" || strings.Contains(value, "://")) {
			value = redact(value)
		}
		attrs = append(attrs, slog.String(f.Name, value))
	}
	return attrs
}

// redact leaves of a secret whether there is one, and of a URL all but its passwords.
func redact(value string) string {
	switch {
	case value == "":
		return ""
	case strings.Contains(value, "://"):
		return redactURL(value)
	case strings.Contains(value, "="):
		// PostgreSQL's keyword form. What pgx makes of it has no secret but the password.
		if c, err := pgconn.ParseConfig(value); err == nil {
			return fmt.Sprintf("host=%s port=%d dbname=%s user=%s", c.Host, c.Port, c.Database, c.User)
		}
	}
	return redacted
}

func redactURL(value string) string {
	u, err := url.Parse(value)
	if err != nil || strings.Contains(u.EscapedPath(), "@") {
		return redacted // what it has may be a part of the password
	}
	if _, has := u.User.Password(); has {
		u.User = url.UserPassword(u.User.Username(), redacted)
	}
	query := u.Query()
	for name := range query {
		if strings.Contains(name, "pass") || strings.Contains(name, "secret") || strings.Contains(name, "key") {
			query.Set(name, redacted)
		}
	}
	u.RawQuery = query.Encode()
	return u.String()
}
