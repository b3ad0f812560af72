package fence

import (
	"strings"
	"testing"
)

func TestParseTableName(t *testing.T) {
	long := strings.Repeat("a", maxIdentifier)
	tests := []struct{ name, in, schema, table, out string }{
		{"Bare", "wallets", "public", "wallets", "public.wallets"},
		{"Qualified", "sales.orders", "sales", "orders", "sales.orders"},
		{"Folded", "Sales.ORDERS", "sales", "orders", "sales.orders"},
		{"Quoted", `"a.b"."Reply"`, "a.b", "Reply", `"a.b"."Reply"`},
		{"QuotedAsItWouldBe", `"public"."wallets"`, "public", "wallets", "public.wallets"},
		{"DoubledQuote", `"a""b"`, "public", `a"b`, `public."a""b"`},
		{"Mixed", `sales."Orders 2026"`, "sales", "Orders 2026", `sales."Orders 2026"`},
		{"OnlyASCIIIsFolded", "straße.ÄRGER", "straße", "Ärger", "straße.Ärger"},
		{"Digits", "t1$x", "public", "t1$x", "public.t1$x"},
		{"Longest", long, "public", long, "public." + long},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseTableName(tt.in)
			if err != nil || got != (TableName{tt.schema, tt.table}) || got.String() != tt.out {
				t.Errorf("got %+v %s, %v", got, got, err)
			}
			if again, err := ParseTableName(got.String()); err != nil || again != got {
				t.Errorf("its own name is read as %+v, %v", again, err)
			}
		})
	}
	for _, bad := range []string{"", ".", "a.", ".a", "a.b.c", `"a`, `"a"b`, `""`, `a"b"`, "1a", "a b", " a", "a .b", "a-b", "a;b", "a\x00b", "\"a\x00\"", `"a".`, `"a"."b".`, long + "a", `"` + long + `a"`} {
		t.Run("Bad", func(t *testing.T) {
			if got, err := ParseTableName(bad); CodeOf(err) != CodeInvalidRequest {
				t.Errorf("%q is read as %+v, %v", bad, got, err)
			}
		})
	}
}
