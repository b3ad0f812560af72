package composetest

import (
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
)

// The rules find what they are for.
func TestComplaints(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*types.ServiceConfig)
		says   string
	}{
		{"OK", func(*types.ServiceConfig) {}, ""},
		{"LatestImage", func(s *types.ServiceConfig) { s.Image = "postgres:latest" }, "not pinned"},
		{"ImageWithoutATag", func(s *types.ServiceConfig) { s.Image = "postgres" }, "not pinned"},
		{"MajorVersionOnly", func(s *types.ServiceConfig) { s.Image = "postgres:17" }, "not pinned"},
		{"PortOnAllAddresses", func(s *types.ServiceConfig) { s.Ports[0].HostIP = "" }, "beyond loopback"},
		{"PortOnAnotherAddress", func(s *types.ServiceConfig) { s.Ports[0].HostIP = "192.0.2.1" }, "beyond loopback"},
		{"Privileged", func(s *types.ServiceConfig) { s.Privileged = true }, "belongs to the host"},
		{"HostNetwork", func(s *types.ServiceConfig) { s.NetworkMode = "host" }, "belongs to the host"},
		{"Capabilities", func(s *types.ServiceConfig) { s.CapDrop = nil }, "keeps capabilities"},
		{"NewPrivileges", func(s *types.ServiceConfig) { s.SecurityOpt = nil }, "keeps capabilities"},
		{"MissingFile", func(s *types.ServiceConfig) { s.Volumes[0].Source = "nowhere" }, "nowhere"},
		{"WritableFile", func(s *types.ServiceConfig) { s.Volumes[0].ReadOnly = false }, "can be written to"},
		{"NoHealthCheck", func(s *types.ServiceConfig) { s.HealthCheck = nil }, "no health check"},
		{"StartedIsNotHealthy", func(s *types.ServiceConfig) {
			s.DependsOn = types.DependsOnConfig{"redis": {Condition: types.ServiceConditionStarted}}
		}, "wait until redis"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := types.ServiceConfig{ContainerSpec: types.ContainerSpec{
				Image: "postgres:17.10", CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges:true"},
				Volumes: []types.ServiceVolumeConfig{{Type: types.VolumeTypeBind, Source: "go.mod", ReadOnly: true}},
			}}
			s.HealthCheck = &types.HealthCheckConfig{Test: []string{"CMD", "true"}}
			s.Ports = []types.ServicePortConfig{{HostIP: "127.0.0.1", Published: "8080", Target: 8080}}
			c.change(&s)
			found := strings.Join(complaints(s), "\n")
			if (found == "") != (c.says == "") || !strings.Contains(found, c.says) {
				t.Errorf("%q, want %q", found, c.says)
			}
		})
	}
}
