package gatewaytest

import (
	"context"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
)

// Catalogue are the protected tables of a gateway, in their order.
type Catalogue []fence.TableDescription

var _ gateway.Catalogue = Catalogue(nil)

// Tables names them.
func (c Catalogue) Tables(context.Context) ([]fence.TableName, error) {
	var names []fence.TableName
	for _, t := range c {
		names = append(names, t.Table)
	}
	return names, nil
}

// DescribeTables describes those that are asked for.
func (c Catalogue) DescribeTables(_ context.Context, names []fence.TableName) ([]fence.TableDescription, error) {
	var found []fence.TableDescription
	for _, name := range names {
		for _, t := range c {
			if t.Table == name {
				found = append(found, t)
			}
		}
	}
	return found, nil
}
