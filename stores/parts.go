package stores

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/fencegate/fencegate/fence"
)

// MaxParts is how many parts a body has at most.
const MaxParts = 10_000

// partPage is how many parts the store is asked for at once.
const partPage = 1000

func (o *Objects) assembler() (Assembler, error) {
	a, ok := o.blobs.(Assembler)
	if !ok {
		return nil, fence.Errorf(fence.CodeInvalidRequest, "the blob store takes no bodies in parts")
	}
	return a, nil
}

// BeginParts begins a body that is stored in parts, for the put of an object. A token that would be refused is refused now; it is
// asked for again when the body is published.
func (o *Objects) BeginParts(ctx context.Context, w fence.ObjectWrite) (fence.PartUpload, error) {
	w.Op, w.Size = fence.OpPut, -1
	a, err := o.assembler()
	if err != nil {
		return fence.PartUpload{}, err
	}
	if _, err := o.CheckWrite(ctx, w); err != nil {
		return fence.PartUpload{}, err
	}
	id, err := o.ledger.BeginBlob(ctx, w.Object.Bucket, w.Principal)
	if err != nil {
		return fence.PartUpload{}, fmt.Errorf("begin blob: %w", err)
	}
	u := fence.PartUpload{ID: id, Object: w.Object, Principal: w.Principal, Token: w.Token, Header: w.Header}
	if u.Upload, err = a.BeginParts(ctx, w.Object.Bucket, id); err == nil {
		err = o.ledger.KeepParts(ctx, u)
	}
	if err != nil {
		o.dropParts(ctx, a, u)
		return fence.PartUpload{}, err
	}
	return u, nil
}

// dropParts gives up what was stored in parts.
func (o *Objects) dropParts(ctx context.Context, a Assembler, u fence.PartUpload) {
	o.abort(ctx, u.ID)
	if u.Upload == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	// What stays behind the collector drops.
	_ = a.DropParts(ctx, u.Object.Bucket, u.ID, u.Upload)
}

// UseParts returns an upload of the principal's for an object. CodeUploadExpired when there is none; one that was given up is returned with
// it.
func (o *Objects) UseParts(ctx context.Context, id, principal string, name fence.ObjectName) (fence.PartUpload, error) {
	return o.ledger.UseParts(ctx, id, principal, name)
}

// ListParts lists uploads of a principal that were neither published nor given up, in the order of their keys and ids behind that of
// after.
func (o *Objects) ListParts(ctx context.Context, principal, bucket, prefix string, after fence.PartUpload, limit int) ([]fence.PartUpload, error) {
	return o.ledger.ListParts(ctx, principal, bucket, prefix, after, limit)
}

// PutPart stores a part of size bytes, in place of one of the same number.
func (o *Objects) PutPart(ctx context.Context, u fence.PartUpload, number int, body io.Reader, size int64) (fence.ObjectPart, error) {
	a, err := o.assembler()
	switch {
	case err != nil:
		return fence.ObjectPart{}, err
	case u.Published:
		return fence.ObjectPart{}, errComplete()
	case number < 1 || number > MaxParts:
		return fence.ObjectPart{}, fence.Errorf(fence.CodeInvalidRequest, "parts have numbers from 1 to %d", MaxParts).In("partNumber")
	case size < 0 || size > o.cfg.MaxSize:
		return fence.ObjectPart{}, o.errTooLarge()
	}
	limited, cancel := context.WithTimeoutCause(ctx, o.cfg.UploadLimit, errUploadLimit)
	defer cancel()
	b := NewBody(limited, body, size)
	part, err := a.PutPart(limited, u.Object.Bucket, u.ID, u.Upload, number, b, size)
	if err == nil {
		err = b.End()
	}
	switch {
	case err != nil && b.Err() == nil:
		return fence.ObjectPart{}, o.blame(limited, b, lost(err))
	case err != nil:
		return fence.ObjectPart{}, o.blame(limited, b, err)
	}
	return part, nil
}

