//! Server-side apply of manifests without Flux (`apply: direct`), and deletion of what left git.
//!
//! Architecture Invariant: applying never fights and never loses data. Everything is asked for by a
//! dry run first, and nothing is written while a field belongs to somebody else. What is applied
//! stands in an inventory in the cluster before it is applied; only that is ever deleted, only as
//! it was applied (by uid), and data only by consent.

mod addresses;
mod inventory;
mod manifest;
mod prune;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use kube::core::DynamicObject;
use kustomize_rs::BuildError;
use tokio::time::{Instant, sleep};

use self::addresses::Addresses;
use self::inventory::{Entry, Inventory};
use self::manifest::{Manifest, Phase};
use crate::client::connection::Connection;
use crate::client::error::{FieldConflict, RequestError};
use crate::client::kind::CUSTOM_RESOURCE_DEFINITION;
use crate::client::request::{Address, described};
use crate::objects;
use crate::{ApplyReport, ApplyRequest, ApplySet};

/// How long definitions may take to be established before what depends on them is applied.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(60);
const ESTABLISHED_POLL: Duration = Duration::from_millis(100);

/// Dry runs under way at once.
const CONCURRENT: usize = 8;

/// Why manifests were not applied, or not all of them. Applying is repeatable: what was applied stays.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The files cannot be built.
    #[error("could not build {folder}: {source}")]
    Build {
        /// The directory.
        folder: String,
        /// What kustomize says.
        source: BuildError,
    },
    /// A document is no Kubernetes object.
    #[error("{path}:{line}: no Kubernetes object: {field} is missing")]
    NotAnObject {
        /// The file.
        path: String,
        /// Line where the document starts.
        line: usize,
        /// What is missing.
        field: &'static str,
    },
    /// Other writers own fields that the apply would change. Nothing was written.
    #[error(
        "nothing was applied, because other writers own fields that would change: {}; stop that writer, or have it give the fields up; stepgate does not force",
        listed(conflicts)
    )]
    Conflicts {
        /// Each object with the fields in question.
        conflicts: Vec<ApplyConflict>,
    },
    /// A request failed.
    #[error("{path}:{line}: {source}")]
    Request {
        /// The file.
        path: String,
        /// Line where the document starts.
        line: usize,
        /// What went wrong.
        source: Box<RequestError>,
    },
    /// A definition was applied and did not become usable.
    #[error("CustomResourceDefinition {name} was applied but is not established after {} s; see `kubectl describe crd {name}`", after.as_secs())]
    NotEstablished {
        /// Its name.
        name: String,
        /// How long was waited.
        after: Duration,
    },
    /// The inventory could not be read or written.
    #[error("could not keep the inventory of what is applied: {0}")]
    Inventory(RequestError),
    /// The inventory is there and makes no sense.
    #[error(
        "could not read ConfigMap {}/{name}: {reason}; repair it, or delete it, after which what left git before stays in the cluster",
        crate::kubernetes::SYSTEM_NAMESPACE
    )]
    InventoryUnreadable {
        /// Its name.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// What left git could not be deleted.
    #[error("could not delete what is in git no longer: {0}")]
    Prune(RequestError),
}

/// An object with fields that others own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyConflict {
    /// The file.
    pub path: String,
    /// Line where the document starts.
    pub line: usize,
    /// `Kind namespace/name`.
    pub object: String,
    /// Whose field is in the way; empty where the server did not say it.
    pub fields: Vec<FieldConflict>,
}

impl fmt::Display for ApplyConflict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}: ", self.path, self.line, self.object)?;
        for (index, field) in self.fields.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(formatter, "{comma}{field}")?;
        }
        Ok(())
    }
}

