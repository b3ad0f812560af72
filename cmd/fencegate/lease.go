package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
)

type leaseCmd struct {
	Ls    leaseLsCmd    `cmd:"" help:"List the leases that are held."`
	Get   leaseGetCmd   `cmd:"" help:"Show who holds a lease, and who waits for it. Exit code 1 when nobody does."`
	Break leaseBreakCmd `cmd:"" help:"End somebody else's grant: its tokens are void at once, and the lease is free. Needs the admin right."`
	Watch leaseWatchCmd `cmd:"" help:"Follow what happens to leases, and which writes are refused."`
}

// gatewayFlags name the gateway that is asked.
type gatewayFlags struct {
	URL  string `name:"url" env:"FENCEGATE_URL" default:"http://127.0.0.1:8080" placeholder:"URL" help:"Gateway to ask."`
	Auth string `name:"auth" env:"FENCEGATE_AUTH_TOKEN" secret:"" placeholder:"TOKEN" help:"Bearer token. Better in the environment: others on this machine can see the command line."`
}

// Validate refuses what is no gateway's URL, without quoting it: it may hold what it should not.
func (f gatewayFlags) Validate() error {
	u, err := url.Parse(f.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("--url is not of the form http://HOST:PORT or https://HOST:PORT")
	}
	return nil
}

func (f gatewayFlags) api() *api { return newAPI(f.URL, f.Auth) }

// leaseFlags are those of a command about one lease.
type leaseFlags struct {
	Name string `arg:"" help:"Name of the lease, as it is: with slashes and spaces, not percent-encoded."`
	gatewayFlags
}

func (f leaseFlags) path() string { return "/v1/leases/" + url.PathEscape(f.Name) }

// leaseInfo is a lease as the gateway shows it.
type leaseInfo struct {
	Name        string     `json:"name"`
	Holder      string     `json:"holder"`
	Principal   string     `json:"principal"`
	Token       int64      `json:"token"`
	Last        int64      `json:"token_last"`
	Blocks      [][2]int64 `json:"blocks"`
	TTLMS       int64      `json:"ttl_ms"`
	RemainingMS int64      `json:"remaining_ms"`
	GrantedAt   time.Time  `json:"granted_at"`
	Queue       struct {
		Length  int `json:"length"`
		Waiting []struct {
			Holder    string `json:"holder"`
			WaitingMS int64  `json:"waiting_ms"`
		} `json:"waiting"`
	} `json:"queue"`
}

// remaining is how long it still runs, for people.
func (l leaseInfo) remaining() string { return inWords(l.RemainingMS) }

// tokens are the grant's, block by block; none is known while the grant is being made.
func (l leaseInfo) tokens() string {
	var blocks []string
	for _, b := range l.Blocks {
		blocks = append(blocks, fmt.Sprintf("%d-%d", b[0], b[1]))
	}
	return strings.Join(blocks, " ")
}

// since is when it was granted.
func (l leaseInfo) since() string {
	if l.GrantedAt.IsZero() {
		return ""
	}
	return l.GrantedAt.Local().Format(time.RFC3339)
}

// inWords shows milliseconds with as many digits as matter.
func inWords(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d >= 10*time.Second {
		d = d.Round(time.Second)
	}
	return d.String()
}

// shownName quotes a text that would do something to a terminal or look like something else.
func shownName(s string) string {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) || strings.TrimSpace(s) != s {
		return strconv.Quote(s)
	}
	return s
}

// inspect asks for a lease; found is false when nobody holds it.
func (f leaseFlags) inspect(ctx context.Context) (raw []byte, info leaseInfo, found bool, err error) {
	ans, err := f.api().call(ctx, http.MethodGet, f.path(), nil)
	if err != nil {
		return nil, info, false, unreachable(err)
	}
	if ans.status == http.StatusNotFound && ans.problem().Code == "not-found" {
		return nil, info, false, nil
	}
	if err := ans.err("look at the lease " + shownName(f.Name)); err != nil {
		return nil, info, false, err
	}
	if err := json.Unmarshal(ans.body, &info); err != nil {
		return nil, info, false, fmt.Errorf("the answer is none of a gateway: %w", err)
	}
	return ans.body, info, true, nil
}

// unreachable says what to look at when there is no answer.
func unreachable(err error) error {
	return fmt.Errorf("the gateway does not answer (FENCEGATE_URL or --url names it): %w", err)
}

type leaseGetCmd struct {
	leaseFlags
	JSON bool `name:"json" help:"Print the gateway's answer as it is."`
}

// Run shows one lease.
func (c *leaseGetCmd) Run(std *streams, rc *runContext) error {
	raw, l, found, err := c.inspect(rc)
	switch {
	case err != nil:
		return err
	case !found:
		return fmt.Errorf("nobody holds the lease %s", shownName(c.Name))
	case c.JSON:
		_, err := fmt.Fprintf(std.out, "%s\n", bytes.TrimSpace(raw))
		return err
	}
	lines := [][2]string{
		{"lease", shownName(l.Name)}, {"holder", shownName(l.Holder)}, {"principal", l.Principal}, {"tokens", l.tokens()},
		{"granted", l.since()}, {"remaining", l.remaining()}, {"waiting", strconv.Itoa(l.Queue.Length)},
	}
	for _, line := range lines {
		if line[1] != "" {
			fmt.Fprintf(std.out, "%-10s %s\n", line[0], line[1])
		}
	}
	for i, w := range l.Queue.Waiting {
		fmt.Fprintf(std.out, "%9d. %s, for %s\n", i+1, shownName(w.Holder), inWords(w.WaitingMS))
	}
	if more := l.Queue.Length - len(l.Queue.Waiting); more > 0 {
		fmt.Fprintf(std.out, "%10s and %d more\n", "", more)
	}
	return nil
}

type leaseBreakCmd struct {
	leaseFlags
	Reason string `required:"" placeholder:"TEXT" help:"Why. It is kept with the grant, and its holder is told."`
}

// Help is shown below the flags of fencegate lease break.
func (leaseBreakCmd) Help() string {
	return `When the command has ended, no write with a token of the broken grant is accepted any more, and the next one that
waits has the lease. The holder is told at its next renewal, with the reason and by whom.`
}

// Run breaks a lease, and says whose it was.
func (c *leaseBreakCmd) Run(std *streams, rc *runContext) error {
	_, before, held, err := c.inspect(rc)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]string{"reason": c.Reason})
	if err != nil {
		return err
	}
	ans, err := c.api().call(rc, http.MethodPost, c.path()+"/break", body, "Content-Type", "application/json")
	if err != nil {
		return unreachable(err)
	}
	if err := ans.err("break the lease " + shownName(c.Name)); err != nil {
		return err
	}
	if !held {
		fmt.Fprintf(std.out, "nobody held the lease %s any more; its newest grant has ended\n", shownName(c.Name))
		return nil
	}
	fmt.Fprintf(std.out, "broke the lease %s, held by %s\n", shownName(c.Name), shownName(before.Holder))
	return nil
}