// CopyPart stores a run of bytes of an object as a part.
func (o *Objects) CopyPart(ctx context.Context, u fence.PartUpload, number int, from fence.Object, offset, length int64) (fence.ObjectPart, error) {
	body, err := o.Open(ctx, from, offset, length)
	if err != nil {
		return fence.ObjectPart{}, err
	}
	defer body.Close()
	return o.PutPart(ctx, u, number, body, length)
}

// Parts lists up to limit parts of an upload with numbers behind after.
func (o *Objects) Parts(ctx context.Context, u fence.PartUpload, after, limit int) (parts []fence.ObjectPart, more bool, err error) {
	a, err := o.assembler()
	switch {
	case err != nil:
		return nil, false, err
	case u.Published:
		return nil, false, errComplete()
	}
	parts, more, err = a.Parts(ctx, u.Object.Bucket, u.ID, u.Upload, after, limit)
	return parts, more, lost(err)
}

func errComplete() *fence.Error {
	return fence.Errorf(fence.CodeUploadExpired, "the upload is complete already")
}

// lost tells of an upload that is pending in the ledger, and gone from the store, as of one that was given up.
func lost(err error) error {
	if errors.Is(err, ErrMissing) && fence.CodeOf(err) != fence.CodeStoreUnavailable {
		return fence.Wrap(fence.CodeUploadExpired, err, "the store has the parts of this upload no more")
	}
	return err
}

// AbortParts gives an upload up.
func (o *Objects) AbortParts(ctx context.Context, u fence.PartUpload) error {
	a, err := o.assembler()
	if err != nil {
		return err
	}
	if u.Published {
		return errComplete()
	}
	if err := o.ledger.AbortBlob(ctx, u.ID); err != nil {
		return err
	}
	return a.DropParts(ctx, u.Object.Bucket, u.ID, u.Upload)
}

// JoinParts publishes the parts, which the client names by number and ETag in their order, as the object's body. To join again what was
// published with this token is no error, as long as the object has it still.
func (o *Objects) JoinParts(ctx context.Context, u fence.PartUpload, w fence.ObjectWrite, named []fence.ObjectPart) (fence.Object, error) {
	w.Op, w.Object, w.Header, w.Size = fence.OpPut, u.Object, u.Header, -1
	if w.Token == 0 {
		w.Token = u.Token
	}
	if u.Published {
		return o.joined(ctx, u, w)
	}
	a, err := o.assembler()
	if err != nil {
		return fence.Object{}, err
	}
	// Before the parts are looked at, which the store may have no more: a token that has passed is told as such.
	if w, err = o.CheckWrite(ctx, w); err != nil {
		return fence.Object{}, err
	}
	parts, blob, err := o.check(ctx, a, u, named)
	if errors.Is(err, ErrMissing) {
		// Another request may have joined or published them since this one has looked.
		again, useErr := o.ledger.UseParts(ctx, u.ID, u.Principal, u.Object)
		switch {
		case useErr != nil:
		case again.Published:
			return o.joined(ctx, again, w)
		case again.ETag != "" && u.ETag == "":
			u = again
			parts, blob, err = o.check(ctx, a, u, named)
		}
	}
	if err != nil {
		return fence.Object{}, lost(err)
	}
	if w.MayBeNatural {
		if w.Natural, err = o.isNatural(ctx, w.Object); err != nil {
			return fence.Object{}, err
		}
	}
	if err := o.ledger.JoiningParts(ctx, blob); err != nil {
		return fence.Object{}, err
	}
	if err := a.JoinParts(ctx, u.Object.Bucket, u.ID, u.Upload, parts); err != nil {
		return fence.Object{}, lost(err)
	}
	obj, err := o.ledger.PutObject(ctx, w, blob)
	if fence.CodeOf(err) == fence.CodeUploadExpired {
		// Somebody else's request, or this one's first try, may have published it in between.
		if again, useErr := o.ledger.UseParts(ctx, u.ID, u.Principal, u.Object); useErr == nil && again.Published {
			return o.joined(ctx, again, w)
		}
	}
	return obj, err
}

