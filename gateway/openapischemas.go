package gateway

import (
	"encoding/json"
	"reflect"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway/openapi"
)

const maxToken = 999_999_999_999_999

// sharedSchemas are those of bodies, in the order in which they stand in the document. What Go structs become is told by these.
func sharedSchemas() (openapi.Ordered[*openapi.Schema], error) {
	named := map[reflect.Type]string{
		reflect.TypeFor[fence.Token]():     "Token",
		reflect.TypeFor[json.Number]():     "Token",
		reflect.TypeFor[fence.Block]():     "Block",
		reflect.TypeFor[fence.Code]():      "Code",
		reflect.TypeFor[fence.EventKind](): "EventKind",
		reflect.TypeFor[fence.Op]():        "Op",
		reflect.TypeFor[queueView]():       "Queue",
		reflect.TypeFor[waitingView]():     "Waiting",
	}
	all := handSchemas()
	for _, s := range []struct {
		name  string
		value any
		about map[string]string
	}{
		{"Problem", problem{}, aboutProblem()},
		{"Grant", grant{}, aboutGrant()},
		{"Lease", leaseView{}, aboutLease()},
		{"Queue", queueView{}, map[string]string{"length": "How many wait.", "waiting": "The first of them, in their order."}},
		{"Waiting", waitingView{}, map[string]string{"holder": "Who waits.", "waiting_ms": "For about how long."}},
		{"Event", eventView{}, aboutEvent()},
		{"Mark", mark{}, map[string]string{
			"resource": "The resource.", "token": "Its mark, 0 if it was never written.", "lease": "The lease that protects it.",
			"principal": "Who wrote the mark.", "written_at": "When.",
		}},
		{"ObjectEntry", objectView{}, map[string]string{
			"key": "The key.", "size": "Its size in bytes.", "token": "The token under which it was published; 0 if it was not written through the gateway.", "etag": "Its entity tag.",
			"sha256": "Its SHA-256, in hex, where that is known.", "content_type": "Its Content-Type, where the ledger has it.",
			"natural": "true: it lies in the bucket under its own key, and was never written through the gateway.", "modified_at": "When it was published.",
		}},
		{"ObjectVersion", version{}, map[string]string{
			"token": "The token under which it was published.", "deleted": "true: the object was deleted then.", "size": "Its size in bytes.", "sha256": "Its SHA-256, in hex, where that is known.",
			"content_type": "Its Content-Type.", "modified_at": "When it was published.", "superseded_at": "When another state followed. Missing for the present one.",
			"keep_until": "How long it is kept. Missing for the present one.",
		}},
		{"CommitResult", committed{}, map[string]string{
			"op": "What was done.", "resource": "To which resource.", "token": "Its mark.", "lease": "The lease that protects it.",
			"created": "true: the resource was not there before.", "size": "The object's size in bytes.", "sha256": "Its SHA-256, in hex.",
		}},
		{"CommitWrite", commitEntry{}, map[string]string{
			"op": "What is done: patch, put or delete a row, put, copy or delete an object.", "resource": "rows/{schema.table}/{key} or objects/{bucket}/{key}, named as in answers.",
			"token": "The write's token. Defaults to that of the header.", "body": "A row's columns, as in a PATCH or PUT of it.", "blob": "Which upload an object's put publishes.",
			"from": "Which object a copy has the body and the headers of: objects/{bucket}/{key}.", "version": "Which version of it. Defaults to the present one.",
			"if_match": "As the header If-Match.", "if_none_match": "As the header If-None-Match.",
		}},
	} {
		schema, err := openapi.Struct(s.value, named, s.about)
		if err != nil {
			return nil, err
		}
		all.Add(s.name, schema)
	}
	refine(all)
	return all, nil
}

// refine says what the types do not.
func refine(all openapi.Ordered[*openapi.Schema]) {
	write, _ := all.Get("CommitWrite")
	write.Required, write.Additional = []string{"op", "resource"}, openapi.Closed()
	body, _ := write.Properties.Get("body")
	body.Type = openapi.Types{"object"}
	result, _ := all.Get("CommitResult")
	row := openapi.RefTo("Row")
	row.Description = "The row, where the caller may read it."
	result.Properties.Add("row", row)
}

