package deploy_test

import (
	"slices"
	"testing"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestCronJob(t *testing.T) {
	var job batch.CronJob
	must(t, yaml.UnmarshalStrict([]byte(read(t, "cronjob.yaml")), &job))
	spec := job.Spec.JobTemplate.Spec
	if job.Spec.ConcurrencyPolicy != batch.ForbidConcurrent || *spec.BackoffLimit != 0 ||
		spec.Template.Spec.RestartPolicy != core.RestartPolicyNever {
		t.Errorf("it runs more than once a tick: %+v", spec)
	}
	report := spec.Template.Spec.Containers[0]
	if !slices.Equal(report.Command[:2], []string{"quorumlock", "run"}) || !slices.Contains(report.Command, "-min-hold") {
		t.Errorf("command: %q", report.Command)
	}
	client := decode(t).client
	if from := report.EnvFrom[0].SecretRef; from.Name != client.Name || client.StringData["QUORUMLOCK_URLS"] == "" {
		t.Errorf("the masters come from %+v", from)
	}
}
