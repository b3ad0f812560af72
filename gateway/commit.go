package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/fencegate/fencegate/fence"
)

// maxCommitWrites is how many writes one commit has at most.
const maxCommitWrites = 1000

func (g *Gateway) commitEndpoint(string) (endpoint, error) {
	if g.cfg.Commits == nil {
		return endpoint{}, fence.Errorf(fence.CodeNotFound, "this gateway takes no commits")
	}
	// What it is about stands in the body: each write is authorised by itself.
	return endpoint{piecewise: true, methods: []method{{name: http.MethodPost, op: "commit", verb: VerbWrite, serve: untargeted(g.commit)}}}, nil
}

// commit carries several writes out, or none.
func (g *Gateway) commit(w http.ResponseWriter, r *http.Request) error {
	by, err := access(r)
	if err != nil {
		return err
	}
	for _, name := range []string{"If-Match", "If-None-Match"} {
		if r.Header.Get(name) != "" {
			return fence.Errorf(fence.CodeInvalidRequest, "a commit has no one mark: give if_match with the write that it is about").In(name)
		}
	}
	entries, err := g.readCommit(w, r)
	if err != nil {
		return err
	}
	c := fence.Commit{Principal: by.Principal, As: by.As, NumbersAsText: prefersNumbersAsText(r.Header)}
	for i, e := range entries {
		write, err := g.commitWrite(r, by, e)
		if err != nil {
			return inWrite(i, g.statedWrite(r, write, err))
		}
		c.Writes = append(c.Writes, write)
	}
	if err := onceEach(c.Writes, entries); err != nil {
		return err
	}
	ctx, cancel := detached(r, g.cfg.WriteTimeout)
	defer cancel()
	done, err := g.cfg.Commits.Commit(ctx, c)
	if err != nil {
		return settled(err)
	}
	return respondCommit(w, r, c, done)
}

// statedWrite completes a refusal of a write whose resource was found, as stated does.
func (g *Gateway) statedWrite(r *http.Request, write fence.CommitWrite, err error) error {
	switch {
	case write.Row != nil:
		return lookedUp(r, err, write.Row.Row, g.cfg.Rows.RowMark)
	case write.Object != nil:
		return lookedUp(r, err, write.Object.Object, g.cfg.Objects.ObjectMark)
	}
	return err
}

// inWrite says that an error is about the write with this index.
func inWrite(i int, err error) error {
	var e *fence.Error
	if errors.As(err, &e) {
		e.Write = i + 1
	}
	return err
}

// commitEntry is one write of a commit's body.
type commitEntry struct {
	Op          string          `json:"op"`
	Resource    string          `json:"resource"`
	Token       json.Number     `json:"token"`
	Body        json.RawMessage `json:"body"`
	Blob        string          `json:"blob"`
	From        string          `json:"from"`
	Version     json.Number     `json:"version"`
	IfMatch     string          `json:"if_match"`
	IfNoneMatch string          `json:"if_none_match"`
}

// readCommit reads the body: {"writes":[…]}.
func (g *Gateway) readCommit(w http.ResponseWriter, r *http.Request) ([]commitEntry, error) {
	f, err := g.readFields(w, r, "writes")
	if err != nil {
		return nil, err
	}
	var raw []json.RawMessage
	if json.Unmarshal(f["writes"], &raw) != nil || len(raw) == 0 || len(raw) > maxCommitWrites {
		return nil, fence.Errorf(fence.CodeInvalidRequest, "writes is a list of 1 to %d writes", maxCommitWrites).In("writes")
	}
	entries := make([]commitEntry, len(raw))
	for i, entry := range raw {
		if err := readEntry(entry, &entries[i]); err != nil {
			return nil, inWrite(i, err)
		}
	}
	return entries, nil
}

// readEntry reads one write. The package would take a member in other capitals for the one that is meant.
func readEntry(raw json.RawMessage, into *commitEntry) error {
	known := []string{"op", "resource", "token", "body", "blob", "from", "version", "if_match", "if_none_match"}
	malformed := func(what string) error {
		return fence.Errorf(fence.CodeInvalidRequest, "a write is an object of %s: %s", strings.Join(known, ", "), what).In("writes")
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return malformed("this is none")
	}
	for name := range members {
		if !slices.Contains(known, name) {
			return malformed("it has no " + clip(name, maxField))
		}
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return malformed(jsonProblem(err))
	}
	// A json.Number takes a number in quotes, too, and null for none.
	for name, number := range map[string]json.Number{"token": into.Token, "version": into.Version} {
		if raw, given := members[name]; given && string(raw) != number.String() {
			return malformed(name + " is a number")
		}
	}
	return nil
}

