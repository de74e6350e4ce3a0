//! The `Rollout` custom resource: what git and the gates say about each cluster, where `kubectl` can see it.
//!
//! Architecture Invariant: it is a projection. Nothing reads a decision from it, and losing it loses nothing.

mod status;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube::core::{ApiResource, DynamicObject};
use kube::{CustomResource, CustomResourceExt as _, Resource as _};
use ring::digest::{SHA256, digest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::NotedCommit;
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::request::{FIELD_MANAGER, Selection};
use crate::read::emergency::{Emergency, emergencies};
pub use status::RolloutView;
use status::Told;

/// How long what was written is believed to be still there, in seconds.
const BELIEVED: i64 = 600;

/// How long it is believed that there is no definition, in seconds.
const UNDEFINED: i64 = 20;

/// The least time between two looks at what the guard was told to let pass, in seconds.
const LOOK_AT_EMERGENCIES: i64 = 60;

/// Where one cluster stands. Written by Stepgate for people and tools to look at; what is written into it by others changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "stepgate.dev",
    version = "v1alpha1",
    kind = "Rollout",
    namespaced,
    status = "RolloutStatus",
    category = "stepgate",
    printcolumn = r#"{"name":"State","type":"string","jsonPath":".status.state"}"#,
    printcolumn = r#"{"name":"Stage","type":"string","jsonPath":".status.stage"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Since","type":"date","jsonPath":".status.since"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.tanzu.phase"}"#,
    printcolumn = r#"{"name":"Add-ons","type":"string","jsonPath":".status.tanzu.summary"}"#,
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.message"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct RolloutSpec {
    /// The cluster, as the fleet repository names it.
    pub cluster: String,
}

/// Where the cluster stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// The generation that this status is about.
    #[serde(default)]
    pub observed_generation: Option<i64>,
    /// `done`, `waiting`, `held`, `blocked` or `failed`.
    #[serde(default)]
    pub state: String,
    /// The stage concerned.
    #[serde(default)]
    pub stage: Option<String>,
    /// Since when it has been in this state and stage.
    #[serde(default)]
    pub since: Option<String>,
    /// One line.
    #[serde(default)]
    pub message: String,
    /// What helps, where somebody can help.
    #[serde(default)]
    pub help: Option<String>,
    /// The newest commit of the deploy branch that Stepgate made for this cluster in the life of this process or before it.
    #[serde(default)]
    pub commit: Option<String>,
    /// Objects of the cluster that the guard lets anybody change, with the reason that `stepgate.dev/emergency` gives; null where it was not looked.
    #[serde(default)]
    pub emergencies: Option<Vec<String>>,
    /// Where a cluster of Tanzu stands; null of others.
    #[serde(default)]
    pub tanzu: Option<RolloutTanzu>,
    /// `Ready`, `Reconciling` and `Stalled`, as kstatus reads them.
    #[serde(default)]
    pub conditions: Vec<RolloutCondition>,
}

/// Where a cluster of Tanzu stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutTanzu {
    /// `creating`, `running`, `updating`, `updateFailed`, `deleting` or `failed`.
    #[serde(default)]
    pub phase: Option<String>,
    /// How many of its add-ons are how far.
    #[serde(default)]
    pub summary: String,
    /// Each of its add-ons.
    #[serde(default)]
    pub addons: Vec<RolloutAddon>,
}

