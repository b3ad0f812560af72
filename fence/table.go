package fence

// TableDescription is what can be told of a protected table.
type TableDescription struct {
	// Table is the canonical name, Template that of its leases.
	Table    TableName
	Template string
	// Key are the columns of the key, in its order.
	Key     []string
	Columns []ColumnDescription
	Comment string
}

// ColumnDescription is one column of a table.
type ColumnDescription struct {
	Name string
	// Type is as SQL writes it; Base is the type below a domain, without modifiers.
	Type, Base string
	// Nullable is false where the column or its domain is declared so, HasDefault true where an insert may leave the column out
	// all the same; Settable is false for generated columns.
	Nullable, HasDefault, Settable bool
	// Labels are those of an enum.
	Labels  []string
	Comment string
}