func handSchemas() openapi.Ordered[*openapi.Schema] {
	var all openapi.Ordered[*openapi.Schema]
	all.Add("Token", openapi.Integer(0, maxToken, "A token, or a mark. 0 is the mark of what was never written."))
	all.Add("Block", &openapi.Schema{
		Type: openapi.Types{"array"}, Description: "The first and the last token of a run.", Items: openapi.RefTo("Token"), MinItems: 2, MaxItems: 2,
	})
	all.Add("Code", &openapi.Schema{Type: openapi.Types{"string"}, Enum: values(codesOf(0))})
	all.Add("EventKind", &openapi.Schema{Type: openapi.Types{"string"}, Enum: values(append(eventKinds(), kindGap))})
	all.Add("Op", &openapi.Schema{Type: openapi.Types{"string"}, Enum: values([]fence.Op{fence.OpPatch, fence.OpPut, fence.OpCopy, fence.OpDelete})})

	duration := func(text string, example string) *openapi.Schema {
		s := openapi.Text(text)
		s.Examples = []any{example}
		return s
	}
	request := func(name string, members openapi.Ordered[*openapi.Schema], required ...string) {
		s := openapi.Object(members, required...)
		s.Additional = openapi.Closed()
		all.Add(name, s)
	}
	ttl := func() *openapi.Schema { return duration("How long the lease runs: 100ms to 24h.", "30s") }
	holder := openapi.Text("A name for people: 1 to 256 bytes. Defaults to the principal.")
	holder.MinLength, holder.MaxLength = 1, fence.MaxHolder
	acquireID := openapi.Text("Fresh for each attempt. When the reply was lost, the same acquire with the same id answers the same grant.")
	acquireID.MinLength, acquireID.MaxLength = 1, fence.MaxAcquireID
	request("Acquire", openapi.Ordered[*openapi.Schema]{
		{Name: "ttl", Value: ttl()}, {Name: "wait", Value: duration("How long to wait for a lease that somebody else holds: 0s to 1h.", "0s")},
		{Name: "holder", Value: holder}, {Name: "acquire_id", Value: acquireID},
	})
	request("Renew", openapi.Ordered[*openapi.Schema]{{Name: "ttl", Value: ttl()}})
	request("Nothing", nil)
	request("Break", openapi.Ordered[*openapi.Schema]{{Name: "reason", Value: openapi.Text("Why. It is kept with the grant.")}})
	request("Verify", openapi.Ordered[*openapi.Schema]{
		{Name: "token", Value: openapi.Integer(1, maxToken, "The token.")}, {Name: "principal", Value: openapi.Text("Whose. Defaults to the caller.")},
	}, "token")
	all.Add("Verified", openapi.Object(openapi.Ordered[*openapi.Schema]{
		{Name: "lease", Value: openapi.Text("The lease.")}, {Name: "token", Value: openapi.RefTo("Token")}, {Name: "principal", Value: openapi.Text("Whose token it is.")},
	}, "lease", "token", "principal"))
	next := func() *openapi.Schema {
		return openapi.Text("The parameter after of the next page. Missing on the last one.")
	}
	list := func(items *openapi.Schema) *openapi.Schema {
		return &openapi.Schema{Type: openapi.Types{"array"}, Items: items}
	}
	all.Add("LeaseList", openapi.Object(openapi.Ordered[*openapi.Schema]{{Name: "leases", Value: list(openapi.RefTo("Lease"))}, {Name: "next", Value: next()}}, "leases"))

	row := openapi.Object(nil)
	row.Description = "The columns of a row. Every digit is kept: read numbers as such."
	all.Add("Row", row)
	all.Add("Filter", filterSchema())
	all.Add("RowPage", pageOf(openapi.RefTo("Row")))
	for _, name := range []string{"RowChange", "RowPut", "RowInsert"} {
		all.Add(name, &openapi.Schema{Type: openapi.Types{"object"}, Description: "Columns and their values."})
	}
	change, _ := all.Get("RowChange")
	change.MinProperties = 1

	bytes, sum := openapi.Integer(0, 1<<62, "Its size in bytes."), openapi.Text("Its SHA-256, in hex.")
	sum.Pattern = "^[0-9a-f]{64}$"
	all.Add("ObjectWritten", openapi.Object(openapi.Ordered[*openapi.Schema]{
		{Name: "bucket", Value: openapi.Text("The bucket.")}, {Name: "key", Value: openapi.Text("The key.")}, {Name: "size", Value: bytes},
		{Name: "token", Value: openapi.RefTo("Token")}, {Name: "sha256", Value: sum},
	}, "bucket", "key", "size", "token"))
	addObjectLists(&all, list, next)
	all.Add("Upload", openapi.Object(openapi.Ordered[*openapi.Schema]{
		{Name: "blob", Value: openapi.Text("The id that a commit names.")}, {Name: "bucket", Value: openapi.Text("The bucket.")}, {Name: "size", Value: bytes}, {Name: "sha256", Value: sum},
		{Name: "method", Value: openapi.Text("PUT, for the URL.")}, {Name: "url", Value: openapi.Text("Where the client stores the body, of exactly this size and SHA-256.")},
		{Name: "headers", Value: openapi.Object(nil)}, {Name: "expires_at", Value: openapi.Text("Until when.")},
	}, "blob", "bucket", "size", "sha256"))
	writes := list(openapi.RefTo("CommitWrite"))
	writes.MinItems, writes.MaxItems = 1, maxCommitWrites
	request("Commit", openapi.Ordered[*openapi.Schema]{{Name: "writes", Value: writes}}, "writes")
	all.Add("Committed", openapi.Object(openapi.Ordered[*openapi.Schema]{{Name: "results", Value: list(openapi.RefTo("CommitResult"))}}, "results"))
	all.Add("Document", openapi.Object(openapi.Ordered[*openapi.Schema]{{Name: "openapi", Value: openapi.Text("The version of OpenAPI.")}}, "openapi"))
	return all
}

