package composetest

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
)

const root = "../.."

func load(t *testing.T, variables ...string) *types.Project {
	t.Helper()
	dir, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	project, err := Load(t.Context(), dir, variables...)
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// gateways are the services that serve.
func gateways(t *testing.T, p *types.Project) map[string]types.ServiceConfig {
	t.Helper()
	found := make(map[string]types.ServiceConfig)
	for name, s := range p.Services {
		if s.Image == "fencegate:local" && slices.Equal(s.Command, []string{"serve"}) {
			found[name] = s
		}
	}
	if len(found) != 2 {
		t.Fatalf("%d services run fencegate serve, want 2", len(found))
	}
	return found
}

func env(s types.ServiceConfig, name string) string {
	if value := s.Environment[name]; value != nil {
		return *value
	}
	return ""
}

func TestServices(t *testing.T) {
	for name, s := range load(t).Services {
		t.Run(name, func(t *testing.T) {
			if found := complaints(s); len(found) > 0 {
				t.Error(strings.Join(found, "\n"))
			}
		})
	}
}

// complaints is what no service of the file may do.
func complaints(s types.ServiceConfig) (found []string) {
	_, tag, _ := strings.Cut(s.Image, ":")
	if s.Build == nil && !regexp.MustCompile(`^v?[0-9]+\.[0-9]+(\.[0-9]+)?$`).MatchString(tag) {
		found = append(found, "the image "+s.Image+" is not pinned to a version")
	}
	for _, p := range s.Ports {
		if ip, err := netip.ParseAddr(p.HostIP); err != nil || !ip.IsLoopback() {
			found = append(found, "port "+p.Published+" is published beyond loopback")
		}
	}
	if s.Privileged || s.NetworkMode == "host" || s.Pid == "host" || s.Ipc == "host" || s.UserNSMode == "host" || len(s.Devices) > 0 {
		found = append(found, "the service has what belongs to the host")
	}
	if !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
		found = append(found, "the service keeps capabilities, or can get more")
	}
	for _, v := range s.Volumes {
		if v.Type != types.VolumeTypeBind {
			continue
		}
		if _, err := os.Stat(v.Source); err != nil {
			found = append(found, err.Error())
		}
		if !v.ReadOnly {
			found = append(found, v.Source+" can be written to")
		}
	}
	if s.HealthCheck == nil || len(s.HealthCheck.Test) == 0 && !s.HealthCheck.Disable {
		found = append(found, "there is no health check")
	}
	for other, d := range s.DependsOn {
		if d.Condition != types.ServiceConditionHealthy && d.Condition != types.ServiceConditionCompletedSuccessfully {
			found = append(found, "it does not wait until "+other+" is healthy or done")
		}
	}
	return found
}

func TestGateways(t *testing.T) {
	p := load(t)
	for name, s := range gateways(t, p) {
		t.Run(name, func(t *testing.T) {
			mounted := slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool { return v.Target == env(s, "FENCEGATE_AUTH_FILE") })
			if !mounted {
				t.Errorf("the auth file %q is not among the volumes", env(s, "FENCEGATE_AUTH_FILE"))
			}
			if want := []string{"CMD", "/fencegate", "health"}; !slices.Equal(s.HealthCheck.Test, want) {
				t.Errorf("health check %q, want %q", s.HealthCheck.Test, want)
			}
			if !s.ReadOnly {
				t.Error("the file system can be written to")
			}
			for other, condition := range map[string]string{
				"setup": types.ServiceConditionCompletedSuccessfully, "postgres": types.ServiceConditionHealthy,
				"redis": types.ServiceConditionHealthy, "s3": types.ServiceConditionHealthy,
			} {
				if got := s.DependsOn[other].Condition; got != condition {
					t.Errorf("waits for %s: %q, want %s", other, got, condition)
				}
			}
			if s.StopGracePeriod == nil || time.Duration(*s.StopGracePeriod) <= drains(t, s) {
				t.Errorf("the grace period %v does not outlast the drain, %v", s.StopGracePeriod, drains(t, s))
			}
		})
	}
}

// drains is how long a gateway may take to stop.
func drains(t *testing.T, s types.ServiceConfig) time.Duration {
	t.Helper()
	var times [3]time.Duration
	for i, name := range []string{"FENCEGATE_DRAIN_DELAY", "FENCEGATE_DRAIN_TIMEOUT", "FENCEGATE_DRAIN_TRANSFERS"} {
		var err error
		if times[i], err = time.ParseDuration(env(s, name)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return times[0] + max(times[1], times[2])
}

// Compose passes a misspelt variable on, and the program never asks for it.
func TestVariablesAreFlags(t *testing.T) {
	for name, s := range load(t).Services {
		if s.Build == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			help, err := exec.CommandContext(t.Context(), program, append(slices.Clone([]string(s.Command)), "--help")...).Output()
			if err != nil {
				t.Fatal(err)
			}
			for variable := range s.Environment {
				if !regexp.MustCompile(`\$` + variable + `\b`).Match(help) {
					t.Errorf("%s is no flag of fencegate %s", variable, strings.Join(s.Command, " "))
				}
			}
		})
	}
}

// What stands in the file for demonstration can be replaced without a change to the file.
func TestSecretsCanBeReplaced(t *testing.T) {
	p := load(t, "DEMO_POSTGRES_PASSWORD=one", "DEMO_REDIS_PASSWORD=two", "DEMO_S3_ACCESS_KEY=three", "DEMO_S3_SECRET_KEY=four", "DEMO_PRINCIPALS=./go.mod")
	text, err := p.MarshalYAML()
	if err != nil {
		t.Fatal(err)
	}
	for _, left := range []string{"not-a-secret", "compose/principals.yaml"} {
		if strings.Contains(string(text), left) {
			t.Errorf("%s is left in the file", left)
		}
	}
	for name, s := range gateways(t, p) {
		if !strings.Contains(env(s, "FENCEGATE_DATABASE_URL"), ":one@") || !strings.Contains(env(s, "FENCEGATE_REDIS_URL"), ":two@") ||
			env(s, "FENCEGATE_S3_ACCESS_KEY") != "three" || env(s, "FENCEGATE_S3_SECRET_KEY") != "four" {
			t.Errorf("%s has other secrets than its servers", name)
		}
	}
}
