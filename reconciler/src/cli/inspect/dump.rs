//! `stepgate dump`: what a cluster is like now, for people and to be compared later.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use rollout::dump::{Dump, PodOwner};
use serde::{Serialize, Serializer};

use crate::cli::common::error::CommandError;
use crate::cli::common::exit::Exit;
use crate::cli::common::fleet::{self, Opened};
use crate::cli::common::output::{self, Format, Report, Table};
use crate::cli::run::verb::runtime;
use crate::cli::{ClusterArguments, FleetArguments};
use crate::reconcile::planner::ClusterView;
use cluster::kubernetes::WrittenDump;

/// Arguments of `stepgate dump`.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    fleet: FleetArguments,
    #[command(flatten)]
    access: ClusterArguments,
    /// The cluster.
    #[arg(add = crate::cli::common::names::clusters())]
    cluster: String,
    /// Write the dump into this folder, under its digest, and print where it is.
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// The form of the output: as JSON and YAML it is the dump itself.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// A dump, for people as a table of what is not ready.
struct Printed<'a>(&'a Dump);

impl Serialize for Printed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// Where a dump was written.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenReport {
    cluster: String,
    taken_at: String,
    digest: String,
    file: String,
}

impl Report for WrittenReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        let note = format!("dump {} of {} in {}", self.digest, self.cluster, self.file);
        vec![(None, Table { notes: vec![note], ..Table::default() })]
    }
}

impl Report for Printed<'_> {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        let dump = self.0;
        let mut nodes = Table { headers: vec!["NODE", "GROUP", "KUBELET", "OS", "READY", "PODS"], ..Table::default() };
        for node in &dump.nodes {
            let ready = if node.unschedulable { format!("{}, cordoned", node.ready) } else { node.ready.to_string() };
            nodes.rows.push(vec![
                node.name.clone(),
                node.group.clone().unwrap_or_default(),
                node.kubelet.clone(),
                node.os_image.clone(),
                ready,
                node.pods.to_string(),
            ]);
        }
        let mut owners: BTreeMap<&PodOwner, [u32; 4]> = BTreeMap::new();
        for pod in &dump.pods {
            let [pods, ready, expected, restarts] = owners.entry(&pod.owner).or_default();
            (*pods, *ready) = (*pods + 1, *ready + pod.ready);
            (*expected, *restarts) = (*expected + pod.expected, restarts.saturating_add(pod.restarts));
        }
        let headers = vec!["OWNER", "PODS", "CONTAINERS READY", "RESTARTS"];
        let mut pods = Table { headers, ..Table::default() };
        for (owner, [count, ready, expected, restarts]) in owners {
            let ready = format!("{ready}/{expected}");
            pods.rows.push(vec![owner.to_string(), count.to_string(), ready, restarts.to_string()]);
        }
        pods.notes.extend(dump.unread.iter().map(|(kind, reason)| format!("{kind} could not be read: {reason}")));
        vec![(None, nodes), (None, pods)]
    }
}

/// Prints a dump, or writes it. Nothing is changed in the cluster.
pub fn run(arguments: &Arguments) -> Result<Exit, CommandError> {
    let opened = fleet::open(&arguments.fleet)?;
    opened.remark();
    opened.clusters(Some(&arguments.cluster))?;
    let view = opened.view(&arguments.cluster)?;
    let dump = take(&opened, &view, &arguments.access)?;
    let Some(folder) = &arguments.to else {
        output::print(arguments.output, &Printed(&dump))?;
        return Ok(Exit::Success);
    };
    let written = WrittenDump::of(&dump)?;
    let file = written.write(folder)?;
    let report = WrittenReport {
        cluster: dump.cluster.clone(),
        taken_at: dump.taken_at.to_string(),
        digest: written.digest,
        file: file.display().to_string(),
    };
    output::print(arguments.output, &report)?;
    Ok(Exit::Success)
}

/// A dump of the very cluster that is meant.
pub(in crate::cli) fn take(
    opened: &Opened,
    view: &ClusterView,
    access: &ClusterArguments,
) -> Result<Dump, CommandError> {
    let cluster = opened.cluster(view, access)?;
    let rules = &opened.fleet().policy.injection;
    let dump = runtime()?.block_on(async {
        let identification = cluster.identify().await;
        let recorded = view.directory.ledger().and_then(|ledger| ledger.identity.as_ref());
        if let Err(reason) = identification.of(view.name.as_str(), recorded) {
            let error = CommandError::new(format!("cluster {} was not read: {}", view.name, reason.message));
            return Err(reason.help.into_iter().fold(error, CommandError::hint));
        }
        Ok(cluster.dump(rules, Timestamp::now()).await?)
    })?;
    Ok(dump)
}