// jsonProblem is the package's error without its prefix, and without the names of Go's types.
func jsonProblem(err error) string {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Sprintf("%s is not a %s", wrong.Field, wrong.Value)
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// commitWrite reads one write and asks whether the caller may do it.
func (g *Gateway) commitWrite(r *http.Request, by fence.Access, e commitEntry) (fence.CommitWrite, error) {
	none := fence.CommitWrite{}
	if e.Token != "" {
		t, err := fence.ParseToken(e.Token.String())
		if err != nil {
			return none, err
		}
		by.Token = t
	}
	cond, err := conditions(http.Header{"If-Match": given(e.IfMatch), "If-None-Match": given(e.IfNoneMatch)})
	if err != nil {
		return none, err
	}
	kind, rest, _ := strings.Cut(e.Resource, "/")
	var write fence.CommitWrite
	switch kind {
	case "rows":
		write.Row, err = g.commitRow(r, by, cond, e, rest)
	case "objects":
		write.Object, err = commitObject(r, by, cond, e, rest)
		write.Blob = e.Blob
	default:
		err = fence.Errorf(fence.CodeInvalidRequest, "a resource is rows/{schema.table}/{key} or objects/{bucket}/{key}").In("resource")
	}
	if err != nil {
		return none, err
	}
	if by.Token == 0 {
		return write, fence.Errorf(fence.CodeTokenRequired, "send a token with the write, or as %s for all that have none", headerToken)
	}
	return write, nil
}

func given(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}

// commitRow reads a write of a row. Its resource is named as in answers: the table as SQL quotes it, the parts of the key
// percent-encoded.
func (g *Gateway) commitRow(r *http.Request, by fence.Access, cond fence.Condition, e commitEntry, rest string) (*fence.RowWrite, error) {
	name, about, err := rowResource(rest)
	if err != nil {
		return nil, err
	}
	if err := allowed(r, about.with(VerbWrite)); err != nil {
		return nil, err
	}
	to := rightsTo(r, name.Table)
	w := &fence.RowWrite{
		Op: fence.Op(e.Op), Row: name, Access: by, If: cond, NumbersAsText: prefersNumbersAsText(r.Header),
		Settable: to.settable, Shown: to.shown,
	}
	switch {
	case e.Blob != "":
		return nil, fence.Errorf(fence.CodeInvalidRequest, "a row has a body, not a blob").In("blob")
	case e.From != "" || e.Version != "":
		return nil, fence.Errorf(fence.CodeInvalidRequest, "a row is not copied").In("from")
	case w.Op == fence.OpInsert:
		return nil, fence.Errorf(fence.CodeInvalidRequest, "a commit names the keys of its rows: put the row under its key").In("op")
	case w.Op == fence.OpDelete:
		if e.Body != nil {
			return nil, fence.Errorf(fence.CodeInvalidRequest, "a delete has no body").In("body")
		}
		return w, nil
	case w.Op != fence.OpPatch && w.Op != fence.OpPut:
		return nil, fence.Errorf(fence.CodeInvalidRequest, "the op of a row is patch, put or delete").In("op")
	}
	if w.Columns, err = scanObject(e.Body, g.cfg.MaxDepth); err != nil {
		return nil, withField(err, "body")
	}
	if w.Op == fence.OpPatch && len(w.Columns) == 0 {
		return nil, fence.Errorf(fence.CodeInvalidRequest, "the body names no column to change").In("body")
	}
	w.Body = e.Body
	return w, nil
}

func commitObject(r *http.Request, by fence.Access, cond fence.Condition, e commitEntry, rest string) (*fence.ObjectWrite, error) {
	name, err := objectResource("objects/"+rest, "resource")
	if err != nil {
		return nil, err
	}
	if err := allowed(r, aboutObject(name).with(VerbWrite)); err != nil {
		return nil, err
	}
	w := &fence.ObjectWrite{Op: fence.Op(e.Op), Object: name, Access: by, If: cond}
	switch {
	case w.Op != fence.OpPut && w.Op != fence.OpCopy && w.Op != fence.OpDelete:
		return nil, fence.Errorf(fence.CodeInvalidRequest, "the op of an object is put, copy or delete").In("op")
	case e.Body != nil:
		return nil, fence.Errorf(fence.CodeInvalidRequest, "an object has a blob, not a body: store its bytes by POST /v1/uploads/{bucket}").In("body")
	case w.Op != fence.OpPut && e.Blob != "":
		return nil, fence.Errorf(fence.CodeInvalidRequest, "a %s has no blob", w.Op).In("blob")
	case w.Op != fence.OpCopy && (e.From != "" || e.Version != ""):
		return nil, fence.Errorf(fence.CodeInvalidRequest, "a %s has no from and no version", w.Op).In("from")
	case w.Op == fence.OpCopy:
		return w, copySource(r, e, w)
	case w.Op == fence.OpPut && (e.Blob == "" || len(e.Blob) > maxBlobID):
		return nil, fence.Errorf(fence.CodeInvalidRequest, "blob is the id that POST /v1/uploads/{bucket} gave").In("blob")
	}
	return w, nil
}

// copySource reads what a write of a commit copies, with its headers.
func copySource(r *http.Request, e commitEntry, w *fence.ObjectWrite) (err error) {
	w.KeepHeader = true
	if w.From.Object, err = objectResource(e.From, "from"); err != nil {
		return err
	}
	if e.Version != "" {
		if w.From.Version, err = fence.ParseVersion(e.Version.String()); err != nil {
			return withField(err, "version")
		}
	}
	return allowed(r, aboutObject(w.From.Object).with(VerbRead))
}

// maxBlobID is longer than any id of an upload, in bytes.
const maxBlobID = 128

func withField(err error, field string) error {
	var e *fence.Error
	if errors.As(err, &e) && e.Field == "" {
		e.Field = field
	}
	return err
}

// onceEach refuses a resource or a blob that is named twice: which of the two writes would be the last?
func onceEach(writes []fence.CommitWrite, entries []commitEntry) error {
	resources, blobs := map[string]int{}, map[string]int{}
	for i, w := range writes {
		resource := entries[i].Resource
		if w.Row != nil {
			resource = "rows/" + w.Row.Row.Table + "/" + strings.Join(w.Row.Row.Key, "\x00")
		}
		if first, twice := resources[resource]; twice {
			return inWrite(i, fence.Errorf(fence.CodeInvalidRequest, "the resource is that of write %d", first).In("resource"))
		}
		resources[resource] = i + 1
		if w.Blob == "" {
			continue
		}
		if first, twice := blobs[w.Blob]; twice {
			return inWrite(i, fence.Errorf(fence.CodeInvalidRequest, "the blob is that of write %d", first).In("blob"))
		}
		blobs[w.Blob] = i + 1
	}
	return nil
}
