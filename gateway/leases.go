package gateway

import (
	"errors"
	"net/http"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

func (g *Gateway) leaseEndpoint(rest string) (endpoint, error) {
	name, call, err := leasePath(rest)
	if err != nil {
		return endpoint{}, err
	}
	e := endpoint{about: Action{Lease: name}, target: name}
	switch call {
	case "tokens":
		e.methods = []method{on(http.MethodPost, "tokens", VerbLease, g.moreTokens)}
	case "verify":
		e.methods = []method{on(http.MethodPost, "verify", VerbRead, g.verify)}
	case "break":
		e.methods = []method{on(http.MethodPost, "break", VerbAdmin, g.breakLease)}
	default:
		e.methods = []method{
			on(http.MethodGet, "inspect", VerbRead, g.inspect),
			on(http.MethodPost, "acquire", VerbLease, g.acquire),
			on(http.MethodPut, "renew", VerbLease, g.renew),
			on(http.MethodDelete, "release", VerbLease, g.release),
		}
	}
	return e, nil
}

// acquire runs on the client's own context: a waiter that has left must not be served.
func (g *Gateway) acquire(w http.ResponseWriter, r *http.Request, name string) error {
	if err := g.pace.check(principalOf(r.Context()), time.Now()); err != nil {
		return about(name, err)
	}
	f, err := g.readFields(w, r, "ttl", "wait", "holder", "acquire_id")
	if err != nil {
		return err
	}
	req := lease.Request{Name: name, Principal: principalOf(r.Context())}
	if req.TTL, err = f.duration("ttl", lease.MinTTL, lease.MaxTTL); err != nil {
		return err
	}
	if req.Wait, err = f.duration("wait", 0, lease.MaxWait); err != nil {
		return err
	}
	holder, given, err := f.text("holder")
	if err == nil && given {
		err = fence.CheckHolder(holder)
	}
	if err != nil {
		return err
	}
	req.Holder = holder
	if req.AcquireID, given, err = f.text("acquire_id"); err != nil {
		return err
	}
	if n := len(req.AcquireID); given && n == 0 || n > fence.MaxAcquireID {
		return fence.Errorf(fence.CodeInvalidRequest, "acquire_id has 1 to %d bytes", fence.MaxAcquireID).In("acquire_id")
	}
	ctx, cancel := g.untilDrained(r)
	defer cancel()
	held, err := g.cfg.Leases.Acquire(ctx, req)
	if err != nil {
		return about(name, err)
	}
	respondGrant(w, http.StatusCreated, held)
	return nil
}

func (g *Gateway) renew(w http.ResponseWriter, r *http.Request, name string) error {
	ref, err := refOf(r, name)
	if err != nil {
		return err
	}
	f, err := g.readFields(w, r, "ttl")
	if err != nil {
		return err
	}
	ttl, err := f.duration("ttl", lease.MinTTL, lease.MaxTTL)
	if err != nil {
		return err
	}
	ctx, cancel := detached(r, g.cfg.WriteTimeout)
	defer cancel()
	held, err := g.cfg.Leases.Renew(ctx, ref, ttl)
	if err != nil {
		return about(name, settled(err))
	}
	respondGrant(w, http.StatusOK, held)
	return nil
}

func (g *Gateway) moreTokens(w http.ResponseWriter, r *http.Request, name string) error {
	if err := g.pace.check(principalOf(r.Context()), time.Now()); err != nil {
		return about(name, err)
	}
	ref, err := refOf(r, name)
	if err != nil {
		return err
	}
	if _, err := g.readFields(w, r); err != nil {
		return err
	}
	ctx, cancel := detached(r, g.cfg.WriteTimeout)
	defer cancel()
	held, err := g.cfg.Leases.More(ctx, ref)
	if err != nil {
		return about(name, settled(err))
	}
	respondGrant(w, http.StatusOK, held)
	return nil
}

// release is detached: a request that breaks off must not leave the lease for its TTL.
func (g *Gateway) release(w http.ResponseWriter, r *http.Request, name string) error {
	ref, err := refOf(r, name)
	if err != nil {
		return err
	}
	ctx, cancel := detached(r, g.cfg.WriteTimeout)
	defer cancel()
	if err := g.cfg.Leases.Release(ctx, ref); err != nil {
		return about(name, settled(err))
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// breakLease ends whoever holds the lease. Detached like release: what has begun is carried to its end.
func (g *Gateway) breakLease(w http.ResponseWriter, r *http.Request, name string) error {
	f, err := g.readFields(w, r, "reason")
	if err != nil {
		return err
	}
	reason, _, err := f.text("reason")
	if err != nil {
		return err
	}
	ctx, cancel := detached(r, g.cfg.WriteTimeout)
	defer cancel()
	if err := g.cfg.Leases.Break(ctx, name, principalOf(r.Context()), reason); err != nil {
		return about(name, settled(err))
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (g *Gateway) inspect(w http.ResponseWriter, r *http.Request, name string) error {
	view, err := g.cfg.Leases.Inspect(r.Context(), name)
	if err != nil {
		return about(name, err)
	}
	respondJSON(w, http.StatusOK, viewOf(view))
	return nil
}

func (g *Gateway) verify(w http.ResponseWriter, r *http.Request, name string) error {
	f, err := g.readFields(w, r, "token", "principal")
	if err != nil {
		return err
	}
	raw, given := f["token"]
	if !given {
		return fence.Errorf(fence.CodeInvalidRequest, "the token to verify is missing").In("token")
	}
	token, err := fence.ParseToken(string(raw))
	if err != nil {
		return err
	}
	principal, given, err := f.text("principal")
	if err != nil {
		return err
	}
	if !given {
		principal = principalOf(r.Context())
	}
	if err := g.cfg.Leases.Verify(r.Context(), name, principal, token); err != nil {
		return about(name, err)
	}
	respondJSON(w, http.StatusOK, struct {
		Lease     string      `json:"lease"`
		Token     fence.Token `json:"token"`
		Principal string      `json:"principal"`
	}{name, token, principal})
	return nil
}

func refOf(r *http.Request, name string) (lease.Ref, error) {
	id, err := leaseID(r.Header)
	return lease.Ref{Name: name, Principal: principalOf(r.Context()), ID: id}, err
}

// about names the lease in a refusal that does not name it yet.
func about(name string, err error) error {
	var e *fence.Error
	if errors.As(err, &e) && e.Lease == "" {
		e.Lease = name
	}
	return err
}
