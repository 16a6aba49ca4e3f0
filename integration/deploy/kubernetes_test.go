// Package deploy_test checks the recipes of docs/deploy: the manifests against the types of the
// Kubernetes API and the rules of docs/operations.md, and the compose file in containers. The user with
// few rights is checked in the tests of ACLs.
package deploy_test

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/quorumlock/quorumlock/node"
)

const docs = "../../docs/deploy/"

// manifests are the objects of kubernetes.yaml, each decoded strictly into its type.
type manifests struct {
	set      apps.StatefulSet
	budget   policy.PodDisruptionBudget
	service  core.Service
	config   core.ConfigMap
	users    core.Secret
	client   core.Secret
	decoded  int
	pod      *core.PodSpec   // of set
	redis    *core.Container // its only one
	podLabel map[string]string
}

func decode(t *testing.T) *manifests {
	t.Helper()
	m := &manifests{}
	for document := range strings.SplitSeq(read(t, "kubernetes.yaml"), "\n---\n") {
		document += "\n"
		var head struct {
			meta.TypeMeta   `json:",inline"`
			meta.ObjectMeta `json:"metadata"`
		}
		must(t, yaml.Unmarshal([]byte(document), &head))
		key := head.APIVersion + " " + head.Kind + " " + head.Name
		into, known := map[string]any{
			"apps/v1 StatefulSet quorumlock":           &m.set,
			"policy/v1 PodDisruptionBudget quorumlock": &m.budget,
			"v1 Service quorumlock":                    &m.service,
			"v1 ConfigMap quorumlock":                  &m.config,
			"v1 Secret quorumlock-users":               &m.users,
			"v1 Secret quorumlock-client":              &m.client,
		}[key]
		if !known {
			t.Fatalf("an object that no test knows: %s", key)
		}
		if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		m.decoded++
	}
	if m.decoded != 6 || len(m.set.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("%d objects, %d containers", m.decoded, len(m.set.Spec.Template.Spec.Containers))
	}
	m.pod, m.podLabel = &m.set.Spec.Template.Spec, m.set.Spec.Template.Labels
	m.redis = &m.pod.Containers[0]
	return m
}

// A field that the API does not have, or of another type, is no error to kubectl apply without
// validation.
func TestStrictDecodingFindsAWrongField(t *testing.T) {
	for _, wrong := range []string{"minReadySecond: 35", "minReadySeconds: soon"} {
		text := "apiVersion: apps/v1\nkind: StatefulSet\nspec:\n  " + wrong + "\n"
		if err := yaml.UnmarshalStrict([]byte(text), &apps.StatefulSet{}); err == nil {
			t.Errorf("%q passes", wrong)
		}
	}
}

func TestOneMasterAtATime(t *testing.T) {
	m := decode(t)
	const maxLease = node.DefaultMaxLease
	if wait := time.Duration(m.set.Spec.MinReadySeconds) * time.Second; wait <= maxLease {
		t.Errorf("a rolling update waits for %v, want more than a quarantine of %v", wait, maxLease)
	}
	if s := m.set.Spec.UpdateStrategy; s.Type != apps.RollingUpdateStatefulSetStrategyType || s.RollingUpdate != nil {
		t.Errorf("updates: %+v", s)
	}
	// The disruption budget does not know minReadySeconds.
	probe := m.redis.ReadinessProbe
	if wait := time.Duration(probe.InitialDelaySeconds) * time.Second; wait <= maxLease {
		t.Errorf("a drain goes on after %v, want more than a quarantine of %v", wait, maxLease)
	}
	if !m.service.Spec.PublishNotReadyAddresses {
		t.Error("clients cannot reach a master in quarantine, which begins with their use")
	}
	if most := m.budget.Spec.MaxUnavailable; most == nil || most.IntValue() != 1 || m.budget.Spec.MinAvailable != nil {
		t.Errorf("the budget: %+v", m.budget.Spec)
	}
	if m.set.Spec.PodManagementPolicy != apps.ParallelPodManagement {
		t.Error("the first client needs all masters at once")
	}
	selects(t, "the stateful set", m.set.Spec.Selector, m.podLabel)
	selects(t, "the budget", m.budget.Spec.Selector, m.podLabel)
	selects(t, "the service", &meta.LabelSelector{MatchLabels: m.service.Spec.Selector}, m.podLabel)
	if grace := m.pod.TerminationGracePeriodSeconds; grace == nil || *grace < 1 || *grace > 30 {
		t.Error("a master needs a few seconds to end, and no more: nothing is saved")
	}
	if p := m.redis.LivenessProbe; time.Duration(p.PeriodSeconds*p.FailureThreshold)*time.Second < maxLease {
		t.Error("a restart for a short pause costs a quarantine")
	}
}

