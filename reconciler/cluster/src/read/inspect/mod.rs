//! What checks look at before a rollout, beyond what gates read: one room for each kind of reading.
//!
//! Architecture Invariant: what could not be read is noted under its check, and never missing in silence. Of Secrets
//! only certificates are looked at, and nothing else of them is kept.

mod apis;
mod certificates;
mod drift;
mod etcd;
pub(crate) mod evictions;
mod helm;
mod images;
mod objects;
mod rooms;

use std::collections::BTreeMap;

use futures::join;
use kube::core::DynamicObject;
use policy::CheckName;
use rollout::{ChecksExpectation, Inspection, NodeRoom};

use crate::DeployedObjects;
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{Kind, MUTATING_WEBHOOK_CONFIGURATION, NODE, POD, VALIDATING_WEBHOOK_CONFIGURATION};
use crate::read::probe;

/// Reads what the checks of this expectation look at, in the cluster itself and in the one that manages it.
pub(crate) async fn inspect(
    management: &Connection,
    own: &Connection,
    expectation: &ChecksExpectation,
    deployed: &DeployedObjects,
) -> Inspection {
    let mut inspection = Inspection::default();
    let (configurations, secrets, unfit, etcd, pods, nodes, drifts) = join!(
        configurations(own),
        certificates::of_secrets(management, expectation.cluster.as_ref()),
        objects::unfit(own, &expectation.definitions),
        etcd::inspect(management, own, expectation.cluster.as_ref()),
        own.list(&POD, Some("v1"), None, None),
        own.list(&NODE, Some("v1"), None, None),
        drift::drifts(own, deployed.of_files(&expectation.compared)),
    );
    match unfit {
        Ok(unfit) => inspection.unfit = unfit,
        Err(error) => note(&mut inspection, CheckName::Definitions, &error),
    }
    match etcd {
        Ok(etcd) => inspection.etcd = etcd,
        Err(error) => note(&mut inspection, CheckName::Etcd, &error),
    }
    let configurations = match configurations {
        Ok(configurations) => configurations,
        Err(error) => {
            note(&mut inspection, CheckName::Webhooks, &error);
            note(&mut inspection, CheckName::Certificates, &error);
            Vec::new()
        }
    };
    let (drifts, problem) = drifts;
    inspection.drifts = drifts;
    if let Some(error) = problem {
        note(&mut inspection, CheckName::Drift, &error);
    }
    let pods = pods.unwrap_or_else(|error| {
        note(&mut inspection, CheckName::Images, &error);
        if expectation.rolling.is_some() || !expectation.replaced_groups.is_empty() {
            note(&mut inspection, CheckName::Drains, &error);
        }
        Vec::new()
    });
    inspection.unpulled = pods.iter().flat_map(images::unpulled).collect();
    let replaces_groups = !expectation.replaced_groups.is_empty();
    match nodes {
        Ok(nodes) => {
            inspection.architectures = nodes.iter().filter_map(images::architecture).collect();
            if replaces_groups {
                inspection.rooms = rooms::rooms(&nodes, &pods);
            }
        }
        Err(error) => {
            note(&mut inspection, CheckName::Images, &error);
            if replaces_groups {
                note(&mut inspection, CheckName::Drains, &error);
                note(&mut inspection, CheckName::Capacity, &error);
            }
        }
    }
    if replaces_groups {
        match rooms::vpc_cni(own).await {
            Ok(settings) => inspection.vpc_cni = settings,
            Err(error) => note(&mut inspection, CheckName::Addresses, &error),
        }
    }
    if let Some(nodes) = drained_nodes(management, expectation, &mut inspection).await {
        match evictions::evictions(own, &nodes, &pods).await {
            Ok((evicted, budgets)) => (inspection.evicted, inspection.budgets) = (evicted, budgets),
            Err(error) => note(&mut inspection, CheckName::Drains, &error),
        }
    }
    if let Some(asked) = &expectation.removed_apis {
        match apis::uses(own, asked, &configurations).await {
            Ok(uses) => inspection.api_uses = uses,
            Err(error) => note(&mut inspection, CheckName::RemovedApis, &error),
        }
    }
    inspection.certificates = certificates::of_configurations(&configurations);
    match secrets {
        Ok(held) => inspection.certificates.extend(held),
        Err(error) => note(&mut inspection, CheckName::Certificates, &error),
    }
    match probe::called_for_system(own, &configurations).await {
        Ok(webhooks) => inspection.webhooks = webhooks,
        Err(error) => note(&mut inspection, CheckName::Webhooks, &error),
    }
    inspection
}

/// The nodes that the rollout drains, and whether their drain ends by itself; none where it drains none, or these are not known.
async fn drained_nodes(
    management: &Connection,
    expectation: &ChecksExpectation,
    inspection: &mut Inspection,
) -> Option<BTreeMap<String, bool>> {
    let groups = &expectation.replaced_groups;
    let goes = |room: &&NodeRoom| groups.iter().any(|group| room.group.as_ref() == Some(&group.name));
    // eksctl waits for evictions until its time is over, and then fails: no drain of its goes past a budget.
    let of_groups = inspection.rooms.iter().filter(goes).map(|room| (room.node.clone(), false));
    let mut nodes: BTreeMap<String, bool> = of_groups.collect();
    if let Some(rolling) = &expectation.rolling {
        match evictions::nodes(management, rolling).await {
            Ok(found) => nodes.extend(found),
            Err(error) => note(inspection, CheckName::Drains, &error),
        }
    }
    (!nodes.is_empty()).then_some(nodes)
}

fn note(inspection: &mut Inspection, check: CheckName, error: &RequestError) {
    inspection.unread.entry(check).or_insert_with(|| error.to_string());
}

/// Every webhook configuration with its kind.
async fn configurations(own: &Connection) -> Result<Vec<(&'static Kind, DynamicObject)>, RequestError> {
    const KINDS: [&Kind; 2] = [&VALIDATING_WEBHOOK_CONFIGURATION, &MUTATING_WEBHOOK_CONFIGURATION];
    let mut found = Vec::new();
    for kind in KINDS {
        let listed = own.list(kind, Some("v1"), None, None).await?;
        found.extend(listed.into_iter().map(|object| (kind, object)));
    }
    Ok(found)
}
