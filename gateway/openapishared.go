package gateway

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway/openapi"
)

const (
	headerTraceID = "X-Trace-Id"
	tokenPattern  = "^[1-9][0-9]{0,14}$"
	markPattern   = "(0|[1-9][0-9]{0,14})"
)

// documentText is what stands above all else.
func documentText(catalogue bool, more int) string {
	text := "Rows and objects behind fencing tokens. A write is accepted only with a token of the newest grant of the lease that protects the resource, higher than the highest " +
		"that was accepted for it.\n\nEach part of a path is percent-encoded; what a path does not take is refused with 400, never ignored. HEAD answers as GET does, without the body. " +
		"A method that a path does not have is 405."
	switch {
	case !catalogue:
		text += "\n\nThis gateway describes its tables in general only."
	case more > 0:
		text += fmt.Sprintf("\n\nThe tables that the caller may use are described each by itself, but for %d that are too many: these are used as `/v1/rows/{table}` tells.", more)
	default:
		text += "\n\nThe tables that the caller may use are described each by itself, beside `/v1/rows/{table}`, which is about any."
	}
	return text
}

func documentTags() []openapi.Tag {
	return []openapi.Tag{
		{Name: "leases", Description: "Who may write, and with which tokens."},
		{Name: "events", Description: "What happens to leases."},
		{Name: "rows", Description: "Rows of protected tables."},
		{Name: "objects", Description: "Objects in protected buckets."},
		{Name: "uploads", Description: "Bodies of objects that a commit publishes."},
		{Name: "commit", Description: "Several writes, all or none."},
		{Name: "marks", Description: "The highest token that was accepted for a resource."},
		{Name: "openapi", Description: "This document."},
		{Name: "health", Description: "Probes."},
	}
}

func tagOf(f family) string {
	if f.api == "" {
		return "health"
	}
	return f.api
}

// everywhere are the refusals that every path but the probes can give.
func everywhere() []fence.Code {
	return []fence.Code{fence.CodeInvalidRequest, fence.CodeForbidden, fence.CodeRateLimited, fence.CodeOverloaded, fence.CodeUnavailable, fence.CodeInternal}
}

// ofToken are the refusals of a token that a read sends, ofWrite those of a write, and ofJSON those of a JSON body.
func ofToken() []fence.Code {
	return []fence.Code{fence.CodeInvalidToken, fence.CodeStaleToken, fence.CodeGrantEnded, fence.CodeUnissuedToken, fence.CodeForeignToken, fence.CodePreconditionFailed}
}

func ofWrite(more ...fence.Code) []fence.Code {
	return slices.Concat(ofToken(), []fence.Code{fence.CodeSpentToken, fence.CodeTokenRequired, fence.CodeNotFound, fence.CodeContention, fence.CodeOutcomeUnknown}, more)
}

func ofJSON(more ...fence.Code) []fence.Code {
	return append([]fence.Code{fence.CodeTooLarge, fence.CodeUnsupportedMediaType}, more...)
}

func refusalName(status int) string { return "Refusal" + strconv.Itoa(status) }

// codesOf are the codes that a client sees, with a status, or with any where it is 0.
func codesOf(status int) (codes []fence.Code) {
	for _, c := range slices.Sorted(maps.Keys(outcomes)) {
		if public := publicCode(c); (status == 0 || outcomes[c].status == status) && !slices.Contains(codes, public) {
			codes = append(codes, public)
		}
	}
	slices.Sort(codes)
	return codes
}

// sharedRefusal is the answer with a status, whichever of its codes it has.
func (b *documentBuilder) sharedRefusal(status int) *openapi.Response {
	var lines []string
	retryable := false
	for c, o := range outcomes {
		if o.status == status {
			lines = append(lines, fmt.Sprintf("`%s`: %s.", publicCode(c), o.title))
			retryable = retryable || c.Retryable()
		}
	}
	slices.Sort(lines)
	headers := []string{headerToken, "ETag", headerLease}
	switch {
	case status == http.StatusUnauthorized:
		headers = []string{"WWW-Authenticate"}
	case status == http.StatusRequestedRangeNotSatisfiable:
		headers = append(headers, "Content-Range")
	case retryable:
		headers = append(headers, "Retry-After")
	}
	return &openapi.Response{
		Description: strings.Join(lines, " "), Headers: b.headersOf(headers),
		Content: openapi.Ordered[*openapi.Content]{{Name: "application/problem+json", Value: &openapi.Content{Schema: openapi.RefTo("Problem")}}},
	}
}

func asJSON(schema string) openapi.Ordered[*openapi.Content] {
	return openapi.Ordered[*openapi.Content]{{Name: "application/json", Value: &openapi.Content{Schema: openapi.RefTo(schema)}}}
}

func asBytes() openapi.Ordered[*openapi.Content] {
	return openapi.Ordered[*openapi.Content]{{Name: "*/*", Value: &openapi.Content{}}}
}

func asText(kind, about string) openapi.Ordered[*openapi.Content] {
	return openapi.Ordered[*openapi.Content]{{Name: kind, Value: &openapi.Content{Schema: openapi.Text(about)}}}
}

