//! Workloads, definitions and the order in which Flux applies them.

use super::*;

#[test]
fn a_deployment_rolls_pod_by_pod_and_is_stale_for_a_moment() {
    let mut cluster = cluster(1);
    cluster.commit(&commit(2, Some("capi"), Versions { controller: 2, ..OLD }), after(1));
    let rows = rows(&mut cluster, 150, controller_row);
    let wanted = [
        "1/1 2 2 2 1,1",
        "2/1 2 2 2 1,1",
        "2/2 2 0 2 1,1,2!",
        "2/2 3 1 2 1,1,2!",
        "2/2 3 1 3 1-,1,2",
        "2/2 3 2 2 1,2,2!",
        "2/2 2 2 2 2,2",
    ];
    assert!(contains_in_order(&rows, &wanted), "{rows:#?}");
    assert_eq!(rows.last().map(String::as_str), wanted.last().copied());
    // Counts are complete while an old pod still runs.
    assert!(rows.iter().any(|row| row.starts_with("2/2 2 2 2 ") && row.contains('-')), "{rows:#?}");
}

#[test]
fn a_daemon_set_rolls_node_by_node_and_follows_the_nodes() {
    let mut cluster = cluster(1);
    cluster.commit(&commit(2, Some("cilium"), Versions { agent: 2, control_plane: "v1.35.0", ..OLD }), after(1));
    let mut fewest_ready = u32::MAX;
    let mut most_wanted = 0;
    for second in 0..400 {
        let seen = cluster.observe_afresh(after(second));
        fewest_ready = fewest_ready.min(seen.daemon_sets[0].ready.unwrap());
        most_wanted = most_wanted.max(seen.daemon_sets[0].desired_scheduled.unwrap());
    }
    let seen = cluster.observe_afresh(after(400));
    let agent = &seen.daemon_sets[0];
    assert_eq!((agent.desired_scheduled, agent.updated_scheduled, agent.available), (Some(5), Some(5), Some(5)));
    let nodes: BTreeSet<&str> = seen.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(nodes.len(), 5);
    assert!(agent.running.iter().all(|running| running.image == image("agent", 2) && running.ready));
    assert!(fewest_ready >= 3, "{fewest_ready}");
    assert_eq!(most_wanted, 6);
}

#[test]
fn flux_applies_in_the_order_of_dependencies_and_names_the_revision() {
    let mut cluster = cluster(1);
    cluster.commit(&commit(2, None, Versions { controller: 2, ..OLD }), after(1));
    let revision = commit(2, None, OLD).id;
    let mut order = Vec::new();
    for tenth in 0..1500 {
        let seen = cluster.observe_afresh(after(1) + SignedDuration::from_millis(tenth * 100));
        for kustomization in &seen.flux.kustomizations {
            if kustomization.last_applied_revision.as_ref() == Some(&revision) && !order.contains(&kustomization.name) {
                assert_eq!(
                    kustomization.ready.as_ref().unwrap().message,
                    format!("Applied revision: deploy@sha1:{revision}")
                );
                order.push(kustomization.name.clone());
            }
        }
    }
    let position = |name: &str| order.iter().position(|known| known == name).unwrap();
    assert!(position("capi") < position("cluster"), "{order:?}");
    assert_eq!(order.len(), 3);
}

#[test]
fn a_source_is_in_progress_from_its_look_at_the_branch_until_it_has_the_artifact() {
    let mut cluster = cluster(1);
    cluster.commit(&commit(2, None, Versions { controller: 2, ..OLD }), after(1));
    let states = rows(&mut cluster, 150, |seen| {
        let source = &seen.flux.sources[0];
        let has_it = source.artifact_revision == Some(commit(2, None, OLD).id);
        format!("{:?} {has_it}", source.ready.as_ref().unwrap().status)
    });
    assert_eq!(states, ["True false", "Unknown false", "True true"]);
}

#[test]
fn a_definition_that_drops_a_stored_version_is_refused_until_it_is_migrated() {
    let mut cluster = cluster(1);
    cluster.commit(&commit(2, None, Versions { stored: "v1beta2-only", ..OLD }), after(1));
    let seen = cluster.observe_afresh(after(120));
    let ready = seen.flux.kustomizations[0].ready.clone().unwrap();
    assert_eq!(ready.status, ConditionStatus::False);
    assert!(
        ready.message.contains("machines.cluster.x-k8s.io") && ready.message.contains("\"v1beta1\""),
        "{}",
        ready.message
    );
    assert_eq!(seen.flux.kustomizations[0].last_applied_revision, Some(commit(1, None, OLD).id));
    // The other Kustomization waits for it.
    assert!(
        seen.flux.kustomizations[2]
            .ready
            .as_ref()
            .unwrap()
            .message
            .contains("dependency 'flux-system/capi' is not ready")
    );

    cluster.commit(&commit(3, None, Versions { stored: "v1beta2", ..OLD }), after(121));
    let seen = cluster.observe_afresh(after(300));
    assert_eq!(seen.custom_resource_definitions[0].stored_versions, ["v1beta2"]);
    cluster.commit(&commit(4, None, Versions { stored: "v1beta2-only", ..OLD }), after(301));
    let seen = cluster.observe_afresh(after(420));
    assert_eq!(seen.flux.kustomizations[0].last_applied_revision, Some(commit(4, None, OLD).id));
    assert_eq!(seen.custom_resource_definitions[0].versions, ["v1beta2"]);
}

#[test]
fn presence_is_observed_of_what_the_branch_has_ever_named_and_of_what_is_asked_for() {
    let mut cluster = cluster(1);
    let leftover = ObjectReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        namespace: Some("system".to_owned()),
        name: "leftover".to_owned(),
    };
    cluster.ask_for([leftover]);
    let presence = |observation: &Observation, kind: &str| {
        observation.objects.iter().find(|known| known.reference.kind == kind).map(|known| known.present)
    };
    let seen = cluster.observe_afresh(after(0));
    assert_eq!(presence(&seen, "ConfigMap"), Some(false));
    assert_eq!(presence(&seen, "DaemonSet"), Some(true));
    let mut without = DesiredState::clone(&desired(OLD));
    without.kustomizations.retain(|kustomization| kustomization.name != "cilium");
    cluster.commit(&DeployedCommit { desired: Arc::new(without), ..commit(2, None, OLD) }, after(1));
    let seen = cluster.observe_afresh(after(120));
    assert_eq!(presence(&seen, "DaemonSet"), Some(false));
    assert!(seen.daemon_sets.is_empty());
}
