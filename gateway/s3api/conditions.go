package s3api

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/versity/versitygw/s3err"

	"github.com/fencegate/fencegate/fence"
)

// tags are the entity tags of a condition, without quotes; any is *.
type tags struct {
	given, any bool
	values     []string
}

func tagsOf(h http.Header, name string) tags {
	lines := h.Values(name)
	t := tags{given: len(lines) > 0}
	for v := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		v = strings.TrimPrefix(strings.TrimSpace(v), "W/")
		t.any = t.any || v == "*"
		t.values = append(t.values, strings.Trim(v, `"`))
	}
	return t
}

func (t tags) has(etag string) bool {
	return t.any || slices.Contains(t.values, strings.Trim(etag, `"`))
}

// judge applies the conditions of a read, whose headers have a prefix where they are about the source of a copy.
func judge(h http.Header, prefix string, o fence.Object) error {
	etag, modified := tagOf(o), o.ModifiedAt.Truncate(time.Second)
	date := func(name string) (time.Time, bool) {
		t, err := http.ParseTime(h.Get(prefix + name))
		return t, err == nil && !modified.IsZero()
	}
	unchanged := error(s3err.GetAPIError(s3err.ErrNotModified))
	if prefix != "" {
		unchanged = s3err.GetPreconditionFailedErr(s3err.ConditionIfNoneMatch)
	}
	if match := tagsOf(h, prefix+"If-Match"); match.given {
		if !match.has(etag) {
			return s3err.GetPreconditionFailedErr(s3err.ConditionIfMatch)
		}
	} else if t, ok := date("If-Unmodified-Since"); ok && modified.After(t) {
		return s3err.GetPreconditionFailedErr(s3err.ConditionIfUnmodifiedSince)
	}
	if none := tagsOf(h, prefix+"If-None-Match"); none.given {
		if none.has(etag) {
			return unchanged
		}
	} else if t, ok := date("If-Modified-Since"); ok && !modified.After(t) {
		return unchanged
	}
	return nil
}

// condition makes of a write's conditions on ETags conditions on the mark, which is what a write can be held against atomically.
func (c *call) condition(by fence.Access) (fence.Condition, error) {
	var cond fence.Condition
	match, none := tagsOf(c.r.Header, "If-Match"), tagsOf(c.r.Header, "If-None-Match")
	cond.Exists, cond.Absent = match.any, none.any
	if (!match.given || match.any) && (!none.given || none.any) {
		return cond, nil
	}
	o, err := c.cfg.Objects.Object(c.r.Context(), c.name, fence.Access{Principal: by.Principal, As: by.As})
	absent := fence.CodeOf(err) == fence.CodeNotFound
	if err != nil && !absent {
		return cond, err
	}
	switch {
	case match.given && absent:
		return cond, err // as S3 says of If-Match on what is not there
	case match.given && !match.has(tagOf(o)):
		return cond, s3err.GetPreconditionFailedErr(s3err.ConditionIfMatch)
	case none.given && !absent && none.has(tagOf(o)):
		return cond, s3err.GetPreconditionFailedErr(s3err.ConditionIfNoneMatch)
	case !absent:
		cond.Match = []fence.Token{o.Mark}
	}
	return cond, nil
}
