package gateway

import (
	"maps"
	"net/http"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway/openapi"
)

// calls describes all that is served, by method and path.
func calls() map[string]call {
	all := map[string]call{
		"GET /openapi.json": {
			id: "openapi", summary: "This document",
			text:    "It describes the tables that the caller may read or write, as they are now.",
			answers: []told{{http.StatusOK, "The document.", nil, asJSON("Document")}},
		},
		"GET /livez": {
			id: "live", summary: "Whether the process answers",
			answers: []told{{http.StatusOK, "It does.", nil, asText("text/plain", "ok")}},
		},
		"GET /readyz": {
			id: "ready", summary: "Whether writes can be served",
			answers: []told{
				{http.StatusOK, "They can.", nil, asText("text/plain", "ok")},
				{http.StatusServiceUnavailable, "They cannot, or the gateway is about to stop.", nil, asText("text/plain", "Which of the two.")},
			},
		},
	}
	for _, more := range []map[string]call{leaseCalls(), rowCalls(), objectCalls(), commitCalls()} {
		maps.Copy(all, more)
	}
	return all
}

func leaseCalls() map[string]call {
	granted := func(status int, text string) []told {
		return []told{{status, text, []string{headerLeaseID}, asJSON("Grant")}}
	}
	holder := []string{"leaseId"}
	return map[string]call{
		"GET /v1/leases": {
			id: "listLeases", summary: "List the leases that are held",
			text:       "Leases that the caller may not read are left out.",
			parameters: []string{"leasePrefix", "leaseLimit", "after"},
			answers:    []told{{http.StatusOK, "A page of leases, in the order of their names.", nil, asJSON("LeaseList")}},
		},
		"GET /v1/leases/{name}": {
			id: "inspectLease", summary: "Who holds a lease",
			answers:  []told{{http.StatusOK, "The grant without its id, and who waits.", nil, asJSON("Lease")}},
			refusals: []fence.Code{fence.CodeNotFound},
		},
		"POST /v1/leases/{name}": {
			id: "acquireLease", summary: "Acquire a lease",
			text: "Answers when the lease is granted, or when the time to wait for it is over.", body: jsonBody("Acquire", false),
			answers:  granted(http.StatusCreated, "The grant."),
			refusals: ofJSON(fence.CodeLeaseHeld, fence.CodeGrantEnded),
		},
		"PUT /v1/leases/{name}": {
			id: "renewLease", summary: "Renew a lease",
			parameters: holder, body: jsonBody("Renew", false),
			answers:  granted(http.StatusOK, "The grant."),
			refusals: ofJSON(fence.CodeLeaseLost, fence.CodeOutcomeUnknown),
		},
		"DELETE /v1/leases/{name}": {
			id: "releaseLease", summary: "Release a lease",
			text:       "The grant's tokens are void once this is answered.",
			parameters: holder,
			answers:    []told{{http.StatusNoContent, "It is released, now or before.", nil, nil}},
			refusals:   []fence.Code{fence.CodeLeaseLost, fence.CodeOutcomeUnknown},
		},
		"POST /v1/leases/{name}/tokens": {
			id: "moreTokens", summary: "Add a block of tokens to a grant",
			parameters: holder, body: jsonBody("Nothing", false),
			answers:  granted(http.StatusOK, "The grant."),
			refusals: ofJSON(fence.CodeLeaseLost, fence.CodeOutcomeUnknown),
		},
		"POST /v1/leases/{name}/verify": {
			id: "verifyToken", summary: "Whether a token is still good",
			text: "Answers as a write with the token would be judged. It changes and renews nothing.", body: jsonBody("Verify", true),
			answers:  []told{{http.StatusOK, "It is.", nil, asJSON("Verified")}},
			refusals: ofJSON(fence.CodeInvalidToken, fence.CodeStaleToken, fence.CodeGrantEnded, fence.CodeUnissuedToken, fence.CodeForeignToken),
		},
		"POST /v1/leases/{name}/break": {
			id: "breakLease", summary: "End somebody else's grant",
			text: "Needs the admin right. The grant's tokens are void once this is answered.", body: jsonBody("Break", false),
			answers:  []told{{http.StatusNoContent, "It has ended.", nil, nil}},
			refusals: ofJSON(fence.CodeNotFound, fence.CodeOutcomeUnknown),
		},
		"GET /v1/events": {
			id: "streamEvents", summary: "What happens to leases",
			text:       "A stream of server-sent events. The data of each is JSON of the schema Event.",
			parameters: []string{"eventPrefix", "eventKinds", "eventAfter", "eventFrom", "lastEventId"},
			answers:    []told{{http.StatusOK, "The stream.", nil, asText("text/event-stream", "Server-sent events.")}},
		},
	}
}

// aboutResource are the headers of answers about a resource.
func aboutResource(more ...string) []string {
	return append([]string{headerToken, "ETag", headerLease}, more...)
}

func jsonBody(schema string, required bool) *openapi.RequestBody {
	return &openapi.RequestBody{Required: required, Content: asJSON(schema)}
}