// addObjectLists adds the schemas of lists of objects, and of bodies that point an object to what is there.
func addObjectLists(all *openapi.Ordered[*openapi.Schema], list func(*openapi.Schema) *openapi.Schema, next func() *openapi.Schema) {
	all.Add("ObjectPage", openapi.Object(openapi.Ordered[*openapi.Schema]{
		{Name: "objects", Value: list(openapi.RefTo("ObjectEntry"))}, {Name: "groups", Value: list(openapi.Text("What the keys of a group begin with, up to and with the delimiter."))},
		{Name: "next", Value: next()},
	}, "objects", "groups"))
	before := openapi.RefTo("Token")
	before.Description = "The parameter before of the next page. Missing on the last one."
	all.Add("ObjectVersions", openapi.Object(openapi.Ordered[*openapi.Schema]{
		{Name: "versions", Value: list(openapi.RefTo("ObjectVersion"))}, {Name: "next", Value: before},
	}, "versions"))
	meta := openapi.Object(nil)
	meta.Description, meta.Additional = "The headers X-Meta-*, by their names without that.", openapi.Text("")
	header := openapi.Object(openapi.Ordered[*openapi.Schema]{
		{Name: "content_type", Value: openapi.Text("")}, {Name: "content_encoding", Value: openapi.Text("")}, {Name: "content_disposition", Value: openapi.Text("")},
		{Name: "cache_control", Value: openapi.Text("")}, {Name: "meta", Value: meta},
	})
	header.Description, header.Additional = "Headers in place of the source's.", openapi.Closed()
	point := openapi.Object(openapi.Ordered[*openapi.Schema]{
		{Name: "copy", Value: openapi.Text("Which object to copy: objects/{bucket}/{key}.")}, {Name: "version", Value: openapi.Integer(0, maxToken, "Which version of it. Defaults to the present one.")},
		{Name: "rename", Value: openapi.Text("Which object to rename to this one. Both must have one lease.")}, {Name: "restore", Value: openapi.Integer(0, maxToken, "Which version of its own to restore.")},
		{Name: "header", Value: header},
	})
	point.Additional = openapi.Closed()
	all.Add("ObjectPoint", point)
}

func pageOf(row *openapi.Schema) *openapi.Schema {
	return openapi.Object(openapi.Ordered[*openapi.Schema]{
		{Name: "rows", Value: &openapi.Schema{Type: openapi.Types{"array"}, Items: row, MaxItems: fence.MaxRows}},
		{Name: "next", Value: openapi.Text("The parameter after of the next page. Missing on the last one.")},
		{Name: "count", Value: openapi.Integer(0, 1<<62, "How many rows pass the filters, where that was asked for.")},
	}, "rows")
}

func values[T ~string](of []T) (list []any) {
	for _, v := range of {
		list = append(list, string(v))
	}
	return list
}

func aboutProblem() map[string]string {
	return map[string]string{
		"type": "urn:fencegate: and the code.", "title": "What the code means.", "status": "The HTTP status.", "detail": "What is wrong, for people.", "code": "The outcome.",
		"resource": "What the request was about.", "token": "The token that was sent.", "mark": "The resource's mark.", "lease": "The lease that the token was checked against.",
		"first_token": "The first token of its newest grant.", "holder": "Who holds or held it.", "ended": "Why the newest grant ended.", "ended_by": "Who ended it.",
		"remaining_ms": "How long the lease still runs.", "queue_position": "Where an acquire stood when it gave up waiting.", "queue_length": "How many waited.",
		"field": "The header, parameter, column or part of the key that is wrong.", "constraint": "The constraint that was violated.",
		"write": "Which write of a commit this is about, counted from 0.", "retryable": "Whether the same request may succeed when it is repeated.", "trace_id": "As X-Trace-Id.",
	}
}

func aboutGrant() map[string]string {
	return map[string]string{
		"name": "The lease.", "id": "The grant's secret id.", "holder": "A name for people.", "principal": "Who may spend the tokens.",
		"token": "The first token.", "token_last": "The last token of the newest block.", "blocks": "All tokens.",
		"ttl_ms": "How long the lease runs unless it is renewed.", "remaining_ms": "How long it still runs.", "granted_at": "When it was granted.",
	}
}

func aboutLease() map[string]string {
	about := aboutGrant()
	about["id"], about["queue"] = "-", "Who waits for it."
	return about
}

func aboutEvent() map[string]string {
	return map[string]string{
		"id": "The event's place.", "kind": "What happened.", "at": "When.", "lease": "To which lease.", "principal": "The grant's principal, or who was refused.",
		"holder": "The grant's holder.", "first_token": "The first token of the newest grant.", "ended": "Why the grant ended.", "ended_by": "Who ended it.",
		"code": "Why a write was refused.", "token": "Its token.", "resource": "What it was about.",
	}
}
