//! What has to hold when the last upgrade of the chain is over.

use std::collections::BTreeMap;

use anyhow::ensure;
use in_place::objects::STRATEGY;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use tests::continuous::cell::Strategy;
use tests::servers::FLUX_NAMESPACE;
use tests::servers::manifests::list;

use super::bed::{Bed, KUSTOMIZATION};
use super::cluster::Wanted;
use super::watch::Watch;
use crate::external_etcd::bench::{CONTROL_PLANE, NAMESPACE};
use crate::in_place::bench::ON_DECLINE;
use crate::machines::{CLUSTER_KIND, MACHINE};

/// Annotations and labels that people write, and that say which cluster something belongs to.
const PEOPLES: [&str; 4] = ["stepgate.dev/management-cluster", "stepgate.dev/cluster", ON_DECLINE, STRATEGY];

/// All of it.
pub async fn assert_all(bed: &Bed, watch: &Watch, wanted: &Wanted) -> anyhow::Result<()> {
    watch.assert_commits_followed_machines()?;
    assert_machines(bed, watch, wanted).await?;
    if let Some(in_place) = &bed.in_place {
        in_place.assert_upgraded_once(wanted)?;
    }
    assert_stages_were_committed_once(bed)?;
    assert_nothing_of_ours_is_left(bed).await?;
    bed.scene.assert_nothing_is_left()
}

/// So many machines as are wanted, all at the last version; the first ones, where they are upgraded in place.
async fn assert_machines(bed: &Bed, watch: &Watch, wanted: &Wanted) -> anyhow::Result<()> {
    let machines = list(&bed.scene.client, MACHINE, NAMESPACE).await?;
    let versions = machines.iter().filter_map(|machine| machine.data.pointer("/spec/version").and_then(Value::as_str));
    let versions: Vec<&str> = versions.collect();
    let count = usize::try_from(wanted.control_plane + wanted.workers)?;
    ensure!(versions == vec![wanted.kubernetes(); count], "{versions:?}, {count} of {}", wanted.kubernetes());
    let ever: usize = watch.ever().values().map(std::collections::BTreeSet::len).sum();
    match bed.cell.strategy {
        Strategy::InPlace => ensure!(ever == count, "{ever} machines were there, {count} of them in the end"),
        Strategy::Rolling => ensure!(ever > count, "no machine was replaced"),
    }
    Ok(())
}

/// No stage of a rollout has two commits, whoever was killed in between.
fn assert_stages_were_committed_once(bed: &Bed) -> anyhow::Result<()> {
    let mut times: BTreeMap<(String, String), usize> = BTreeMap::new();
    for commit in bed.scene.repository.rollouts()? {
        *times.entry(commit).or_default() += 1;
    }
    let again: Vec<_> = times.iter().filter(|((_, stage), times)| **times > 1 && stage != "verify").collect();
    ensure!(again.is_empty(), "committed more than once: {again:?}");
    Ok(())
}

/// No object that Cluster API or Flux work by carries anything of Stepgate any more.
async fn assert_nothing_of_ours_is_left(bed: &Bed) -> anyhow::Result<()> {
    let kinds =
        [(MACHINE, NAMESPACE), (CONTROL_PLANE, NAMESPACE), (CLUSTER_KIND, NAMESPACE), (KUSTOMIZATION, FLUX_NAMESPACE)];
    for (kind, namespace) in kinds {
        for object in list(&bed.scene.client, kind, namespace).await? {
            let left = left(&object);
            ensure!(left.is_none(), "{} {}: {left:?}", kind.1, object.name_any());
            let is_suspended = object.data.pointer("/spec/suspend") == Some(&json!(true));
            ensure!(!is_suspended, "{} {} is suspended", kind.1, object.name_any());
        }
    }
    Ok(())
}

fn left(object: &DynamicObject) -> Option<(&String, &String)> {
    let of_ours = |(key, value): &(&String, &String)| {
        !PEOPLES.contains(&key.as_str()) && format!("{key} {value}").contains("stepgate")
    };
    object.annotations().iter().chain(object.labels()).find(of_ours)
}