func rowCalls() map[string]call {
	written := aboutResource(headerReplayed, "Preference-Applied")
	changed := told{http.StatusOK, "The row as it is now.", written, asJSON("Row")}
	silent := told{http.StatusNoContent, "Done. The row is not answered: the client does not want it, may not read it, or it is gone since.", written, nil}
	constraint := []fence.Code{fence.CodeConstraintViolation, fence.CodeWriteSuppressed}
	conditional := []string{"token", "ifMatch", "ifNoneMatch", "preferWrite"}
	return map[string]call{
		"GET /v1/rows/{table}": {
			id: "listRows", summary: "Read rows",
			text:       "A list is about no one resource, so it has no mark and takes no token. A page that has a next is followed by another.",
			parameters: []string{"filters", "select", "order", "rowLimit", "after", "preferList"},
			answers:    []told{{http.StatusOK, "A page of rows.", []string{"Preference-Applied"}, asJSON("RowPage")}},
			refusals:   []fence.Code{fence.CodeNotFound, fence.CodeConstraintViolation},
		},
		"POST /v1/rows/{table}": {
			id: "insertRow", summary: "Insert a row under a key that the database completes",
			text:       "For tables whose rows have one lease. The token is spent on the table's own resource, and raises the new row's mark, too.",
			parameters: []string{"token", "ifMatch", "ifNoneMatch", "preferWrite"}, body: jsonBody("RowInsert", true),
			answers: []told{
				{http.StatusCreated, "The new row. Location names it.", aboutResource(headerReplayed, "Preference-Applied", "Location"), asJSON("Row")},
				{http.StatusNoContent, silent.text, aboutResource(headerReplayed, "Preference-Applied", "Location"), nil},
			},
			refusals: ofWrite(ofJSON(constraint...)...),
		},
		"GET /v1/rows/{table}/{key}": {
			id: "getRow", summary: "Read a row",
			text:       "Never 304: a row can change past the gateway without its mark.",
			parameters: []string{"readToken", "ifMatch", "preferNumbers"},
			answers:    []told{{http.StatusOK, "The row.", aboutResource("Preference-Applied"), asJSON("Row")}},
			// What a view computes can fail in the words of whoever wrote it.
			refusals: append(ofToken(), fence.CodeNotFound, fence.CodeConstraintViolation),
		},
		"PATCH /v1/rows/{table}/{key}": {
			id: "patchRow", summary: "Change columns of a row",
			parameters: conditional, body: jsonBody("RowChange", true),
			answers:  []told{changed, silent},
			refusals: ofWrite(ofJSON(constraint...)...),
		},
		"PUT /v1/rows/{table}/{key}": {
			id: "putRow", summary: "Insert or replace a row",
			text: "Columns that are left out take their defaults. If-None-Match: * inserts only, and so does a caller that may set some columns only.", parameters: conditional, body: jsonBody("RowPut", true),
			answers:  []told{changed, {http.StatusCreated, "The row, which is new.", written, asJSON("Row")}, silent},
			refusals: ofWrite(ofJSON(constraint...)...),
		},
		"DELETE /v1/rows/{table}/{key}": {
			id: "deleteRow", summary: "Delete a row",
			text: "The mark stays.", parameters: []string{"token", "ifMatch", "ifNoneMatch"},
			answers:  []told{{http.StatusNoContent, "It is deleted.", aboutResource(headerReplayed), nil}},
			refusals: ofWrite(constraint...),
		},
		"GET /v1/marks/rows/{table}": {
			id: "getTableMark", summary: "The mark of a table's own resource",
			text:     "Inserts with a generated key spend their tokens on it.",
			answers:  []told{{http.StatusOK, "The mark.", aboutResource(), asJSON("Mark")}},
			refusals: []fence.Code{fence.CodeNotFound},
		},
		"GET /v1/marks/rows/{table}/{key}": {
			id: "getRowMark", summary: "The mark of a row, whether there is one or not",
			answers:  []told{{http.StatusOK, "The mark.", aboutResource(), asJSON("Mark")}},
			refusals: []fence.Code{fence.CodeNotFound},
		},
	}
}

