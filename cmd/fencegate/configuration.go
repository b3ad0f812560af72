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
// are shown without their secrets.
func effective(k *kong.Context) []slog.Attr {
	var attrs []slog.Attr
	for _, f := range k.Flags() {
		if f.Name == "help" {
			continue
		}
		value := fmt.Sprint(k.FlagValue(f))
		if f.Tag.Has("secret") && value != "aws" {
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

// redactURL keeps what is known to hold no secret.
func redactURL(value string) string {
	u, err := url.Parse(value)
	if err != nil || strings.Contains(value, "#") || strings.Contains(u.EscapedPath()+u.RawQuery, "@") {
		return redacted // what it has may be a part of the password
	}
	_, has := u.User.Password()
	switch {
	case has:
		u.User = url.UserPassword(u.User.Username(), redacted)
	case u.User != nil && !strings.HasPrefix(u.Scheme, "postgres"):
		u.User = url.User(redacted)
	}
	query := u.Query()
	for name := range query {
		if !harmlessParameter(name) {
			query.Set(name, redacted)
		}
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// harmlessParameter tells the parameters of a URL that hold no secret.
func harmlessParameter(parameter string) bool {
	switch parameter {
	case "host", "port", "dbname", "user", "sslmode", "sslrootcert", "application_name", "connect_timeout", "target_session_attrs",
		"master_name", "addr", "db", "protocol", "dial_timeout", "read_timeout", "write_timeout", "pool_size", "max_retries":
		return true
	}
	return strings.HasPrefix(parameter, "pool_")
}
