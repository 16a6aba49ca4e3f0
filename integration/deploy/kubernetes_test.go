// Package deploy_test checks the recipes of docs/deploy: the manifests against the rules of docs/operations.md, and
// the compose file in containers. The user with few rights is checked in the tests of ACLs.
package deploy_test

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
)

const docs = "../../docs/deploy/"

// at returns what an object has at a path, as in "spec.replicas" and "containers.0.name"; nil for nothing.
func at(object any, path string) any {
	for step := range strings.SplitSeq(path, ".") {
		switch of := object.(type) {
		case map[string]any:
			object = of[step]
		case []any:
			if i, err := strconv.Atoi(step); err == nil && i < len(of) {
				object = of[i]
				continue
			}
			return nil
		default:
			return nil
		}
	}
	return object
}

// objects returns the objects in a file of manifests, by kind and name.
func objects(t *testing.T, name string) map[string]any {
	t.Helper()
	all := map[string]any{}
	for document := range strings.SplitSeq(read(t, name), "\n---\n") {
		var o any
		must(t, yaml.UnmarshalStrict([]byte(document+"\n"), &o))
		all[fmt.Sprint(at(o, "kind"), " ", at(o, "metadata.name"))] = o
	}
	return all
}

// The pods follow the rules of docs/operations.md: independent machines, one restart at a time, late enough, and
// each master at the name of its pod.
func TestKubernetesKeepsTheRules(t *testing.T) {
	all := objects(t, "kubernetes.yaml")
	set, service, budget := all["StatefulSet quorumlock"], all["Service quorumlock"], all["PodDisruptionBudget quorumlock"]
	pod := at(set, "spec.template.spec")
	redis, quarantine := at(pod, "containers.0"), node.DefaultMaxLease.Seconds()
	number := func(of any, path string) float64 {
		n, ok := at(of, path).(float64)
		testkit.Check(t, ok, "no number at %s", path)
		return n
	}
	const heartbeat = 60 // the longest time between two uses of a master: docs/recipes.md
	testkit.Check(t, number(redis, "readinessProbe.initialDelaySeconds") > heartbeat+quarantine+quarantine/3,
		"a rolling update, or a drain, does not wait until a master is used, for its quarantine, and until it has the held locks")
	testkit.Check(t, number(redis, "livenessProbe.periodSeconds")*number(redis, "livenessProbe.failureThreshold") >= quarantine,
		"a restart for a short pause costs a quarantine")
	n := int(number(set, "spec.replicas"))
	testkit.Check(t, n >= 3 && n%2 != 0, "%d masters", n)
	required := at(pod, "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution.0")
	preferred := at(pod, "affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution.0.podAffinityTerm")
	labels := map[string]any{"app": "quorumlock"}
	for _, c := range []struct {
		of   any
		path string
		want any
	}{
		{set, "spec.updateStrategy", map[string]any{"type": "RollingUpdate"}},
		{set, "spec.podManagementPolicy", "Parallel"}, // the first client needs all masters at once
		{budget, "spec", map[string]any{"maxUnavailable": 1.0, "selector": map[string]any{"matchLabels": labels}}},
		{service, "spec.publishNotReadyAddresses", true}, // clients' use begins a quarantine
		{service, "spec.clusterIP", "None"},
		{service, "spec.selector", labels},
		{set, "spec.serviceName", at(service, "metadata.name")},
		{set, "spec.selector.matchLabels", labels},
		{set, "spec.template.metadata.labels", labels},
		{required, "topologyKey", "kubernetes.io/hostname"},
		{required, "labelSelector.matchLabels", labels},
		{preferred, "topologyKey", "topology.kubernetes.io/zone"},
		{preferred, "labelSelector.matchLabels", labels},
		{redis, "command", []any{"redis-server", "/etc/quorumlock/redis.conf"}},
		{redis, "resources.limits.memory", at(redis, "resources.requests.memory")}, // above maxmemory
		{redis, "resources.limits.memory", "384Mi"},
		{redis, "volumeMounts.0.mountPath", "/etc/quorumlock"},
		{redis, "volumeMounts.1.mountPath", "/tmp"}, // the dir of redis.conf
		{pod, "volumes.0.projected.sources.0.configMap.name", "quorumlock"},
		{pod, "volumes.0.projected.sources.1.secret.name", "quorumlock-users"},
		// The files are those that are tested elsewhere.
		{all["ConfigMap quorumlock"], "data", map[string]any{"redis.conf": read(t, "redis.conf")}},
		{all["Secret quorumlock-users"], "stringData", map[string]any{"users.acl": read(t, "users.acl")}},
	} {
		got := at(c.of, c.path)
		testkit.Check(t, fmt.Sprint(got) == fmt.Sprint(c.want), "%s is %v, want %v", c.path, got, c.want)
	}
	for _, setting := range []string{"maxmemory 256mb", "maxmemory-policy noeviction", "aclfile /etc/quorumlock/users.acl", "dir /tmp"} {
		testkit.Check(t, strings.Contains(read(t, "redis.conf"), "\n"+setting+"\n"), "redis.conf lacks %q", setting)
	}
	urls := strings.Fields(fmt.Sprint(at(all["Secret quorumlock-client"], "stringData.QUORUMLOCK_URLS")))
	testkit.Check(t, len(urls) == int(number(set, "spec.replicas")), "%d URLs", len(urls))
	for i, raw := range urls {
		u := testkit.Got(url.Parse(raw))(t)
		password, _ := u.User.Password()
		testkit.Check(t, u.Host == fmt.Sprintf("quorumlock-%d.quorumlock:6379", i) && at(service, "spec.ports.0.port") == 6379.0 &&
			strings.Contains(read(t, "users.acl"), "user "+u.User.Username()+" on >"+password+" "), "URL %d is %s", i+1, raw)
		n := testkit.Got(node.Open(raw))(t)
		must(t, n.Close())
	}
}

// The job runs once a tick, on the masters of the client's Secret.
func TestCronJob(t *testing.T) {
	job := at(objects(t, "cronjob.yaml")["CronJob nightly-report"], "spec")
	spec := at(job, "jobTemplate.spec")
	report, command := at(spec, "template.spec.containers.0"), fmt.Sprint(at(spec, "template.spec.containers.0.command"))
	got := []any{at(job, "concurrencyPolicy"), at(spec, "backoffLimit"), at(spec, "template.spec.restartPolicy"),
		at(report, "envFrom.0.secretRef.name")}
	testkit.Check(t, slices.Equal(got, []any{"Forbid", 0.0, "Never", "quorumlock-client"}) &&
		strings.HasPrefix(command, "[quorumlock run ") && strings.Contains(command, " -min-hold "), "%v, %s", got, command)
}

func read(t *testing.T, name string) string { return testkit.Read(t, docs+name) }

var must = testkit.Must
