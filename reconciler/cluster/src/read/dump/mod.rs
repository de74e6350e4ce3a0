//! Dumps of a cluster: what its API server says of nodes, workloads, pods and volumes, reduced to what a dump may hold.

mod objects;
mod pods;

pub(crate) use self::objects::attachment;
pub(crate) use self::pods::{dumped_pods, owner};

use std::collections::BTreeMap;

use futures::join;
use jiff::Timestamp;
use kube::core::DynamicObject;
use policy::InjectionRule;
use rollout::ClusterIdentity;
use rollout::dump::{DUMP_FORMAT, Dump};

use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{
    API_SERVICE, DAEMON_SET, DEPLOYMENT, EVENT, HORIZONTAL_POD_AUTOSCALER, Kind, MUTATING_WEBHOOK_CONFIGURATION,
    NAMESPACE, NODE, PERSISTENT_VOLUME_CLAIM, POD, POD_DISRUPTION_BUDGET, STATEFUL_SET,
    VALIDATING_WEBHOOK_CONFIGURATION, VOLUME_ATTACHMENT,
};
use crate::client::request::Selection;
use crate::read::inspect::evictions;

/// Of which cluster a dump is taken, and when.
pub(crate) struct Subject {
    pub(crate) cluster: String,
    pub(crate) identity: Option<ClusterIdentity>,
    pub(crate) at: Timestamp,
}

/// Takes a dump. A kind that may not be read is noted, and missing.
///
/// # Errors
/// [`RequestError`] when the server cannot be reached, or tells neither of nodes nor of pods.
pub(crate) async fn take(own: &Connection, subject: Subject, rules: &[InjectionRule]) -> Result<Dump, RequestError> {
    let list = async |kind: &'static Kind| (kind, own.list(kind, kind.versions.first().copied(), None, None).await);
    let warnings = async {
        let selection = Selection { fields: Some("type=Warning"), ..Selection::default() };
        own.list_selected(&EVENT, Some("v1"), selection).await
    };
    let (nodes, pods, namespaces) = join!(list(&NODE), list(&POD), list(&NAMESPACE));
    let (deployments, daemon_sets, stateful_sets) = join!(list(&DEPLOYMENT), list(&DAEMON_SET), list(&STATEFUL_SET));
    let (budgets, claims, attachments, autoscalers) = join!(
        list(&POD_DISRUPTION_BUDGET),
        list(&PERSISTENT_VOLUME_CLAIM),
        list(&VOLUME_ATTACHMENT),
        list(&HORIZONTAL_POD_AUTOSCALER)
    );
    let (mutating, validating, services, warnings) = join!(
        list(&MUTATING_WEBHOOK_CONFIGURATION),
        list(&VALIDATING_WEBHOOK_CONFIGURATION),
        list(&API_SERVICE),
        warnings
    );
    let mut unread = Unread::default();
    // Without these a dump says nothing at all.
    let (nodes, pods) = (nodes.1?, pods.1?);
    let namespaces = unread.took(namespaces)?;
    let mut workloads = Vec::new();
    for listed in [deployments, daemon_sets, stateful_sets] {
        let kind = listed.0.kind;
        workloads.extend(unread.took(listed)?.iter().map(|object| objects::workload(kind, object)));
    }
    let mut webhooks = Vec::new();
    for listed in [mutating, validating] {
        let kind = listed.0.kind;
        webhooks.extend(unread.took(listed)?.iter().flat_map(|object| objects::webhooks(kind, object)));
    }
    webhooks.sort();
    let pods = dumped_pods(&pods, &namespaces, rules);
    let mut on_nodes: BTreeMap<String, u32> = BTreeMap::new();
    for node in pods.iter().filter_map(|pod| pod.node.clone()) {
        *on_nodes.entry(node).or_default() += 1;
    }
    Ok(Dump {
        format: DUMP_FORMAT,
        cluster: subject.cluster,
        taken_at: subject.at,
        identity: subject.identity,
        nodes: nodes.iter().map(|node| objects::node(node, &on_nodes)).collect(),
        workloads,
        budgets: unread.took(budgets)?.iter().map(evictions::budget).collect(),
        claims: unread.took(claims)?.iter().map(objects::claim).collect(),
        attachments: unread.took(attachments)?.iter().filter_map(attachment).collect(),
        autoscalers: unread.took(autoscalers)?.iter().filter_map(objects::autoscaler).collect(),
        webhooks,
        unavailable_api_services: unread.took(services)?.iter().filter_map(objects::unavailable).collect(),
        events: objects::events(&unread.took((&EVENT, warnings))?),
        pods,
        unread: unread.0,
    })
}

/// Kinds that could not be read, and why.
#[derive(Default)]
struct Unread(BTreeMap<String, String>);

impl Unread {
    /// The objects of a list; none of a kind that may not be read, which is noted.
    fn took(
        &mut self,
        (kind, listed): (&Kind, Result<Vec<DynamicObject>, RequestError>),
    ) -> Result<Vec<DynamicObject>, RequestError> {
        match listed {
            Ok(objects) => Ok(objects),
            Err(error) if error.is_unreachable() => Err(error),
            Err(error) => {
                self.0.insert(kind.kind.to_owned(), error.to_string());
                Ok(Vec::new())
            }
        }
    }
}