// joined answers for a body that was published before.
func (o *Objects) joined(ctx context.Context, u fence.PartUpload, w fence.ObjectWrite) (fence.Object, error) {
	obj, err := o.ledger.Object(ctx, u.Object, fence.Access{Principal: w.Principal})
	var e *fence.Error
	switch {
	case fence.CodeOf(err) == fence.CodeNotFound && errors.As(err, &e) && e.State != nil:
		obj.State = *e.State // it was deleted since
	case err != nil:
		return fence.Object{}, err
	}
	switch {
	case obj.Mark == w.Token && obj.Blob == u.ID:
		obj.Replayed = true
		return obj, nil
	case w.Token < obj.Mark:
		e = fence.Errorf(fence.CodeStaleToken, "token %d is below the mark %d: the upload was published, and the object has been written since", w.Token, obj.Mark)
	case w.Token == obj.Mark:
		e = fence.Errorf(fence.CodeSpentToken, "token %d was spent on another write after the upload was published", w.Token)
	default:
		e = errComplete()
	}
	e.State, e.Token = &obj.State, w.Token
	return fence.Object{}, e
}

// check holds the parts that are named against those that are stored, and returns them with what they make.
func (o *Objects) check(ctx context.Context, a Assembler, u fence.PartUpload, named []fence.ObjectPart) ([]fence.ObjectPart, fence.Blob, error) {
	invalid := func(format string, args ...any) error {
		return fence.Errorf(fence.CodeInvalidRequest, format, args...).In("parts")
	}
	blob := fence.Blob{ID: u.ID}
	if len(named) == 0 || len(named) > MaxParts {
		return nil, blob, invalid("a body has 1 to %d parts, not %d", MaxParts, len(named))
	}
	stored, err := o.stored(ctx, a, u)
	if errors.Is(err, ErrMissing) && u.ETag != "" && u.ETag == joinedTag(named) {
		// They were joined before, and what came of that was not told. The store compares what there is with the size alone.
		parts := make([]fence.ObjectPart, len(named))
		for i, n := range named {
			parts[i] = fence.ObjectPart{Number: n.Number, ETag: n.ETag}
		}
		parts[0].Size = u.Size
		blob.Size, blob.ETag = u.Size, u.ETag
		return parts, blob, nil
	}
	if err != nil {
		return nil, blob, err
	}
	parts := make([]fence.ObjectPart, len(named))
	for i, n := range named {
		if i > 0 && n.Number <= named[i-1].Number {
			return nil, blob, invalid("the parts do not stand in the order of their numbers: %d behind %d", n.Number, named[i-1].Number)
		}
		at, found := slices.BinarySearchFunc(stored, n.Number, func(p fence.ObjectPart, number int) int { return p.Number - number })
		if !found || stored[at].ETag != n.ETag {
			return nil, blob, invalid("there is no part %d with the ETag %.64q", n.Number, n.ETag)
		}
		parts[i] = stored[at]
		if blob.Size += parts[i].Size; blob.Size > o.cfg.MaxSize {
			return nil, blob, o.errTooLarge()
		}
	}
	blob.ETag = joinedTag(parts)
	return parts, blob, nil
}

// joinedTag is the ETag that S3 gives to what parts make: the MD5 of their MD5s, and how many they are. An ETag that is no MD5 (as where
// the store encrypts with keys of its own) counts as it is.
func joinedTag(parts []fence.ObjectPart) string {
	sums := md5.New()
	for _, p := range parts {
		sum, err := hex.DecodeString(p.ETag)
		if err != nil {
			sum = []byte(p.ETag)
		}
		sums.Write(sum)
	}
	return hex.EncodeToString(sums.Sum(nil)) + "-" + strconv.Itoa(len(parts))
}

func (o *Objects) stored(ctx context.Context, a Assembler, u fence.PartUpload) (all []fence.ObjectPart, err error) {
	for after, more := 0, true; more; {
		var page []fence.ObjectPart
		if page, more, err = a.Parts(ctx, u.Object.Bucket, u.ID, u.Upload, after, partPage); err != nil {
			return nil, err
		}
		if len(page) == 0 && more {
			return nil, fence.Wrap(fence.CodeStoreUnavailable, errors.New("an empty page of parts"), "the store does not tell its parts")
		}
		if all = append(all, page...); len(page) > 0 {
			after = page[len(page)-1].Number
		}
	}
	return all, nil
}
