use rollout::ConditionStatus;

use super::*;

fn sample(text: &str) -> Sample {
    serde_json::from_str(text).unwrap()
}

#[test]
fn machines_belong_to_the_owner_whose_name_is_the_longest_prefix() {
    let observation = RecordedClusters::default().observe(&sample(
        r#"{"t": 1.5, "cl": [{"name": "a"}, {"name": "a-b"}], "kcp": [{"name": "a-b-cp"}, {"name": "a-cp"}],
            "md": [{"name": "a-md"}, {"name": "a-md-large"}],
            "m": [{"name": "a-cp-x1", "cp": true}, {"name": "a-b-cp-x2", "cp": true}, {"name": "a-md-large-abc-x3"},
                  {"name": "a-md-abc-x4"}, {"name": "stray", "owner": "a-md", "cluster": "a"}, {"name": "lost"}]}"#,
    ));
    let machines: Vec<_> = observation
        .machines
        .iter()
        .map(|machine| (machine.name.as_str(), machine.owner.as_deref(), machine.cluster.as_str()))
        .collect();
    assert_eq!(
        machines,
        [
            ("a-cp-x1", Some("a-cp"), "a"),
            ("a-b-cp-x2", Some("a-b-cp"), "a-b"),
            ("a-md-large-abc-x3", Some("a-md-large"), "a"),
            ("a-md-abc-x4", Some("a-md"), "a"),
            ("stray", Some("a-md"), "a"),
            ("lost", None, ""),
        ]
    );
    assert_eq!(observation.read_at, Timestamp::UNIX_EPOCH + SignedDuration::from_millis(1500));
}

#[test]
fn a_single_cluster_owns_what_has_another_name() {
    let observation = RecordedClusters::default()
        .observe(&sample(r#"{"t": 0, "cl": [{"name": "prod"}], "kcp": [{"name": "control"}]}"#));
    assert_eq!(observation.control_planes[0].cluster, "prod");
}

#[test]
fn a_pause_is_seen_wherever_it_is_recorded() {
    for (fields, paused) in [
        ("", false),
        (r#", "paused": true"#, true),
        (r#", "paused": null, "ann": ["cluster.x-k8s.io/paused"]"#, true),
        (r#", "ann": ["cluster.x-k8s.io/paused="]"#, true),
        (r#", "ann": ["cluster.x-k8s.io/paused-by-somebody"]"#, false),
        (r#", "c": {"Paused": "True/Paused"}"#, true),
        (r#", "c": {"Paused": "False/NotPaused"}"#, false),
    ] {
        let text = format!(r#"{{"t": 0, "kcp": [{{"name": "a"{fields}}}], "md": [{{"name": "b"{fields}}}]}}"#);
        let observation = RecordedClusters::default().observe(&sample(&text));
        assert_eq!(observation.control_planes[0].paused, paused, "{fields}");
        assert_eq!(observation.machine_deployments[0].paused, paused, "{fields}");
    }
}

#[test]
fn absent_fields_stay_absent_and_unknown_ones_do_no_harm() {
    let observation = RecordedClusters::default().observe(&sample(
        r#"{"t": 0, "new": 1, "kcp": [{"name": "a", "obs": null, "replicas": null, "later": {}, "c": {"Ready": "Perhaps/X", "Available": "Unknown"}}],
            "m": [{"name": "a-1", "cp": true, "kv": "", "node": ""}]}"#,
    ));
    let control_plane = &observation.control_planes[0];
    assert_eq!((control_plane.observed_generation, control_plane.replicas), (None, None));
    assert_eq!(control_plane.conditions.len(), 1);
    assert_eq!(control_plane.conditions["Available"].status, ConditionStatus::Unknown);
    assert_eq!((&observation.machines[0].kubelet_version, &observation.machines[0].node), (&None, &None));
}
