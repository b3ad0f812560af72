package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fencegate/fencegate/stores/pgstore"
)

type protectLsCmd struct {
	JSON bool `name:"json" env:"-" help:"Print a line of JSON for each."`
	databaseFlag
}

// Help is shown below the flags of fencegate protect ls.
func (protectLsCmd) Help() string {
	return `STATE is ok, or what is to be done. A table that is gone or altered is not served: protect it again, or --remove it. The role needs no
more than a gateway's.`
}

// Run lists tables and views by name, then buckets.
func (c *protectLsCmd) Run(std *streams, rc *runContext) error {
	store, err := openLedger(rc, pgstore.Config{URL: c.DatabaseURL, Pooled: true}) // right with a pooler, and without one
	if err != nil {
		return err
	}
	defer store.Close()
	list, err := store.Protections(rc)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	if !c.JSON {
		fmt.Fprintln(table, "KIND\tNAME\tKEY\tLEASE\tGUARD\tOPTIONS\tSTATE")
	}
	for _, p := range list {
		if c.JSON {
			line, err := json.Marshal(p)
			if err != nil {
				return err
			}
			fmt.Fprintf(std.out, "%s\n", line)
			continue
		}
		kind, guard := p.Kind, "-"
		if p.View {
			kind = "view"
		}
		if p.Guarded {
			guard = "guarded"
		}
		name := p.Name
		if p.Prefix != "" {
			name += "/" + p.Prefix
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", kind, shownName(name), orDash(strings.Join(p.Key, ",")), shownName(p.Template), guard, orDash(shownOptions(p.Options)), protectionState(p))
	}
	return table.Flush()
}

// shownOptions are a bucket's options in the order of their names.
func shownOptions(options map[string]any) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(options)) {
		value := fmt.Sprint(options[name])
		if d, err := time.ParseDuration(strings.ReplaceAll(value, " ", "")); err == nil { // as protect writes it
			value = d.String()
		}
		list = append(list, name+"="+value)
	}
	return strings.Join(list, " ")
}

// protectionState says how a protection stands, and what to do.
func protectionState(p pgstore.Protection) string {
	switch p.State {
	case "":
		return "ok"
	case "gone":
		return "gone: there is no such table any more"
	case "altered":
		return "altered: protect it again"
	case "guard-gaps":
		return "guard has gaps: guard it again"
	}
	return p.State
}