fn listed(conflicts: &[ApplyConflict]) -> String {
    conflicts.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// What became of the sets of one request on one server.
#[derive(Debug)]
pub(crate) struct Applying {
    /// What was done.
    pub(crate) report: ApplyReport,
    /// By set: whether it was applied, or why not; nothing for those that it did not come to.
    pub(crate) results: Vec<Option<Result<(), String>>>,
    /// Why it ended early.
    pub(crate) error: Option<ApplyError>,
}

/// Applies the sets in their order, then deletes what none of them holds any more.
pub(crate) async fn apply(connection: &Connection, request: &ApplyRequest, sets: &[&ApplySet]) -> Applying {
    let results = vec![None; sets.len()];
    let mut run = Run {
        connection,
        request,
        sets,
        addresses: Addresses::new(connection),
        defined: BTreeSet::new(),
        applying: Applying { report: ApplyReport::default(), results, error: None },
    };
    run.applying.error = run.all().await.err();
    if let Some(error) = &run.applying.error {
        let text = error.to_string();
        // A failure that is no single set's own stands in the way of all.
        if !run.applying.results.iter().flatten().any(Result::is_err) {
            run.applying.results.fill(Some(Err(text)));
        }
    }
    run.applying
}

struct Run<'a> {
    connection: &'a Connection,
    request: &'a ApplyRequest,
    sets: &'a [&'a ApplySet],
    addresses: Addresses<'a>,
    /// Group and kind of what this request defines.
    defined: BTreeSet<(String, String)>,
    applying: Applying,
}

