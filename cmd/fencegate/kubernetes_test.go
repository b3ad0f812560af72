package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/fencegate/fencegate/gateway/access"
)

// manifest is the part of a Kubernetes object that concerns us; what it does not have is not checked.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Secrets  map[string]string `yaml:"stringData"`
	Spec     struct {
		Replicas     int
		MinAvailable int      `yaml:"minAvailable"`
		Selector     selector // of a service it has its labels at the top
		Template     struct {
			Metadata struct {
				Labels, Annotations map[string]string
			}
			Spec pod
		}
		Ports []struct {
			Target string `yaml:"targetPort"`
		}
		PodSelector selector `yaml:"podSelector"`
	}
}

type selector struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
	Name        string            `yaml:"app.kubernetes.io/name"`
	Component   string            `yaml:"app.kubernetes.io/component"`
}

type pod struct {
	Grace           int   `yaml:"terminationGracePeriodSeconds"`
	ServiceLinks    *bool `yaml:"enableServiceLinks"`
	SecurityContext struct {
		RunAsNonRoot bool `yaml:"runAsNonRoot"`
	} `yaml:"securityContext"`
	Containers []struct {
		Image string
		Args  []string
		Env   []struct{ Name, Value string }
		Ports []struct {
			Name          string
			ContainerPort string `yaml:"containerPort"`
		}
		Lifecycle       map[string]any
		Liveness        probeOf `yaml:"livenessProbe"`
		Readiness       probeOf `yaml:"readinessProbe"`
		Startup         probeOf `yaml:"startupProbe"`
		SecurityContext struct {
			ReadOnly   bool                    `yaml:"readOnlyRootFilesystem"`
			Escalation *bool                   `yaml:"allowPrivilegeEscalation"`
			Drop       struct{ Drop []string } `yaml:"capabilities"`
		} `yaml:"securityContext"`
		Resources struct{ Requests, Limits map[string]string }
		Mounts    []struct {
			Path string `yaml:"mountPath"`
		} `yaml:"volumeMounts"`
	}
}

type probeOf struct {
	Get      struct{ Path, Port string } `yaml:"httpGet"`
	Period   int                         `yaml:"periodSeconds"`
	Failures int                         `yaml:"failureThreshold"`
}

// manifests reads every file, by kind and name.
func manifests(t *testing.T) map[string]manifest {
	t.Helper()
	files, err := filepath.Glob("../../docs/examples/kubernetes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v %v", files, err)
	}
	all := map[string]manifest{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
			var m manifest
			err := d.Decode(&m)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			all[m.Kind+"/"+m.Metadata.Name] = m
		}
	}
	return all
}

// settings are the environment of the gateways.
func settings(all map[string]manifest) map[string]string {
	env := map[string]string{}
	for name, value := range all["ConfigMap/fencegate"].Data {
		env[name] = value
	}
	for name, value := range all["Secret/fencegate"].Secrets {
		env[name] = value
	}
	return env
}

func TestKubernetesSettings(t *testing.T) {
	all := manifests(t)
	known := map[string]bool{}
	for _, f := range append(flagsOf(t, "serve"), flagsOf(t, "migrate", "up")...) {
		for _, env := range f.Envs {
			known[env] = true
		}
	}
	for name, value := range settings(all) {
		if !known[name] {
			t.Errorf("there is no setting %s", name)
		}
		t.Setenv(name, value)
	}
	for _, e := range all["Job/fencegate-migrate"].Spec.Template.Spec.Containers[0].Env {
		if !known[e.Name] {
			t.Errorf("there is no setting %s", e.Name)
		}
	}
	parser, c := newParser(t)
	if _, err := parser.Parse(all["Deployment/fencegate"].Spec.Template.Spec.Containers[0].Args); err != nil {
		t.Fatal(err)
	}
	if err := c.Serve.validate(); err != nil {
		t.Error(err)
	}
	grace := time.Duration(all["Deployment/fencegate"].Spec.Template.Spec.Grace) * time.Second
	if least := c.Serve.DrainDelay + max(c.Serve.DrainTimeout, c.Serve.DrainTransfers); grace <= least {
		t.Errorf("Kubernetes kills after %v what may drain for %v", grace, least)
	}
	// Nothing answers while a gateway waits for PostgreSQL.
	startup := all["Deployment/fencegate"].Spec.Template.Spec.Containers[0].Startup
	if patience := time.Duration(startup.Period*startup.Failures) * time.Second; startup.Get.Path != "/livez" || patience <= c.Serve.StartTimeout {
		t.Errorf("Kubernetes waits %v for a gateway that waits %v for PostgreSQL", patience, c.Serve.StartTimeout)
	}
	// Else the service's own variables, FENCEGATE_PORT and the like, meet the settings.
	if links := all["Deployment/fencegate"].Spec.Template.Spec.ServiceLinks; links == nil || *links {
		t.Error("service links are on")
	}
	if _, err := access.Parse([]byte(all["Secret/fencegate-auth"].Secrets["auth.yaml"])); err != nil {
		t.Error(err)
	}
	mounts := all["Deployment/fencegate"].Spec.Template.Spec.Containers[0].Mounts
	if len(mounts) != 1 || mounts[0].Path != filepath.Dir(c.Serve.AuthFile) {
		t.Errorf("%s is not mounted: %v", c.Serve.AuthFile, mounts)
	}
}