func TestMastersAreIndependent(t *testing.T) {
	m := decode(t)
	if n := *m.set.Spec.Replicas; n < 3 || n%2 == 0 {
		t.Errorf("%d masters", n)
	}
	required := m.pod.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if len(required) != 1 || required[0].TopologyKey != core.LabelHostname {
		t.Fatalf("anti-affinity: %+v", required)
	}
	selects(t, "the anti-affinity", required[0].LabelSelector, m.podLabel)
	preferred := m.pod.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	if len(preferred) != 1 || preferred[0].PodAffinityTerm.TopologyKey != core.LabelTopologyZone {
		t.Errorf("zones: %+v", preferred)
	}
	selects(t, "the zones", preferred[0].PodAffinityTerm.LabelSelector, m.podLabel)
}

// Each master is reached by the name of its pod, never by a balanced address, and clients use all of
// them.
func TestEachMasterHasItsName(t *testing.T) {
	m := decode(t)
	if m.service.Spec.ClusterIP != core.ClusterIPNone || m.set.Spec.ServiceName != m.service.Name {
		t.Errorf("the service %q has the address %q; the pods' is %q", m.service.Name, m.service.Spec.ClusterIP, m.set.Spec.ServiceName)
	}
	urls := strings.Fields(m.client.StringData["QUORUMLOCK_URLS"])
	if len(urls) != int(*m.set.Spec.Replicas) {
		t.Fatalf("%d URLs, %d pods", len(urls), *m.set.Spec.Replicas)
	}
	for i, raw := range urls {
		u, err := url.Parse(raw)
		must(t, err)
		want := fmt.Sprintf("%s-%d.%s", m.set.Name, i, m.service.Name)
		if u.Hostname() != want || u.Port() != fmt.Sprint(m.service.Spec.Ports[0].Port) {
			t.Errorf("URL %d leads to %s, want %s", i+1, u.Host, want)
		}
		n, err := node.Open(raw)
		must(t, err)
		must(t, n.Close())
		password, _ := u.User.Password()
		if !strings.Contains(m.users.StringData["users.acl"], "user "+u.User.Username()+" on >"+password+" ") {
			t.Errorf("URL %d: there is no such user", i+1)
		}
	}
}

// The files are those that are tested elsewhere.
func TestTheFilesAreTheRecipes(t *testing.T) {
	m := decode(t)
	for name, text := range map[string]string{
		"redis.conf": m.config.Data["redis.conf"],
		"users.acl":  m.users.StringData["users.acl"],
	} {
		if text != read(t, name) {
			t.Errorf("%s differs from docs/deploy/%s", name, name)
		}
	}
	settings := settings(t)
	if settings["maxmemory-policy"] != "noeviction" || settings["aclfile"] != "/etc/quorumlock/users.acl" {
		t.Errorf("settings: %v", settings)
	}
	at := map[string]string{}
	for _, mount := range m.redis.VolumeMounts {
		at[mount.MountPath] = mount.Name
	}
	if at["/etc/quorumlock"] == "" || at[settings["dir"]] == "" {
		t.Errorf("mounts: %v", at)
	}
	if got := strings.Join(m.redis.Command, " "); got != "redis-server /etc/quorumlock/redis.conf" {
		t.Errorf("command %q", got)
	}
	var projected []string
	for _, source := range m.pod.Volumes[0].Projected.Sources {
		if source.ConfigMap != nil {
			projected = append(projected, source.ConfigMap.Name)
		}
		if source.Secret != nil {
			projected = append(projected, source.Secret.Name)
		}
	}
	if got := fmt.Sprint(projected); got != fmt.Sprint([]string{m.config.Name, m.users.Name}) {
		t.Errorf("the files come from %s", got)
	}
	// The kernel must not end a master that is within its own limit.
	if limit := m.redis.Resources.Limits.Memory(); limit.Value() < 384<<20 || settings["maxmemory"] != "256mb" ||
		!limit.Equal(*m.redis.Resources.Requests.Memory()) {
		t.Errorf("memory: %v, maxmemory %s", limit, settings["maxmemory"])
	}
}

// settings are the directives of redis.conf.
func settings(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(read(t, "redis.conf")) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), " "); found && name != "#" {
			all[name] = value
		}
	}
	return all
}

func selects(t *testing.T, what string, selector *meta.LabelSelector, labels map[string]string) {
	t.Helper()
	s, err := meta.LabelSelectorAsMap(selector)
	must(t, err)
	for key, value := range s {
		if labels[key] != value {
			t.Errorf("%s selects %s=%s, the pods have %v", what, key, value, labels)
		}
	}
	if len(s) == 0 {
		t.Errorf("%s selects everything", what)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(docs + name)
	must(t, err)
	return string(text)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
