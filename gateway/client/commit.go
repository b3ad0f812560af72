package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/fencegate/fencegate/fence"
)

// Commit carries several writes of rows and objects out, or none. Each has a token of its own, so that one commit may span leases. Its
// principal is ignored: the gateway knows it. An error about one of the writes says which in its Write. An unknown outcome is
// settled by repeating, within the bounds of Config. Of an answer that is longer than Config.MaxAnswer the results tell the tokens only.
func (c *Client) Commit(ctx context.Context, commit fence.Commit) (fence.Committed, error) {
	body, tokens, err := commitBody(commit)
	if err != nil {
		return fence.Committed{}, err
	}
	r := &request{
		what: "commit", kind: fenced, method: http.MethodPost, path: "/v1/commit", header: http.Header{}, limit: c.within,
		body: func() []byte { return body }, tokens: tokens,
	}
	if commit.NumbersAsText {
		r.header.Set("Prefer", "numbers=string")
	}
	var done fence.Committed
	err = c.do(ctx, r, func(resp *http.Response) error {
		var told struct{ Results []committed }
		err := c.answer(resp, &told)
		if fence.CodeOf(err) == fence.CodeTooLarge {
			// It was accepted all the same; of the results only the tokens are known.
			told.Results = make([]committed, len(commit.Writes))
			for i := range told.Results {
				told.Results[i].Token = tokens[i]
			}
		} else if err != nil {
			return err
		}
		if len(told.Results) != len(commit.Writes) {
			return fmt.Errorf("the answer has %d results, for %d writes", len(told.Results), len(commit.Writes))
		}
		done = fence.Committed{Replayed: resp.Header.Get(headerReplayed) != ""}
		for i, t := range told.Results {
			done.Results = append(done.Results, t.result(commit.Writes[i]))
		}
		return nil
	})
	return done, err
}

// committed is what a commit's answer tells of one write.
type committed struct {
	Resource string
	Token    fence.Token
	Lease    string
	Created  bool
	Size     int64
	SHA256   string
	Row      json.RawMessage
}

func (t committed) result(w fence.CommitWrite) fence.CommitResult {
	s := fence.State{Resource: t.Resource, Mark: t.Token, Lease: t.Lease}
	if w.Row != nil {
		return fence.CommitResult{Row: &fence.Row{State: s, JSON: t.Row, Created: t.Created}}
	}
	return fence.CommitResult{Object: &fence.Object{State: s, ObjectName: w.Object.Object, Size: t.Size, SHA256: t.SHA256, Created: t.Created}}
}

// commitWrite is one write as the gateway reads it.
type commitWrite struct {
	Op          fence.Op        `json:"op"`
	Resource    string          `json:"resource"`
	Token       fence.Token     `json:"token"`
	Body        json.RawMessage `json:"body,omitempty"`
	Blob        string          `json:"blob,omitempty"`
	From        string          `json:"from,omitempty"`
	Version     json.Number     `json:"version,omitempty"`
	IfMatch     string          `json:"if_match,omitempty"`
	IfNoneMatch string          `json:"if_none_match,omitempty"`
}

func commitBody(c fence.Commit) (body []byte, tokens []fence.Token, err error) {
	writes := make([]commitWrite, len(c.Writes))
	for i, w := range c.Writes {
		if writes[i], err = writeOf(w); err != nil {
			return nil, nil, err
		}
		tokens = append(tokens, writes[i].Token)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(map[string]any{"writes": writes}); err != nil {
		return nil, nil, fence.Wrap(fence.CodeInvalidRequest, err, "the commit cannot be written as JSON")
	}
	return b.Bytes(), tokens, nil
}

func writeOf(w fence.CommitWrite) (commitWrite, error) {
	var (
		out  commitWrite
		cond fence.Condition
	)
	switch {
	case w.Row != nil && w.Object == nil:
		table, err := fence.ParseTableName(w.Row.Row.Table)
		if err != nil {
			return out, err
		}
		out = commitWrite{Op: w.Row.Op, Resource: "rows/" + table.String() + "/" + escapedKey(w.Row.Row.Key), Token: w.Row.Token, Body: w.Row.Body}
		cond = w.Row.If
	case w.Object != nil && w.Row == nil:
		out = commitWrite{Op: w.Object.Op, Resource: "objects/" + w.Object.Object.Bucket + "/" + w.Object.Object.Key, Token: w.Object.Token, Blob: w.Blob}
		if w.Object.Op == fence.OpCopy {
			if !w.Object.KeepHeader {
				return out, fence.Errorf(fence.CodeInvalidRequest, "a commit copies an object with the headers of its source").In("header")
			}
			if out.From = resource(w.Object.From.Object); w.Object.From.Version != 0 {
				out.Version = json.Number(fence.VersionText(w.Object.From.Version))
			}
		}
		cond = w.Object.If
	default:
		return out, fence.Errorf(fence.CodeInvalidRequest, "a write of a commit is of a row or of an object").In("writes")
	}
	h := http.Header{}
	if err := setCondition(h, cond); err != nil {
		return out, err
	}
	out.IfMatch, out.IfNoneMatch = h.Get("If-Match"), h.Get("If-None-Match")
	return out, nil
}

// Upload stores a body for a commit, without publishing it. Of the write it takes the bucket, the headers, the body and what is said of it; the
// key, if there is one, for a principal that may write some keys of the bucket only. The commit is to follow within the gateway's upload limit.
func (c *Client) Upload(ctx context.Context, w fence.ObjectWrite) (fence.Upload, error) {
	path := "/v1/uploads/" + url.PathEscape(w.Object.Bucket)
	if w.Object.Key != "" {
		path += "?key=" + url.QueryEscape(w.Object.Key)
	}
	r := &request{what: "uploads.post", kind: repeatable, method: http.MethodPost, path: path, header: http.Header{}}
	if err := c.describe(r, w); err != nil {
		return fence.Upload{}, err
	}
	var up fence.Upload
	err := c.do(ctx, r, func(resp *http.Response) error {
		var told struct {
			Blob, Bucket, SHA256 string
			Size                 int64
		}
		err := c.answer(resp, &told)
		up = fence.Upload{ID: told.Blob, Bucket: told.Bucket, Size: told.Size, SHA256: told.SHA256}
		return err
	})
	return up, err
}
