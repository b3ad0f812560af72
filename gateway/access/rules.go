package access

import (
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/fencegate/fencegate/gateway"
)

func readRules(f field) ([]Rule, *FileError) {
	entries, err := f.list()
	if err != nil {
		return nil, err
	}
	rules := make([]Rule, 0, len(entries))
	for _, n := range entries {
		rule, err := readRule(n, f.at)
		if err != nil {
			return nil, err
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

func readRule(n ast.Node, at *token.Position) (Rule, *FileError) {
	fields, err := fieldsOf(n, "a rule", at, "leases", "tables", "buckets", "verbs", "columns")
	if err != nil {
		return Rule{}, err
	}
	var r Rule
	for _, f := range fields {
		texts, err := f.texts()
		if err != nil {
			return Rule{}, err
		}
		for _, t := range texts {
			if err := r.add(f.key, t); err != nil {
				return Rule{}, err
			}
		}
	}
	if len(fields) > 0 {
		at = fields[0].at
	}
	r.Line = at.Line
	return r, r.useful(at)
}

func (r *Rule) add(key string, t text) *FileError {
	switch key {
	case "verbs":
		return r.addVerb(t)
	case "columns":
		return r.addColumn(t)
	}
	bad := checkPattern(t.value)
	if bad == nil {
		bad = r.addPattern(key, t.value)
	}
	if bad != nil {
		return errorAt(t.at, "%s: %s", key, bad)
	}
	return nil
}

func (r *Rule) addVerb(t text) *FileError {
	verb := gateway.Verb(t.value)
	switch {
	case verb == gateway.VerbAdmin:
		return errorAt(t.at, "verbs: admin is a key of the principal, not a verb of a rule")
	case !slices.Contains(leaseVerbs(), verb) && !slices.Contains(dataVerbs(), verb):
		return errorAt(t.at, "verbs: there is no verb %s; there are lease, read and write", shown(t.value))
	case slices.Contains(r.Verbs, verb):
		return errorAt(t.at, "verbs: %s is given twice", verb)
	}
	r.Verbs = append(r.Verbs, verb)
	return nil
}

// addColumn takes a name as the catalogue has it, as bodies of requests do: there is nothing to fold or to quote.
func (r *Rule) addColumn(t text) *FileError {
	switch bad := checkIdentifier(t.value); {
	case bad != nil:
		return errorAt(t.at, "columns: %s", bad)
	case strings.Contains(t.value, "*"):
		return errorAt(t.at, "columns: a column is named in full, without *; a rule without columns allows all")
	case slices.Contains(r.Columns, t.value):
		return errorAt(t.at, "columns: %s is given twice", shown(t.value))
	}
	r.Columns = append(r.Columns, t.value)
	return nil
}

func (r *Rule) addPattern(key, pattern string) error {
	switch key {
	case "leases":
		g, err := leasePattern(pattern)
		r.Leases, r.leases = append(r.Leases, pattern), append(r.leases, g)
		return err
	case "tables":
		t, err := newTablePattern(pattern)
		r.Tables, r.tables = append(r.Tables, pattern), append(r.tables, t)
		return err
	default:
		b, err := newBucketPattern(pattern)
		r.Buckets, r.buckets = append(r.Buckets, pattern), append(r.buckets, b)
		return err
	}
}

// useful refuses a rule of which a part can allow nothing: whoever wrote it meant something else.
func (r *Rule) useful(at *token.Position) *FileError {
	lease, data := len(r.Leases) > 0, len(r.Tables)+len(r.Buckets) > 0
	switch {
	case len(r.Verbs) == 0:
		return errorAt(at, "the rule has no verbs")
	case !lease && !data:
		return errorAt(at, "the rule has no leases, tables or buckets")
	case len(r.Columns) > 0 && len(r.Tables) == 0:
		return errorAt(at, "the rule has columns and no tables")
	}
	for _, v := range r.Verbs {
		if !(lease && slices.Contains(leaseVerbs(), v) || data && slices.Contains(dataVerbs(), v)) {
			return errorAt(at, "the verb %s allows nothing in this rule: it is for %s", v, targetsOf(v))
		}
	}
	switch {
	case lease && !anyOf(r.Verbs, leaseVerbs()):
		return errorAt(at, "the rule's leases need the verb lease or read")
	case data && !anyOf(r.Verbs, dataVerbs()):
		return errorAt(at, "the rule's tables and buckets need the verb read or write")
	}
	return nil
}

func anyOf(verbs, of []gateway.Verb) bool {
	return slices.ContainsFunc(verbs, func(v gateway.Verb) bool { return slices.Contains(of, v) })
}

func targetsOf(v gateway.Verb) string {
	var targets []string
	if slices.Contains(leaseVerbs(), v) {
		targets = append(targets, "leases")
	}
	if slices.Contains(dataVerbs(), v) {
		targets = append(targets, "tables", "buckets")
	}
	return strings.Join(targets, ", ")
}