impl Run<'_> {
    async fn all(&mut self) -> Result<(), ApplyError> {
        let mut manifests = Vec::with_capacity(self.sets.len());
        for (index, set) in self.sets.iter().enumerate() {
            let read = manifest::read(set);
            self.note(index, &read);
            manifests.push(read?);
        }
        self.refuse_conflicts(&manifests).await?;
        let mut inventory = Inventory::read(self.connection, self.request.cluster.as_str()).await?;
        let before = inventory.entries.clone();
        let mut wanted = before.clone();
        for (_, manifests) in self.sets.iter().zip(&manifests).filter(|(set, _)| set.prune) {
            for manifest in manifests {
                let address = self.addresses.find(&manifest.api_version, &manifest.kind).await;
                let address = address.map_err(ApplyError::Inventory)?;
                let namespace =
                    address.as_ref().map_or(manifest.namespace.as_deref(), |address| manifest.place(address));
                let entry = manifest.entry(namespace);
                if !before.iter().any(|known| known.is(&entry)) {
                    wanted.insert(entry);
                }
            }
        }
        inventory.write(wanted).await?;
        let applied = self.apply_sets(&manifests).await?;
        let kept = prune::prune(
            self.connection,
            &mut self.addresses,
            before,
            &applied,
            self.request,
            &mut self.applying.report,
        );
        let kept = kept.await.map_err(ApplyError::Prune)?;
        inventory.write(applied.prunable.into_iter().chain(kept).collect()).await
    }

    /// Applies as a dry run what can be applied already, and refuses everything when others own a field of anything.
    async fn refuse_conflicts(&mut self, manifests: &[Vec<Manifest>]) -> Result<(), ApplyError> {
        let mut asked = Vec::new();
        for (index, set) in manifests.iter().enumerate() {
            for manifest in set {
                let found = self.addresses.find(&manifest.api_version, &manifest.kind).await;
                if let Some(address) = found.map_err(|source| manifest.failed(source))? {
                    asked.push((index, manifest, address));
                }
            }
        }
        let connection = self.connection;
        // Collected first: a stream that makes its futures as it goes cannot be sent between threads.
        let mut asking = Vec::with_capacity(asked.len());
        for (_, manifest, address) in &asked {
            asking.push(send(connection, manifest, address, true));
        }
        let answers: Vec<_> = stream::iter(asking).buffered(CONCURRENT).collect().await;
        let mut all = Vec::new();
        for ((index, manifest, address), answer) in asked.iter().zip(answers) {
            match answer {
                Err(RequestError::Conflict { fields, .. }) if !fields.is_empty() => {
                    let object = described(&address.resource, manifest.place(address), &manifest.name);
                    let conflict = ApplyConflict { path: manifest.path.clone(), line: manifest.line, object, fields };
                    let error = ApplyError::Conflicts { conflicts: vec![conflict.clone()] };
                    self.note(*index, &Err::<(), _>(error));
                    all.push(conflict);
                }
                Err(error) if error.is_unreachable() => return Err(manifest.failed(error)),
                // What is not there yet, such as a namespace, is applied first; what is refused is refused again, in its turn.
                Ok(_) | Err(_) => {}
            }
        }
        if all.is_empty() { Ok(()) } else { Err(ApplyError::Conflicts { conflicts: all }) }
    }

    async fn apply_sets(&mut self, manifests: &[Vec<Manifest>]) -> Result<Applied, ApplyError> {
        let mut applied = Applied::default();
        for (index, (set, manifests)) in self.sets.iter().zip(manifests).enumerate() {
            let result = self.apply_set(set, manifests, &mut applied).await;
            self.note(index, &result);
            result?;
            if let Some(slot) = self.applying.results.get_mut(index) {
                *slot = Some(Ok(()));
            }
        }
        Ok(applied)
    }

    async fn apply_set(
        &mut self,
        set: &ApplySet,
        manifests: &[Manifest],
        applied: &mut Applied,
    ) -> Result<(), ApplyError> {
        let mut definitions = Vec::new();
        for manifest in manifests {
            if manifest.phase > Phase::Definitions {
                self.wait_until_established(&std::mem::take(&mut definitions)).await?;
            }
            let (entry, shown) = self.apply_one(manifest).await?;
            if set.prune {
                applied.prunable.insert(entry.clone());
            }
            applied.all.push(entry);
            self.applying.report.applied.push(shown);
            if manifest.phase == Phase::Definitions {
                self.defined.extend(manifest.defines());
                definitions.push(manifest.name.clone());
            }
        }
        self.wait_until_established(&definitions).await
    }

    async fn apply_one(&mut self, manifest: &Manifest) -> Result<(Entry, String), ApplyError> {
        let (group, _) = manifest.api_version.split_once('/').unwrap_or_default();
        let is_new = self.defined.contains(&(group.to_owned(), manifest.kind.clone()));
        let address = if is_new {
            self.addresses.find_defined(&manifest.api_version, &manifest.kind).await
        } else {
            self.addresses.find(&manifest.api_version, &manifest.kind).await
        };
        let address = address.map_err(|source| manifest.failed(source))?;
        let address = address.ok_or_else(|| {
            manifest.failed(RequestError::NotServed {
                attempt: format!("apply {} {}", manifest.kind, manifest.name),
                server: self.connection.server().to_owned(),
                kind: format!("{} of {}", manifest.kind, manifest.api_version),
            })
        })?;
        let sent = send(self.connection, manifest, &address, false).await;
        let sent = sent.map_err(|source| manifest.failed(source))?;
        let namespace = manifest.place(&address);
        let entry = Entry { uid: sent.metadata.uid, ..manifest.entry(namespace) };
        Ok((entry, described(&address.resource, namespace, &manifest.name)))
    }

    async fn wait_until_established(&self, names: &[String]) -> Result<(), ApplyError> {
        let resource = CUSTOM_RESOURCE_DEFINITION.resource("v1");
        let deadline = Instant::now() + ESTABLISHED_WITHIN;
        for name in names {
            loop {
                let found: Result<Option<DynamicObject>, _> = self.connection.get(&resource, None, name).await;
                // A server that is away for a moment is asked again until the deadline.
                let established =
                    found.ok().flatten().is_some_and(|object| objects::custom_resource_definition(&object).established);
                if established {
                    break;
                }
                if Instant::now() >= deadline {
                    return Err(ApplyError::NotEstablished { name: name.clone(), after: ESTABLISHED_WITHIN });
                }
                sleep(ESTABLISHED_POLL).await;
            }
        }
        Ok(())
    }

    /// A set that fails is named by its own result.
    fn note<T>(&mut self, index: usize, result: &Result<T, ApplyError>) {
        if let (Err(error), Some(slot)) = (result, self.applying.results.get_mut(index)) {
            *slot = Some(Err(error.to_string()));
        }
    }
}

/// What was applied.
#[derive(Debug, Default)]
struct Applied {
    /// Everything.
    all: Vec<Entry>,
    /// What is deleted when it leaves git.
    prunable: BTreeSet<Entry>,
}

async fn send(
    connection: &Connection,
    manifest: &Manifest,
    address: &Address,
    dry_run: bool,
) -> Result<DynamicObject, RequestError> {
    connection.apply(&address.resource, manifest.place(address), &manifest.name, &manifest.object, dry_run).await
}