func sharedParameters() openapi.Ordered[*openapi.Parameter] {
	var all openapi.Ordered[*openapi.Parameter]
	add := func(key, in, name, text string, s *openapi.Schema) {
		all.Add(key, &openapi.Parameter{Name: name, In: in, Required: in == "path", Description: text, Schema: s})
	}
	plain := func() *openapi.Schema { return &openapi.Schema{Type: openapi.Types{"string"}, MinLength: 1} }
	add("name", "path", "name", "The lease's name: 1 to 2048 bytes without control characters.", &openapi.Schema{Type: openapi.Types{"string"}, MinLength: 1, MaxLength: fence.MaxLeaseName})
	add("table", "path", "table", `The table: wallets (in the schema public) or sales.orders, quoted as in SQL where it needs it: "a.b"."Reply".`, plain())
	add("key", "path", "key", "The parts of the key, in its order, separated by commas.", &openapi.Schema{Type: openapi.Types{"array"}, Items: &openapi.Schema{Type: openapi.Types{"string"}}, MinItems: 1})
	add("bucket", "path", "bucket", "The bucket.", plain())
	add("objectKey", "path", "key", "The object's key: 1 to 1024 bytes. Its slashes may stand as they are.", &openapi.Schema{Type: openapi.Types{"string"}, MinLength: 1, MaxLength: fence.MaxObjectKey})

	token := func() *openapi.Schema {
		return &openapi.Schema{Type: openapi.Types{"string"}, Pattern: tokenPattern, Examples: []any{"1000"}}
	}
	add("token", "header", headerToken, "A token of the lease that protects the resource.", token())
	add("readToken", "header", headerToken, "Refuses the read once the token's grant is not the newest any more. The mark is not compared.", token())
	add("commitToken", "header", headerToken, "The token of the writes that have none of their own.", token())
	add("leaseId", "header", headerLeaseID, "The grant's secret id.", plain())
	add("ifMatch", "header", "If-Match", `Entity tags, which are marks: "1000". Or *, that the resource exists.`, plain())
	add("ifNoneMatch", "header", "If-None-Match", `Entity tags that the mark must not be. Or *, that the resource does not exist.`, plain())
	add("ifModifiedSince", "header", "If-Modified-Since", "A date, where If-None-Match is not given.", plain())
	add("ifUnmodifiedSince", "header", "If-Unmodified-Since", "A date, where If-Match is not given.", plain())
	add("range", "header", "Range", "One range of bytes.", &openapi.Schema{Type: openapi.Types{"string"}, Examples: []any{"bytes=0-99"}})
	add("ifRange", "header", "If-Range", "An entity tag with which the range counts. A date never does.", plain())
	prefer := func(key, text string, examples ...any) {
		add(key, "header", "Prefer", text, &openapi.Schema{Type: openapi.Types{"string"}, Examples: examples})
	}
	prefer("preferNumbers", "numbers=string writes int8 and numeric as strings.", numbersAsText)
	prefer("preferList", "numbers=string writes int8 and numeric as strings. count=exact tells how many rows pass the filters.", numbersAsText, "count=exact")
	prefer("preferWrite", "numbers=string writes int8 and numeric as strings. return=minimal answers without the row.", numbersAsText, "return=minimal")
	prefer("preferRead", "redirect sends the reader to the store, where that can be read directly; stream does not.", "redirect", "stream")
	prefer("preferMinimal", "return=minimal answers without a body.", "return=minimal")
	for _, name := range []string{"Content-Encoding", "Content-Disposition", "Cache-Control"} {
		add(name, "header", name, "Kept with the object and told with it.", &openapi.Schema{Type: openapi.Types{"string"}, MaxLength: maxContentHeader})
	}
	add("Content-MD5", "header", "Content-MD5", "The base64 of the body's MD5.", plain())
	add("Content-Digest", "header", "Content-Digest", "The body's SHA-256.", &openapi.Schema{Type: openapi.Types{"string"}, Examples: []any{"sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:"}})
	add("crc32c", "header", "X-Amz-Checksum-Crc32c", "The base64 of the body's CRC-32C.", plain())
	add("crc64nvme", "header", "X-Amz-Checksum-Crc64nvme", "The base64 of the body's CRC-64/NVME.", plain())
	add("Repr-Digest", "header", "Repr-Digest", "As Content-Digest.", plain())
	add("lastEventId", "header", headerLastEvent, "The id of the event behind which the stream goes on. It goes before the parameter after.", plain())
	addQueryParameters(add, &all)
	for _, m := range all {
		if m.Name == "token" || m.Name == "leaseId" {
			m.Value.Required = true
		}
	}
	return all
}

func sharedHeaders() openapi.Ordered[*openapi.Header] {
	var all openapi.Ordered[*openapi.Header]
	add := func(name, text, pattern string) {
		all.Add(name, &openapi.Header{Description: text, Schema: &openapi.Schema{Type: openapi.Types{"string"}, Pattern: pattern}})
	}
	add(headerTraceID, "The trace id of a W3C traceparent, else a random one.", "^[0-9a-f]{32}$")
	add(headerToken, "The resource's mark, 0 if it was never written.", "^"+markPattern+"$")
	add("ETag", "The mark, quoted. The store's own tag of an object that lies in its bucket and was never written through the gateway.", `^"[^"]*"$`)
	add(headerLease, "The name of the lease that protects the resource, percent-encoded.", "")
	add(headerReplayed, "true: the same write was accepted before, and this is its answer again.", "^true$")
	add(headerLeaseID, "The grant's secret id.", "")
	add("Location", "The path of the new row, or where the store has the object.", "^(/v1/rows/|https?://)")
	add("Preference-Applied", "The preferences that the answer follows.", "")
	add("Retry-After", "After how many seconds to try again.", "^[1-9][0-9]*$")
	add("WWW-Authenticate", "How to authenticate.", "")
	add("Content-Range", "Which part of the body this is.", "^bytes ")
	add("Last-Modified", "When the bytes were published.", "")
	add("Accept-Ranges", "bytes: a part of the body can be asked for.", "")
	return all
}