func TestKubernetesMemory(t *testing.T) {
	c := manifests(t)["Deployment/fencegate"].Spec.Template.Spec.Containers[0]
	var soft, hard int
	for _, e := range c.Env {
		if e.Name == "GOMEMLIMIT" {
			if _, err := fmt.Sscanf(e.Value, "%dMiB", &soft); err != nil {
				t.Errorf("GOMEMLIMIT=%s: %v", e.Value, err)
			}
		}
	}
	if _, err := fmt.Sscanf(c.Resources.Limits["memory"], "%dMi", &hard); err != nil || soft == 0 || soft >= hard {
		t.Errorf("the program keeps to %d MiB, Kubernetes kills at %d MiB (%v)", soft, hard, err)
	}
}

func TestKubernetesPorts(t *testing.T) {
	all := manifests(t)
	pod := all["Deployment/fencegate"].Spec.Template
	c := pod.Spec.Containers[0]
	ports := map[string]string{}
	for _, p := range c.Ports {
		ports[p.Name] = p.ContainerPort
	}
	for port, setting := range map[string]string{"http": "FENCEGATE_LISTEN", "admin": "FENCEGATE_ADMIN_LISTEN"} {
		if _, want, err := net.SplitHostPort(settings(all)[setting]); err != nil || ports[port] != want {
			t.Errorf("port %s is %s, %s says %s (%v)", port, ports[port], setting, want, err)
		}
	}
	if pod.Metadata.Annotations["prometheus.io/port"] != ports["admin"] {
		t.Error("Prometheus is sent to another port")
	}
	if c.Liveness.Get.Path != "/livez" || c.Readiness.Get.Path != "/readyz" || c.Liveness.Get.Port != "admin" || c.Readiness.Get.Port != "admin" {
		t.Errorf("probes: %+v %+v", c.Liveness, c.Readiness)
	}
	for _, p := range all["Service/fencegate"].Spec.Ports {
		if p.Target != "http" {
			t.Errorf("the service leads to %s", p.Target)
		}
	}
}

func TestKubernetesSelectors(t *testing.T) {
	all := manifests(t)
	d := all["Deployment/fencegate"]
	want := d.Spec.Template.Metadata.Labels
	service := all["Service/fencegate"].Spec.Selector
	for name, got := range map[string]map[string]string{
		"Deployment": d.Spec.Selector.MatchLabels, "Disruption": all["PodDisruptionBudget/fencegate"].Spec.Selector.MatchLabels,
		"Network": all["NetworkPolicy/fencegate"].Spec.PodSelector.MatchLabels,
		"Service": {"app.kubernetes.io/name": service.Name, "app.kubernetes.io/component": service.Component},
	} {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s selects %v, the pods are %v", name, got, want)
		}
	}
	if reflect.DeepEqual(all["Job/fencegate-migrate"].Spec.Template.Metadata.Labels, want) {
		t.Error("the service would send clients to the migration")
	}
	if budget := all["PodDisruptionBudget/fencegate"].Spec.MinAvailable; d.Spec.Replicas < 2 || budget < 1 || budget >= d.Spec.Replicas {
		t.Errorf("%d gateways of which %d must stay", d.Spec.Replicas, budget)
	}
}

func TestKubernetesSecurity(t *testing.T) {
	for _, name := range []string{"Deployment/fencegate", "Job/fencegate-migrate"} {
		spec := manifests(t)[name].Spec.Template.Spec
		c := spec.Containers[0]
		if s := c.SecurityContext; !spec.SecurityContext.RunAsNonRoot || !s.ReadOnly || s.Escalation == nil || *s.Escalation || !slices.Equal(s.Drop.Drop, []string{"ALL"}) {
			t.Errorf("%s: %+v", name, s)
		}
		if c.Resources.Requests["memory"] == "" || c.Resources.Limits["memory"] == "" {
			t.Errorf("%s has no bounds on memory", name)
		}
		if _, tag, ok := strings.Cut(c.Image, ":"); !ok || tag == "latest" || c.Lifecycle != nil {
			t.Errorf("%s: image %s, lifecycle %v", name, c.Image, c.Lifecycle)
		}
	}
}
