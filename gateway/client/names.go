package client

import (
	"net/url"
	"slices"
	"strings"

	"github.com/fencegate/fencegate/fence"
)

// escape keeps RFC 3986's unreserved characters and percent-encodes every other byte, and dots too where a path of nothing
// else would be cleaned away.
func escape(s string) string {
	if s == "." || s == ".." {
		return strings.ReplaceAll(s, ".", "%2E")
	}
	return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") // a + in s has become %2B
}

func leasePath(name string) (string, error) {
	return "/v1/leases/" + escape(name), fence.CheckLeaseName(name)
}

// rowPath is that of a row below a prefix.
func rowPath(prefix string, name fence.RowName) (string, error) {
	if name.Table == "" || len(name.Key) == 0 {
		return "", fence.Errorf(fence.CodeInvalidRequest, "a row has a table and a key").In("key")
	}
	return prefix + escape(name.Table) + "/" + escapedKey(name.Key), nil
}

func escapedKey(key []string) string {
	parts := make([]string, len(key))
	for i, part := range key {
		parts[i] = escape(part)
	}
	return strings.Join(parts, ",")
}

// tablePath is that of a table itself.
func tablePath(prefix, table string) (string, error) {
	if table == "" {
		return "", fence.Errorf(fence.CodeInvalidRequest, "the table's name is empty").In("table")
	}
	return prefix + escape(table), nil
}

// objectPath keeps the slashes of a key, unless a proxy could clean the path.
func objectPath(prefix string, name fence.ObjectName) (string, error) {
	if name.Bucket == "" {
		return "", fence.Errorf(fence.CodeInvalidRequest, "the bucket's name is empty").In("bucket")
	}
	if err := fence.CheckObjectKey(name.Key); err != nil {
		return "", err
	}
	segments, slash := strings.Split(name.Key, "/"), "/"
	if slices.ContainsFunc(segments, func(s string) bool { return s == "" || s == "." || s == ".." }) {
		slash = "%2F"
	}
	for i := range segments {
		segments[i] = escape(segments[i])
	}
	return prefix + escape(name.Bucket) + "/" + strings.Join(segments, slash), nil
}
