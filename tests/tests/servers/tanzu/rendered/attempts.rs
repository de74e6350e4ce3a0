//! A machine that never comes up.

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use tests::servers::isolated;
use tests::servers::manifests::{apply, list};
use tests::waiting::{LONG_PATIENCE, until_within};

use super::{Bench, FILE, NAME, NEW, POLICY, SMALL, cluster, delete};
use crate::machines::{self, NAMESPACE};

impl Bench {
    /// Waits until so many attempts have failed, none of them with a machine of another.
    async fn attempts(&self, number: usize) -> anyhow::Result<()> {
        let noted = async || {
            let cluster = self.root().await?;
            let Some(text) = cluster.annotations().get("stepgate.dev/attempts") else { return Ok(None) };
            let noted: Value = serde_json::from_str(text)?;
            let failed = noted["failed"].as_array().cloned().unwrap_or_default();
            let machines: Vec<String> = failed
                .iter()
                .flat_map(|one| one["machines"].as_array().cloned().unwrap_or_default())
                .map(|one| one["uid"].to_string())
                .collect();
            let different: BTreeSet<&String> = machines.iter().collect();
            ensure!(different.len() == failed.len() && machines.len() == failed.len(), "{text}");
            ensure!(failed.len() <= 4, "{text}");
            Ok((failed.len() >= number).then_some(()))
        };
        let waited = until_within(&format!("{number} attempts have failed"), LONG_PATIENCE, noted).await;
        match waited {
            Ok(()) => Ok(()),
            Err(error) => Err(error.context(self.scene.why(NAME).await?.to_string())),
        }
    }
}

/// What keeps machines of the pool `green` from coming up, though not from going, where they are made from any other template than
/// this one; and a ConfigMap that tells whether it holds already.
fn refusal(template: &str) -> [Value; 2] {
    let is_probe = "object.kind == 'ConfigMap' && object.metadata.name == 'probe'";
    let is_new = format!(
        "object.kind == 'DevMachine' && object.metadata.name.startsWith('{NAME}-green-') && \
         object.metadata.annotations['cluster.x-k8s.io/cloned-from-name'] != '{template}' && \
         !has(object.metadata.deletionTimestamp)"
    );
    let rule = |group: &str, version: &str, resource: &str, operation: &str| json!({"apiGroups": [group], "apiVersions": [version], "resources": [resource], "operations": [operation]});
    let rules = [
        rule("infrastructure.cluster.x-k8s.io", "*", "devmachines/status", "UPDATE"),
        rule("", "v1", "configmaps", "CREATE"),
    ];
    let metadata = json!({"name": "no-capacity"});
    let expression = format!("!(({is_probe}) || ({is_new}))");
    [
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": metadata,
            "spec": {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": rules},
                "validations": [{"expression": expression, "message": "no capacity"}]}}),
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": metadata, "spec": {"policyName": "no-capacity", "validationActions": ["Deny"]}}),
    ]
}

#[test]
fn a_machine_that_never_comes_up_is_tried_four_times_and_then_people_are_asked() {
    let name = "tanzu::rendered::attempts::a_machine_that_never_comes_up_is_tried_four_times_and_then_people_are_asked";
    isolated(name, &machines::needed(), async |programs| {
        let policy = POLICY.replace("in-memory}", "in-memory, machineTimeout: 20s}");
        let mut bench = Bench::start(&programs, NEW, SMALL, &policy).await?;
        let client = bench.scene.client.clone();
        let infrastructure = ("infrastructure.cluster.x-k8s.io/v1beta2", "DevMachine");
        let green = list(&client, infrastructure, NAMESPACE).await?;
        let green = green.iter().find(|machine| machine.name_any().starts_with(&format!("{NAME}-green-")));
        let template = green.and_then(|machine| machine.annotations().get("cluster.x-k8s.io/cloned-from-name"));
        apply(&client, &refusal(template.context("no machine of green")?)).await?;
        let probe =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe", "namespace": NAMESPACE}});
        let is_refused = async || {
            let refused = apply(&client, std::slice::from_ref(&probe)).await.is_err();
            if !refused {
                delete(&client, ("v1", "ConfigMap"), NAMESPACE, "probe").await?;
            }
            Ok(refused.then_some(()))
        };
        until_within("machines are refused", LONG_PATIENCE, is_refused).await?;
        let (plane, blue, old) =
            (bench.uids("control-plane").await?, bench.uids("blue").await?, bench.uids("green").await?);
        let mut controller = bench.scene.controller()?;

        bench.scene.repository.push("Larger machines", &[(FILE, &cluster(NEW, "large", SMALL))])?;
        bench.scene.stage_is(NAME, "workers/green").await?;
        // Whoever goes on counts on.
        bench.attempts(2).await?;
        controller.kill()?;
        controller.restart()?;
        bench.attempts(4).await?;
        bench.scene.why_says(NAME, &["updateFailed", "no machine came up in 4 attempts of 20 s"]).await?;
        let why = bench.scene.why(NAME).await?;
        assert_eq!(why.pointer("/tanzu/phase"), Some(&json!("updateFailed")), "{why}");
        assert_eq!((bench.uids("control-plane").await?, bench.uids("blue").await?), (plane.clone(), blue.clone()));
        let left = bench.uids("green").await?;
        assert!(old.is_subset(&left) && left.len() == 2, "the machine of before serves on: {left:?}");

        // People repair it, and want it tried again: the machine at which it stopped is made anew, and no other.
        delete(&client, ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"), "", "no-capacity")
            .await?;
        let output = bench.scene.stepgate(&["retry", NAME, "--yes"]).output()?;
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        ensure!(output.status.success() && said.contains("attempt 5 at stage workers/green"), "{said}");
        bench.rolled(&["workers/green", "templates", "verify"]).await?;
        assert_eq!((bench.uids("control-plane").await?, bench.uids("blue").await?), (plane, blue));
        assert!(bench.uids("green").await?.is_disjoint(&left));
        bench.scene.folder.done();
        Ok(())
    });
}
