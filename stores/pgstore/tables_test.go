package pgstore_test

import (
	"reflect"
	"testing"

	"github.com/fencegate/fencegate/fence"
)

func TestTablesAreDescribed(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE SCHEMA "a.b"; CREATE TYPE public.mood AS ENUM ('happy', 'it''s "so-so"'); CREATE DOMAIN price AS numeric(20,4) NOT NULL; CREATE DOMAIN state AS text DEFAULT 'new';
		CREATE TABLE "a.b"."Reply" ("User Id" int8 GENERATED ALWAYS AS IDENTITY, "k,2" text, price price, mood mood NOT NULL, state state, owner varchar(40) NOT NULL DEFAULT 'ann',
			dropped int, twice numeric GENERATED ALWAYS AS (price * 2) STORED, PRIMARY KEY ("k,2", "User Id"));
		ALTER TABLE "a.b"."Reply" DROP COLUMN dropped;
		COMMENT ON TABLE "a.b"."Reply" IS 'what was answered'; COMMENT ON COLUMN "a.b"."Reply"."k,2" IS 'with a comma';
		CREATE TABLE plain (id int PRIMARY KEY); CREATE TABLE gone (id int PRIMARY KEY); CREATE TABLE altered (id int PRIMARY KEY); CREATE TABLE unprotected (id int PRIMARY KEY);
		SELECT fence.protect('plain', 'plain'), fence.protect('"a.b"."Reply"', 'reply:{User Id}'), fence.protect('gone', 'g'), fence.protect('altered', 'a');
		DROP TABLE gone; ALTER TABLE altered DROP CONSTRAINT altered_pkey`)
	names, err := w.Tables(t.Context())
	if want := []fence.TableName{{Schema: "a.b", Name: "Reply"}, {Schema: "public", Name: "altered"}, {Schema: "public", Name: "gone"}, {Schema: "public", Name: "plain"}, {Schema: "public", Name: "wallets"}}; err != nil || !reflect.DeepEqual(names, want) {
		t.Fatalf("%v, %v", names, err)
	}
	names = append(names[:4], fence.TableName{Schema: "public", Name: "unprotected"}, fence.TableName{Schema: "public", Name: `no"such`})
	got, err := w.DescribeTables(t.Context(), names)
	want := []fence.TableDescription{{
		Table: fence.TableName{Schema: "a.b", Name: "Reply"}, Template: "reply:{User Id}", Key: []string{"k,2", "User Id"}, Comment: "what was answered",
		Columns: []fence.ColumnDescription{
			{Name: "User Id", Type: "bigint", Base: "bigint", HasDefault: true},
			{Name: "k,2", Type: "text", Base: "text", Settable: true, Comment: "with a comma"},
			{Name: "price", Type: "public.price", Base: "numeric", Settable: true},
			{Name: "mood", Type: "public.mood", Base: "public.mood", Settable: true, Labels: []string{"happy", `it's "so-so"`}},
			{Name: "state", Type: "public.state", Base: "text", Nullable: true, HasDefault: true, Settable: true},
			{Name: "owner", Type: "character varying(40)", Base: "character varying", HasDefault: true, Settable: true},
			{Name: "twice", Type: "numeric", Base: "numeric", Nullable: true},
		},
	}, {
		Table: fence.TableName{Schema: "public", Name: "plain"}, Template: "plain", Key: []string{"id"},
		Columns: []fence.ColumnDescription{{Name: "id", Type: "integer", Base: "integer", Settable: true}},
	}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v\nwant %+v", got, err, want)
	}
}
