package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"text/tabwriter"
)

type leaseLsCmd struct {
	Prefix string `placeholder:"TEXT" help:"Only leases whose names begin with this."`
	JSON   bool   `name:"json" help:"Print a line of JSON for each lease."`
	gatewayFlags
}

// Help is shown below the flags of fencegate lease ls.
func (leaseLsCmd) Help() string {
	return `Lists the leases that you may read, by name.`
}

// lsPage is how many leases are asked for at once.
const lsPage = 500

// Run lists all pages.
func (c *leaseLsCmd) Run(std *streams, rc *runContext) error {
	table := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	if !c.JSON {
		fmt.Fprintln(table, "LEASE\tHOLDER\tPRINCIPAL\tTOKENS\tREMAINING\tGRANTED")
	}
	a := c.api()
	for after, first := "", true; first || after != ""; first = false {
		query := url.Values{"limit": {strconv.Itoa(lsPage)}, "prefix": {c.Prefix}, "after": {after}}
		ans, err := a.call(rc, http.MethodGet, "/v1/leases?"+query.Encode(), nil)
		if err != nil {
			return unreachable(err)
		}
		if err := ans.err("list the leases"); err != nil {
			return err
		}
		var page struct {
			Leases []json.RawMessage `json:"leases"`
			Next   string            `json:"next"`
		}
		if err := json.Unmarshal(ans.body, &page); err != nil {
			return fmt.Errorf("the answer is none of a gateway: %w", err)
		}
		for _, raw := range page.Leases {
			if err := c.show(std, table, raw); err != nil {
				return err
			}
		}
		after = page.Next
	}
	return table.Flush()
}

func (c *leaseLsCmd) show(std *streams, table *tabwriter.Writer, raw json.RawMessage) error {
	if c.JSON {
		_, err := fmt.Fprintf(std.out, "%s\n", bytes.TrimSpace(raw))
		return err
	}
	var l leaseInfo
	if err := json.Unmarshal(raw, &l); err != nil {
		return fmt.Errorf("the answer is none of a gateway: %w", err)
	}
	_, err := fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n",
		shownName(l.Name), shownName(l.Holder), orDash(l.Principal), orDash(l.tokens()), l.remaining(), orDash(l.since()))
	return err
}

// orDash is a cell of a table: what is not known while a grant is being made is a dash.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return shownName(s)
}
