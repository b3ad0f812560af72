package pgstore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/fencegate/fencegate/fence"
)

// Protect registers a table with the template of its leases ("wallet:{id}"), or changes the template, also that of a view
// whose key was declared before. Nothing in the table changes. When it returns, the template is in force for every
// gateway (I2).
func (s *Store) Protect(ctx context.Context, relation, template string) error {
	return s.exec(ctx, "SELECT fence.protect($1, $2)", relation, template)
}

// ProtectView is Protect for an updatable view, whose rows are named by the columns of key. That no two of its rows have the
// same key is for its maker to see to: a write that would change two is undone.
func (s *Store) ProtectView(ctx context.Context, view, template string, key []string) error {
	return s.exec(ctx, "SELECT fence.protect_view($1, $2, $3)", view, template, key)
}

// ProtectBucket registers a bucket, or the keys below a prefix of it, with the template of its leases
// ("report:{key}", "daily:{key:1}"). Of several prefixes the longest wins.
func (s *Store) ProtectBucket(ctx context.Context, bucket, prefix, template string) error {
	return s.exec(ctx, "SELECT fence.protect_bucket($1, $2, $3)", bucket, prefix, template)
}

// Unprotect takes the protection of a table or view away, and its guard with it. The marks stay: protected again, its rows
// go on from them. When there was no protection it is CodeNotFound.
func (s *Store) Unprotect(ctx context.Context, relation string) error {
	return s.remove(ctx, "table "+relation, "SELECT fence.unprotect($1)", relation)
}

// UnprotectBucket is Unprotect for what ProtectBucket registered. Keys that a shorter prefix has are protected by that then.
func (s *Store) UnprotectBucket(ctx context.Context, bucket, prefix string) error {
	return s.remove(ctx, "bucket "+bucket, "SELECT fence.unprotect_bucket($1, $2)", bucket, prefix)
}

// SetOptions sets options of what ProtectBucket registered: keep (a PostgreSQL interval as text), redirect and existing (booleans), and
// deletes ("refuse" or "lease"); one that is nil goes back to its default. They are in force at once.
func (s *Store) SetOptions(ctx context.Context, bucket, prefix string, options map[string]any) error {
	text, err := json.Marshal(options)
	if err != nil {
		return fence.Wrap(fence.CodeInvalidRequest, err, "the options cannot be kept")
	}
	return s.exec(ctx, "SELECT fence.set_options($1, $2, $3::text::jsonb)", bucket, prefix, string(text))
}

func (s *Store) remove(ctx context.Context, what, sql string, args ...any) error {
	var found bool
	if err := s.query(ctx, sql, args, &found); err != nil {
		return err
	}
	if !found {
		return fence.Errorf(fence.CodeNotFound, "the %s is not protected", what)
	}
	return nil
}

// Protection is a table, a view or the keys of a bucket below a prefix, with the template of their leases.
type Protection struct {
	Kind     string   `json:"kind"` // table or bucket
	Name     string   `json:"name"`
	Prefix   string   `json:"prefix,omitempty"`
	Template string   `json:"lease"`
	Key      []string `json:"key,omitempty"`
	View     bool     `json:"view,omitempty"`
	Guarded  bool     `json:"guarded,omitempty"`
	// Options are those of a bucket that are not at their defaults.
	Options map[string]any `json:"options,omitempty"`
	// State is empty when all is well, gone when there is no such relation any more, altered when its key is another one than
	// when it was protected (then it is not served), and guard-gaps when triggers of its guard are missing or disabled.
	State string `json:"state,omitempty"`
}

// Protections lists what is protected: tables and views by name, then buckets.
func (s *Store) Protections(ctx context.Context) ([]Protection, error) {
	var (
		text string
		list []Protection
	)
	err := s.read(ctx, `SELECT coalesce(json_agg(json_build_object('kind', kind, 'name', name, 'prefix', prefix, 'lease', template,
		'key', key_columns, 'view', view, 'guarded', guarded, 'state', state,
		'options', (SELECT b.options FROM fence.protected b WHERE b.kind = 'bucket' AND p.kind = 'bucket' AND b.name = p.name AND b.prefix = p.prefix))), '[]')::text FROM fence.protections() p`, nil, &text)
	if err == nil {
		err = json.Unmarshal([]byte(text), &list)
	}
	if err != nil {
		return nil, fmt.Errorf("list what is protected: %w", err)
	}
	return list, nil
}