/// Where one add-on stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutAddon {
    /// Its name.
    pub name: String,
    /// Its version.
    #[serde(default)]
    pub version: Option<String>,
    /// `pending`, `applied`, `error` or `unmanaged`.
    pub status: String,
    /// What went wrong last.
    #[serde(default)]
    pub last_error_message: Option<String>,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutCondition {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word.
    pub reason: String,
    /// One line.
    pub message: String,
    /// When the status changed last.
    pub last_transition_time: String,
    /// The generation that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// The definition of the resource, as it is installed.
///
/// # Errors
/// Never in practice: a definition is JSON.
pub fn rollout_definition() -> Result<Value, serde_json::Error> {
    serde_json::to_value(Rollout::crd())
}

/// Writes the views of clusters as `Rollout` objects, and what happened to them as events. Only what differs is written.
#[derive(Debug)]
pub struct Projection {
    connection: Connection,
    namespace: String,
    known: Known,
    guard: Option<Guard>,
}

/// What the guard of an installation lets pass, as it was seen last.
#[derive(Debug, Default)]
struct Guard {
    looked_at: Option<Timestamp>,
    emergencies: Option<Vec<Emergency>>,
}

impl Guard {
    /// Looks again when it is time to. What was seen before stays where that fails.
    async fn look(&mut self, connection: &Connection, now: Timestamp) -> Result<(), RequestError> {
        if self.looked_at.is_some_and(|at| now.duration_since(at).as_secs() < LOOK_AT_EMERGENCIES) {
            return Ok(());
        }
        self.looked_at = Some(now);
        self.emergencies = Some(emergencies(connection).await?);
        Ok(())
    }

    /// What concerns a cluster, a line each; what was told before where it was not looked yet.
    fn lines(&self, cluster: &str, before: Option<&RolloutStatus>) -> Option<Vec<String>> {
        let Some(seen) = &self.emergencies else { return before.and_then(|before| before.emergencies.clone()) };
        Some(seen.iter().filter(|emergency| emergency.is_of(cluster)).map(ToString::to_string).collect())
    }
}

#[derive(Debug, Default)]
struct Known {
    /// When the objects were listed last.
    listed: Option<Timestamp>,
    /// Whether the definition is there.
    served: bool,
    rollouts: BTreeMap<String, Rollout>,
    /// Machines that were told of as kept, by cluster.
    kept: BTreeSet<(String, String)>,
}

impl Projection {
    /// A projection into this namespace.
    #[must_use]
    pub fn new(connection: Connection, namespace: &str) -> Self {
        Self { connection, namespace: namespace.to_owned(), known: Known::default(), guard: None }
    }

    /// The same, that also tells of what the guard (`stepgate install --guard`) was told to let pass.
    #[must_use]
    pub fn with_guard(self, guarded: bool) -> Self {
        Self { guard: guarded.then(Guard::default), ..self }
    }

    /// Shows these clusters. Those that the fleet has no longer lose their object.
    ///
    /// # Errors
    /// The first request that failed; what could be written is. A server without the definition is none.
    pub async fn show(&mut self, views: &[RolloutView], now: Timestamp) -> Result<(), RequestError> {
        let looked = match &mut self.guard {
            Some(guard) => guard.look(&self.connection, now).await,
            None => Ok(()),
        };
        let mut known = std::mem::take(&mut self.known);
        let shown = self.show_all(&mut known, views, now).await;
        self.known = known;
        shown.and(looked)
    }

    async fn show_all(&self, known: &mut Known, views: &[RolloutView], now: Timestamp) -> Result<(), RequestError> {
        self.refresh(known, now).await?;
        if !known.served {
            return Ok(());
        }
        let mut failed = None;
        for view in views {
            let before = known.rollouts.get(&view.cluster);
            match self.show_one(view, before, now).await {
                Ok(Some(rollout)) => {
                    known.rollouts.insert(view.cluster.clone(), rollout);
                }
                Ok(None) => {}
                Err(error) => {
                    // What is there now is not known.
                    known.listed = None;
                    // The definition has gone: it may come back.
                    if !error.is_not_found() {
                        failed.get_or_insert(error);
                    }
                }
            }
            if let Err(error) = self.tell_of_kept(view, known, now).await {
                failed.get_or_insert(error);
            }
        }
        let gone: Vec<String> =
            known.rollouts.keys().filter(|name| !views.iter().any(|view| &view.cluster == *name)).cloned().collect();
        for name in gone {
            if let Some(rollout) = known.rollouts.remove(&name) {
                let object = DynamicObject { types: None, metadata: rollout.metadata, data: Value::Null };
                match self.connection.delete(&resource(), Some(&self.namespace), &object).await {
                    // Somebody has written it since it was read: it is read again, and deleted then.
                    Err(error) if error.is_conflict() => known.listed = None,
                    Err(error) if !error.is_not_found() => drop(failed.get_or_insert(error)),
                    Ok(()) | Err(_) => {}
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// One event on the `Rollout` of a cluster for what a person did, or tried to do, on the dashboard.
    ///
    /// # Errors
    /// When the server refuses or does not answer.
    pub async fn tell_of_action(
        &self,
        cluster: &str,
        message: &str,
        is_done: bool,
        now: Timestamp,
    ) -> Result<(), RequestError> {
        let rollout = self.connection.get(&resource(), Some(&self.namespace), cluster).await?;
        let uid = rollout.and_then(|rollout| rollout.metadata.uid);
        let kind = if is_done { "Normal" } else { "Warning" };
        let told = Told { kind, reason: "WebAction", message: status::shortened(message) };
        // Each is told, however often the same is done.
        self.tell_at(cluster, &told, &format!("{now:.9}"), uid.as_deref(), now).await
    }

    /// What is there is read by a new process, and now and then: somebody may have deleted or changed it.
    async fn refresh(&self, known: &mut Known, now: Timestamp) -> Result<(), RequestError> {
        let believed = if known.served { BELIEVED } else { UNDEFINED };
        if known.listed.is_some_and(|at| now.duration_since(at).as_secs() < believed) {
            return Ok(());
        }
        known.served = self.connection.address(&resource().api_version, "Rollout").await?.is_some();
        known.rollouts.clear();
        if known.served {
            let listed = self
                .connection
                .list_resource(&resource(), Some(&self.namespace), Selection::default(), "list rollouts")
                .await?;
            let rollouts = listed.into_iter().filter_map(|object| object.try_parse::<Rollout>().ok());
            let named = rollouts.filter_map(|rollout| Some((rollout.metadata.name.clone()?, rollout)));
            known.rollouts = named.collect();
        }
        known.listed = Some(now);
        Ok(())
    }

    /// The object after writing it; none where it says this already.
    async fn show_one(
        &self,
        view: &RolloutView,
        before: Option<&Rollout>,
        now: Timestamp,
    ) -> Result<Option<Rollout>, RequestError> {
        let status_before = before.and_then(|rollout| rollout.status.as_ref());
        let generation = before.and_then(|rollout| rollout.metadata.generation).or(Some(1));
        let emergencies = self.guard.as_ref().and_then(|guard| guard.lines(&view.cluster, status_before));
        let status = view.status(status_before, generation, emergencies, now);
        if status_before == Some(&status) {
            return Ok(None);
        }
        let (resource, namespace) = (resource(), Some(self.namespace.as_str()));
        if before.is_none() {
            let object = json!({"apiVersion": resource.api_version, "kind": resource.kind,
                "metadata": {"name": view.cluster}, "spec": {"cluster": view.cluster}});
            match self.connection.create(&resource, namespace, &object).await {
                Ok(_) | Err(RequestError::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        // A merge patch takes away what is null, and leaves what it does not name: a status names all of its fields.
        let patch = json!({"status": status});
        let written = self.connection.merge_status(&resource, namespace, &view.cluster, &patch).await?;
        if view.is_transition(status_before) {
            let told = Told { kind: view.event_type(), reason: view.reason(), message: view.event_message() };
            self.tell(&view.cluster, &told, &written, now).await?;
        }
        let of_phase = status::of_phase(status_before, &status);
        for told in of_phase.into_iter().chain(status::of_emergencies(status_before, &status)) {
            self.tell(&view.cluster, &told, &written, now).await?;
        }
        let mut rollout = Rollout::new(&view.cluster, RolloutSpec { cluster: view.cluster.clone() });
        rollout.metadata = written.metadata;
        rollout.status = Some(status);
        Ok(Some(rollout))
    }

    /// One event for one transition.
    async fn tell(
        &self,
        cluster: &str,
        event: &Told,
        object: &DynamicObject,
        now: Timestamp,
    ) -> Result<(), RequestError> {
        let version = object.metadata.resource_version.as_deref().unwrap_or_default();
        self.tell_at(cluster, event, version, object.metadata.uid.as_deref(), now).await
    }

    /// One event for each machine that is kept, whoever tells, for as long as events last.
    async fn tell_of_kept(&self, view: &RolloutView, known: &mut Known, now: Timestamp) -> Result<(), RequestError> {
        let Known { rollouts, kept, .. } = known;
        kept.retain(|(cluster, line)| cluster != &view.cluster || view.kept.contains(line));
        let Some(rollout) = rollouts.get(&view.cluster) else { return Ok(()) };
        for line in &view.kept {
            let of_cluster = (view.cluster.clone(), line.clone());
            if kept.contains(&of_cluster) {
                continue;
            }
            let told = Told { kind: "Normal", reason: "MachineKept", message: status::shortened(line) };
            self.tell_at(&view.cluster, &told, "", rollout.metadata.uid.as_deref(), now).await?;
            kept.insert(of_cluster);
        }
        Ok(())
    }

    async fn tell_at(
        &self,
        cluster: &str,
        event: &Told,
        version: &str,
        uid: Option<&str>,
        now: Timestamp,
    ) -> Result<(), RequestError> {
        let resource = ApiResource::erase::<k8s_openapi::api::core::v1::Event>(&());
        let at = format!("{now:.0}");
        // Named after what was written and what is told of it: told twice, by this process or another one, it is one event.
        let told = [uid.unwrap_or_default(), version, event.reason, &event.message].join("\n");
        let told: String =
            digest(&SHA256, told.as_bytes()).as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let event = json!({"apiVersion": "v1", "kind": "Event",
            "metadata": {"name": format!("{cluster}.{told}")},
            "involvedObject": {"apiVersion": Rollout::api_version(&()), "kind": "Rollout", "name": cluster,
                "namespace": self.namespace, "uid": uid},
            "type": event.kind, "reason": event.reason, "message": event.message,
            "firstTimestamp": at, "lastTimestamp": at, "count": 1,
            "source": {"component": FIELD_MANAGER}});
        match self.connection.create(&resource, Some(&self.namespace), &event).await {
            Err(error) if !error.is_conflict() => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

/// The commit that the `Rollout` of a cluster names, and that object.
pub(crate) async fn noted_commit(
    connection: &Connection,
    namespace: &str,
    cluster: &str,
) -> Result<Option<NotedCommit>, RequestError> {
    let fields = format!("metadata.name={cluster}");
    let selection = Selection { fields: Some(&fields), ..Selection::default() };
    let listed = match connection.list_resource(&resource(), Some(namespace), selection, "list rollouts").await {
        // Where there is no definition, there is no note.
        Err(error) if error.is_not_found() => return Ok(None),
        listed => listed?,
    };
    let noted = |object: DynamicObject| object.try_parse::<Rollout>().ok()?.status?.commit?.parse().ok();
    let by = || format!("Rollout {namespace}/{cluster}");
    Ok(listed.into_iter().find_map(noted).map(|commit| NotedCommit { commit, branch: None, by: by() }))
}

fn resource() -> ApiResource {
    ApiResource::erase::<Rollout>(&())
}
