package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fencegate/fencegate/fence"
)

type objectsHistoryCmd struct {
	objectFlags
	JSON bool `name:"json" env:"-" help:"Print a line of JSON for each version."`
}

// Help is shown below the flags of fencegate objects history.
func (objectsHistoryCmd) Help() string {
	return `Newest first; the first line is the present state. How long others are kept is an option of the bucket
(fencegate protect --bucket … --keep).`
}

// versionInfo is a line of GET /v1/versions.
type versionInfo struct {
	Token       fence.Token `json:"token"`
	Deleted     bool        `json:"deleted"`
	Size        int64       `json:"size"`
	ContentType string      `json:"content_type"`
	ModifiedAt  time.Time   `json:"modified_at"`
	KeepUntil   *time.Time  `json:"keep_until"`
}

// escapedObject is an object's place in paths of the API.
func escapedObject(n fence.ObjectName) string {
	return escapedPath(n.Bucket) + "/" + escapedPath(n.Key)
}

func escapedPath(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// Run lists all pages.
func (c *objectsHistoryCmd) Run(std *streams, rc *runContext) error {
	name, err := c.name()
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	if !c.JSON {
		fmt.Fprintln(table, "VERSION\tSIZE\tTYPE\tPUBLISHED\tKEPT UNTIL")
	}
	a := c.api()
	for before, first := fence.Token(0), true; first || before != 0; first = false {
		query := url.Values{"limit": {"1000"}}
		if before != 0 {
			query.Set("before", before.String())
		}
		ans, err := a.call(rc, http.MethodGet, "/v1/versions/"+escapedObject(name)+"?"+query.Encode(), nil)
		if err != nil {
			return unreachable(err)
		}
		if err := ans.err("list the versions"); err != nil {
			return err
		}
		var page struct {
			Versions []json.RawMessage `json:"versions"`
			Next     fence.Token       `json:"next"`
		}
		if err := json.Unmarshal(ans.body, &page); err != nil {
			return fmt.Errorf("the answer is none of a gateway: %w", err)
		}
		for _, raw := range page.Versions {
			if err := c.show(std, table, raw); err != nil {
				return err
			}
		}
		before = page.Next
	}
	return table.Flush()
}

func (c *objectsHistoryCmd) show(std *streams, table *tabwriter.Writer, raw json.RawMessage) error {
	if c.JSON {
		_, err := fmt.Fprintf(std.out, "%s\n", raw)
		return err
	}
	var v versionInfo
	if err := json.Unmarshal(raw, &v); err != nil {
		return fmt.Errorf("the answer is none of a gateway: %w", err)
	}
	size, kept := strconv.FormatInt(v.Size, 10), "now"
	if v.Deleted {
		size = "deleted"
	}
	if v.KeepUntil != nil {
		kept = v.KeepUntil.Format(time.RFC3339)
	}
	_, err := fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", v.Token, size, orDash(v.ContentType), v.ModifiedAt.Format(time.RFC3339), kept)
	return err
}

type objectsRestoreCmd struct {
	objectFlags
	Version fence.Token   `required:"" env:"-" placeholder:"TOKEN" help:"Which version: its token, as fencegate objects history shows it; 0 is what was imported."`
	Token   fence.Token   `env:"-" placeholder:"TOKEN" help:"The token to write with. Without one the object's lease is taken for the write."`
	Wait    time.Duration `env:"-" default:"10s" help:"How long to wait for the lease."`
}

// Help is shown below the flags of fencegate objects restore.
func (objectsRestoreCmd) Help() string {
	return `The object points to the former body again; nothing is copied. What it was before is kept as a version in its turn.`
}

// Validate refuses a version that there cannot be.
func (c *objectsRestoreCmd) Validate() error {
	if c.Version < 0 {
		return errors.New("--version is the token of a version")
	}
	return nil
}

// Run writes under the lease.
func (c *objectsRestoreCmd) Run(std *streams, rc *runContext) (err error) {
	name, err := c.name()
	if err != nil {
		return err
	}
	a, token := c.api(), c.Token
	if token == 0 {
		held, err := c.take(rc, a, name)
		if err != nil {
			return err
		}
		token = held.Token
		defer func() {
			ans, releaseErr := a.call(rc, http.MethodDelete, "/v1/leases/"+escapedPath(held.Name), nil, "X-Lease-Id", held.ID)
			if releaseErr == nil {
				releaseErr = ans.err("release the lease")
			}
			err = errors.Join(err, releaseErr)
		}()
	}
	ans, err := a.call(rc, http.MethodPost, "/v1/objects/"+escapedObject(name), fmt.Appendf(nil, `{"restore":%d}`, c.Version),
		"Content-Type", "application/json", "X-Fence-Token", token.String())
	if err != nil {
		return unreachable(err)
	}
	if err := ans.err("restore the version"); err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.out, "%s is version %s again, published with token %s\n", shownName(name.Bucket+"/"+name.Key), c.Version, token)
	return err
}

// takenLease is what is needed of a grant.
type takenLease struct {
	Name  string      `json:"name"`
	ID    string      `json:"id"`
	Token fence.Token `json:"token"`
}

// take takes the lease that protects the object, whose name every answer about it tells.
func (c *objectsRestoreCmd) take(rc *runContext, a *api, name fence.ObjectName) (held takenLease, err error) {
	ans, err := a.call(rc, http.MethodGet, "/v1/marks/objects/"+escapedObject(name), nil)
	if err != nil {
		return held, unreachable(err)
	}
	if err := ans.err("find the object's lease"); err != nil {
		return held, err
	}
	body := fmt.Sprintf(`{"ttl":"30s","wait":%q,"holder":"fencegate objects restore"}`, c.Wait)
	ans, err = a.call(rc, http.MethodPost, "/v1/leases/"+ans.header.Get("X-Fence-Lease"), []byte(body), "Content-Type", "application/json")
	if err != nil {
		return held, unreachable(err)
	}
	if err := ans.err("take the object's lease"); err != nil {
		return held, err
	}
	if err := json.Unmarshal(ans.body, &held); err != nil || held.ID == "" {
		return held, fmt.Errorf("the answer is none of a gateway: %w", err)
	}
	return held, nil
}
