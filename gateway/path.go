package gateway

import (
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/fencegate/fencegate/fence"
)

// shortPath refuses a path over the limit before anything is decoded from it.
func (g *Gateway) shortPath(next http.Handler) http.Handler {
	return g.handle(func(w http.ResponseWriter, r *http.Request) error {
		if n := len(wirePath(r.URL)); n > g.cfg.MaxPath {
			return fence.Errorf(fence.CodeInvalidRequest, "a path has at most %d bytes, this one has %d", g.cfg.MaxPath, n).In("path")
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

// wirePath is the path as it was sent, still escaped. EscapedPath alone would lose a %2F when another byte of the
// path should have been escaped and was not: it then escapes the decoded path anew.
func wirePath(u *url.URL) string {
	if u.RawPath != "" {
		return u.RawPath
	}
	return u.EscapedPath()
}

// unescape decodes percent-encoding once; + stays +.
func unescape(what, s string) (string, error) {
	plain, err := url.PathUnescape(s)
	if err != nil {
		return "", fence.Wrap(fence.CodeInvalidRequest, err, "the %s is not valid percent-encoding", what).In(what)
	}
	if !utf8.ValidString(plain) {
		return "", fence.Errorf(fence.CodeInvalidRequest, "the %s is not UTF-8", what).In(what)
	}
	if strings.IndexByte(plain, 0) >= 0 {
		return "", fence.Errorf(fence.CodeInvalidRequest, "the %s has a NUL character", what).In(what)
	}
	return plain, nil
}

// leasePath reads {name} or {name}/{call}. Only a raw slash sets the call off: a name may end in %2Fverify.
func leasePath(rest string) (name, call string, err error) {
	for _, c := range []string{"tokens", "verify", "break"} {
		if before, found := strings.CutSuffix(rest, "/"+c); found {
			rest, call = before, c
			break
		}
	}
	if strings.Contains(rest, "/") {
		return "", "", fence.Errorf(fence.CodeInvalidRequest, "write a slash in a lease name as %%2F").In("lease name")
	}
	if name, err = unescape("lease name", rest); err != nil {
		return "", "", err
	}
	return name, call, fence.CheckLeaseName(name)
}

// rowPath reads {table}/{key}. Commas that were sent raw separate the parts of a composite key. The row gets the name
// under which the action is authorised, so that the two cannot mean different tables.
func rowPath(rest string) (fence.RowName, Action, error) {
	none := func(err error) (fence.RowName, Action, error) { return fence.RowName{}, Action{}, err }
	table, key, found := strings.Cut(rest, "/")
	if !found {
		return none(fence.Errorf(fence.CodeNotFound, "a row is /v1/rows/{table}/{key}"))
	}
	if strings.Contains(key, "/") {
		return none(fence.Errorf(fence.CodeInvalidRequest, "write a slash in a key as %%2F").In("key"))
	}
	canonical, about, err := tablePath(table)
	if err != nil {
		return none(err)
	}
	name := fence.RowName{Table: canonical}
	for part := range strings.SplitSeq(key, ",") {
		plain, err := unescape("key", part)
		if err != nil {
			return none(err)
		}
		name.Key = append(name.Key, plain)
	}
	return name, about, nil
}

// rowResource reads the name of a row's resource behind rows/, as answers write it: the table's quotes stand raw, and the parts of
// the key are percent-encoded.
func rowResource(rest string) (fence.RowName, Action, error) {
	none := func(err error) (fence.RowName, Action, error) {
		return fence.RowName{}, Action{}, withField(err, "resource")
	}
	end, quoted := 0, false
	for ; end < len(rest) && (rest[end] != '/' || quoted); end++ {
		quoted = quoted != (rest[end] == '"')
	}
	t, err := fence.ParseTableName(rest[:end])
	if err != nil {
		return none(err)
	}
	if end == len(rest) || strings.Contains(rest[end+1:], "/") {
		return none(fence.Errorf(fence.CodeInvalidRequest, "a row is rows/{schema.table}/{key}, and a slash in a key is %%2F"))
	}
	name := fence.RowName{Table: t.String()}
	for part := range strings.SplitSeq(rest[end+1:], ",") {
		plain, err := unescape("key", part)
		if err != nil {
			return none(err)
		}
		name.Key = append(name.Key, plain)
	}
	return name, Action{Schema: t.Schema, Table: t.Name}, nil
}

// tablePath reads {table}.
func tablePath(rest string) (string, Action, error) {
	plain, err := unescape("table", rest)
	if err != nil {
		return "", Action{}, err
	}
	t, err := fence.ParseTableName(plain)
	if err != nil {
		return "", Action{}, err
	}
	return t.String(), Action{Schema: t.Schema, Table: t.Name}, nil
}

// objectPath reads {bucket}/{key…}. The key is everything behind the first slash, never cleaned.
func objectPath(rest string) (fence.ObjectName, error) {
	bucket, key, found := strings.Cut(rest, "/")
	if !found {
		return fence.ObjectName{}, fence.Errorf(fence.CodeNotFound, "an object is /v1/objects/{bucket}/{key}")
	}
	var name fence.ObjectName
	var err error
	if name.Bucket, err = unescape("bucket", bucket); err != nil {
		return fence.ObjectName{}, err
	}
	if name.Bucket == "" {
		return fence.ObjectName{}, fence.Errorf(fence.CodeInvalidRequest, "the bucket's name is empty").In("bucket")
	}
	if name.Key, err = unescape("key", key); err != nil {
		return fence.ObjectName{}, err
	}
	return name, fence.CheckObjectKey(name.Key)
}