func objectCalls() map[string]call {
	kept := aboutResource("Last-Modified", "Accept-Ranges")
	const path = "/v1/objects/{bucket}/{key}"
	stored := []fence.Code{fence.CodeTooLarge, fence.CodeChecksumMismatch, fence.CodeUploadExpired, fence.CodeStoreUnavailable}
	written := aboutResource(headerReplayed, "Preference-Applied")
	sent := []string{"Content-Encoding", "Content-Disposition", "Cache-Control", "Content-MD5", "Content-Digest", "Repr-Digest", "crc32c", "crc64nvme"}
	return map[string]call{
		"GET /v1/objects/{bucket}": {
			id: "listObjects", summary: "List the objects of a bucket",
			text:       "In the order of the bytes of their keys. What the caller may not read is left out. A page that has a next is followed by another.",
			parameters: []string{"objectPrefix", "delimiter", "objectLimit", "after"},
			answers:    []told{{http.StatusOK, "A page of objects and groups.", nil, asJSON("ObjectPage")}},
			refusals:   []fence.Code{fence.CodeNotFound, fence.CodeStoreUnavailable},
		},
		"GET /v1/versions/{bucket}/{key}": {
			id: "listVersions", summary: "List the states of an object that are kept",
			text:       "The present one, and those that can be read and restored, newest first.",
			parameters: []string{"versionLimit", "before"},
			answers:    []told{{http.StatusOK, "A page of versions.", nil, asJSON("ObjectVersions")}},
			refusals:   []fence.Code{fence.CodeInvalidToken, fence.CodeNotFound},
		},
		"POST " + path: {
			id: "copyObject", summary: "Copy, rename or restore an object",
			text:       "The object gets the body of another one, or a former one of its own. One of copy, rename and restore is given.",
			parameters: []string{"token", "ifMatch", "ifNoneMatch", "preferMinimal"}, body: jsonBody("ObjectPoint", true),
			answers: []told{
				{http.StatusOK, "It is replaced.", written, asJSON("ObjectWritten")},
				{http.StatusCreated, "It is published for the first time.", written, asJSON("ObjectWritten")},
				{http.StatusNoContent, "Done. The client wants no body.", written, nil},
			},
			refusals: ofWrite(ofJSON(fence.CodeUploadExpired, fence.CodeStoreUnavailable)...),
		},
		"GET " + path: {
			id: "getObject", summary: "Read an object",
			text:       "The headers that were kept with the object are answered, too: its Content-Type, and X-Meta-*.",
			parameters: []string{"version", "readToken", "preferRead", "range", "ifRange", "ifMatch", "ifNoneMatch", "ifModifiedSince", "ifUnmodifiedSince"},
			answers: []told{
				{http.StatusOK, "The whole body.", kept, asBytes()},
				{http.StatusPartialContent, "The part that was asked for.", append(kept, "Content-Range"), asBytes()},
				{http.StatusTemporaryRedirect, "The store has it at Location, for some minutes.", aboutResource("Location", "Preference-Applied"), nil},
				{http.StatusNotModified, "The client has it already.", kept, nil},
			},
			refusals: append(ofToken(), fence.CodeNotFound, fence.CodeRangeNotSatisfiable, fence.CodeStoreUnavailable),
		},
		"PUT " + path: {
			id: "putObject", summary: "Publish an object",
			text:       "Content-Type and headers named X-Meta-* are kept with it. A body that breaks off publishes nothing.",
			parameters: append([]string{"token", "ifMatch", "ifNoneMatch", "preferMinimal"}, sent...),
			body:       &openapi.RequestBody{Description: "The object's bytes.", Content: asBytes()},
			answers: []told{
				{http.StatusOK, "It is replaced.", written, asJSON("ObjectWritten")},
				{http.StatusCreated, "It is published for the first time.", written, asJSON("ObjectWritten")},
				{http.StatusNoContent, "Done. The client wants no body.", written, nil},
			},
			refusals: ofWrite(stored...),
		},
		"DELETE " + path: {
			id: "deleteObject", summary: "Delete an object",
			text: "The mark stays.", parameters: []string{"token", "ifMatch", "ifNoneMatch"},
			answers:  []told{{http.StatusNoContent, "It is deleted.", aboutResource(headerReplayed), nil}},
			refusals: ofWrite(),
		},
		"GET /v1/marks/objects/{bucket}/{key}": {
			id: "getObjectMark", summary: "The mark of an object, whether there is one or not",
			answers:  []told{{http.StatusOK, "The mark.", aboutResource(), asJSON("Mark")}},
			refusals: []fence.Code{fence.CodeNotFound},
		},
		"POST /v1/uploads/{bucket}": {
			id: "uploadObject", summary: "Store a body that a commit publishes",
			text:       "It publishes nothing, so it takes no token. Content-Type and headers named X-Meta-* are kept for the object.",
			parameters: append([]string{"uploadKey", "presign"}, sent...),
			body:       &openapi.RequestBody{Description: "The object's bytes; with presign, JSON of size, sha256 (in hex) and, where wanted, header.", Content: asBytes()},
			answers:    []told{{http.StatusCreated, "It is stored, or, with presign, the client may store it.", nil, asJSON("Upload")}},
			refusals:   append(stored, fence.CodeUnsupportedMediaType, fence.CodeNotFound, fence.CodeOutcomeUnknown),
		},
	}
}

func commitCalls() map[string]call {
	return map[string]call{
		"POST /v1/commit": {
			id: "commit", summary: "Write several rows and objects, all or none",
			text:       "Each write may have a token of its own, so that one commit spans leases. A refusal says which write caused it.",
			parameters: []string{"commitToken", "preferWrite"}, body: jsonBody("Commit", true),
			answers:  []told{{http.StatusOK, "All are done. The results stand in the order of the writes.", []string{headerReplayed, "Preference-Applied"}, asJSON("Committed")}},
			refusals: ofWrite(ofJSON(fence.CodeConstraintViolation, fence.CodeWriteSuppressed, fence.CodeUploadExpired)...),
		},
	}
}
