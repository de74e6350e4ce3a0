//! The command line.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::api::Api;
use crate::api::credentials::Credentials;
use crate::files::file_system::Disk;
use crate::files::machine;
use crate::files::manifest::Source;
use crate::files::root::Root;
use crate::host::host_namespaces;
use crate::host::programs::HostPrograms;
use crate::journal::{Journal, Role};
use crate::run::{Ended, Node};
use crate::step::Step;
use crate::steps::status;
use crate::version::KubernetesVersion;
use crate::work::Choices;

/// As shells say that a program could not be started.
const NOT_STARTED: u8 = 127;

const EXIT_CODES: &str = "Exit codes: 0 done; 1 failed, and may be called again; 2 wrong arguments; 3 refused, and nothing was begun; \
     4 failed, and is not tried again.";

/// Upgrades Kubernetes on the node it runs on. Every call may be repeated, after any crash.
#[derive(Debug, Parser)]
#[command(name = "stepgate-node", version, after_help = EXIT_CODES, arg_required_else_help = true)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Args)]
struct Global {
    /// Where the root of the node is.
    #[arg(long, global = true, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// Run the node's programs in the namespaces of its first process: this is a container that sees the processes of the node.
    #[arg(long, global = true)]
    enter_host: bool,
    /// The way to the API server; by default the service account of the Pod.
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Another limit than that of the step.
    #[arg(long, global = true, value_name = "SECONDS")]
    time_limit: Option<u64>,
    /// How long a proof has to hold.
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 30)]
    soak: u64,
    /// Try a step again of which no attempt is left.
    #[arg(long, global = true)]
    anew: bool,
}

#[derive(Debug, Args)]
struct Target {
    /// The version that the upgrade leads to.
    #[arg(long, value_name = "VERSION")]
    target: KubernetesVersion,
}

/// What is there of etcd before its upgrade.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EtcdBackup {
    /// A snapshot by the etcdctl of its image.
    Snapshot,
    /// The copy that kubeadm makes.
    Kubeadm,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Brings a release to the node, looks at both, and saves what is there.
    Copy {
        /// The folder of the release, with its manifest.json.
        #[arg(long, value_name = "DIR")]
        from: PathBuf,
        /// A folder with a files.json: what the machine has to have besides.
        #[arg(long, value_name = "DIR")]
        files: Option<PathBuf>,
        /// What the node does for its cluster.
        #[arg(long)]
        role: Role,
        /// The Node object; by default `NODE_NAME` of the environment, or the host's name.
        #[arg(long, value_name = "NAME", value_parser = node_name)]
        node: Option<String>,
        /// What is there of etcd before its upgrade.
        #[arg(long, value_enum, default_value_t = EtcdBackup::Snapshot)]
        etcd_backup: EtcdBackup,
    },
    /// Replaces containerd and runc, and restarts containerd.
    Containerd(Target),
    /// Replaces the network plugins.
    CniPlugins(Target),
    /// Cordons the node and evicts its Pods.
    Drain {
        #[command(flatten)]
        target: Target,
        /// Data in `emptyDir` volumes may be lost.
        #[arg(long)]
        delete_emptydir_data: bool,
        /// Moves the manifest of kube-vip aside at the end: another control-plane node has to take the address.
        #[arg(long)]
        leave_virtual_address: bool,
    },
    /// Replaces kubeadm and runs its upgrade.
    Kubeadm {
        #[command(flatten)]
        target: Target,
        /// A check of kubeadm that may fail.
        #[arg(long, value_name = "NAME")]
        ignore_preflight_error: Vec<String>,
        /// How kubeadm pulls images.
        #[arg(long, value_name = "POLICY", default_value = "IfNotPresent", value_parser = ["IfNotPresent", "Never", "Always"])]
        image_pull_policy: String,
    },
    /// Replaces kubelet and kubectl, and restarts kubelet.
    Kubelet(Target),
    /// Proves the node healthy at the target.
    Verify(Target),
    /// Takes the own cordon back.
    Uncordon(Target),
    /// Undoes everything in reverse order, with proof.
    Rollback(Target),
    /// Becomes a program of the node, from a container that sees the processes of the node.
    #[command(hide = true, name = host_namespaces::VERB)]
    Enter {
        /// The program and its arguments.
        #[arg(required = true, last = true)]
        command: Vec<OsString>,
    },
    /// Tells what was done.
    Status {
        /// The journal, as it is.
        #[arg(long)]
        json: bool,
    },
}

/// Where kubelet looks for what a container says at its end.
const TERMINATION_LOG: &str = "/dev/termination-log";

/// Does what the arguments say.
#[must_use]
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            let _nowhere_to_tell = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    if let Verb::Enter { command } = &cli.verb
        && let [program, arguments @ ..] = command.as_slice()
    {
        let error = host_namespaces::enter(program, arguments);
        let _nowhere_to_tell = writeln!(io::stderr(), "{error}");
        return ExitCode::from(NOT_STARTED);
    }
    let is_step = !matches!(cli.verb, Verb::Status { .. });
    match call(cli) {
        Ok(told) => {
            // Kubernetes keeps it with the container; of one that failed it keeps the last lines.
            if is_step && variable("POD_NAME").is_some() {
                let _nowhere_to_tell = std::fs::write(TERMINATION_LOG, told.trim_end());
            }
            let _nowhere_to_tell = writeln!(io::stdout(), "{}", told.trim_end());
            ExitCode::SUCCESS
        }
        Err(ended) => {
            let _nowhere_to_tell = writeln!(io::stderr(), "stepgate-node: {ended}");
            ExitCode::from(match ended {
                Ended::Failed(_) => 1,
                Ended::Refused(_) => 3,
                Ended::Terminal(_) => 4,
            })
        }
    }
}

fn call(cli: Cli) -> Result<String, Ended> {
    let refused = |error: anyhow::Error| Ended::Refused(format!("{error:#}"));
    let global = cli.global;
    let root = Root::new(&global.root).with_context(|| format!("--root {}", global.root.display())).map_err(refused)?;
    if let Verb::Status { json } = cli.verb {
        let journal =
            Journal::load(&root).map_err(refused)?.context("no upgrade was begun on this node").map_err(refused)?;
        let text = serde_json::to_string_pretty(&journal).map_err(|error| refused(error.into()))?;
        return Ok(if json { text } else { status::table(&journal) });
    }
    let choices = choices(&cli.verb, &global);
    let programs = HostPrograms::new(&root, global.enter_host);
    let api = api(&root, global.kubeconfig.as_deref()).map_err(refused)?;
    let node = Node {
        root: &root,
        disk: &Disk,
        programs: &programs,
        api: api.as_ref(),
        choices: &choices,
        time_limit: global.time_limit.map(Duration::from_secs),
        is_anew: global.anew,
    };
    let (step, target) = match cli.verb {
        Verb::Copy { from, files, role, node: name, .. } => {
            let source = Source::read(&from).map_err(|error| refused(anyhow!(error)))?;
            let files = files.map_or_else(|| Ok(Vec::new()), |folder| machine::read(&folder));
            let files = files.map_err(|error| refused(anyhow!(error)))?;
            let name = name.or_else(|| variable("NODE_NAME")).map_or_else(|| host_name(&root), Ok).map_err(refused)?;
            let name = node_name(&name).map_err(|error| refused(anyhow!(error)))?;
            return node.copy(&source, &files, name, role);
        }
        Verb::Rollback(target) => return node.rollback(&target.target),
        Verb::Containerd(target) => (Step::Containerd, target),
        Verb::CniPlugins(target) => (Step::CniPlugins, target),
        Verb::Drain { target, .. } => (Step::Drain, target),
        Verb::Kubeadm { target, .. } => (Step::Kubeadm, target),
        Verb::Kubelet(target) => (Step::Kubelet, target),
        Verb::Verify(target) => (Step::Verify, target),
        Verb::Uncordon(target) => (Step::Uncordon, target),
        Verb::Status { .. } | Verb::Enter { .. } => return Ok(String::new()),
    };
    node.step(step, &target.target)
}

fn choices(verb: &Verb, global: &Global) -> Choices {
    let own_pod =
        variable("POD_NAMESPACE").zip(variable("POD_NAME")).map(|(namespace, name)| format!("{namespace}/{name}"));
    let mut choices = Choices { soak: Duration::from_secs(global.soak), own_pod, ..Choices::default() };
    match verb {
        Verb::Copy { etcd_backup, .. } => choices.trusts_kubeadm_for_etcd = *etcd_backup == EtcdBackup::Kubeadm,
        Verb::Drain { delete_emptydir_data, leave_virtual_address, .. } => {
            choices.deletes_empty_dir_data = *delete_emptydir_data;
            choices.leaves_virtual_address = *leave_virtual_address;
        }
        Verb::Kubeadm { ignore_preflight_error, image_pull_policy, .. } => {
            choices.ignored_preflight_errors.clone_from(ignore_preflight_error);
            choices.image_pull_policy.clone_from(image_pull_policy);
        }
        _ => {}
    }
    choices
}

#[allow(clippy::disallowed_methods, reason = "the program on the node is the edge")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// It becomes part of paths of the API server.
fn node_name(text: &str) -> Result<String, String> {
    let is_known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    if !text.is_empty() && text.len() <= 253 && text.bytes().all(is_known) {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is not a name of a Node: lower-case letters, digits, \"-\" and \".\""))
    }
}

/// As kubelet names its Node by itself.
fn host_name(root: &Root) -> anyhow::Result<String> {
    let path = "/proc/sys/kernel/hostname";
    let name = std::fs::read_to_string(root.unfollowed(path)).with_context(|| format!("{path}: give --node"))?;
    Ok(name.trim().to_lowercase())
}

fn api(root: &Root, kubeconfig: Option<&Path>) -> anyhow::Result<Option<Api>> {
    let credentials = match kubeconfig {
        Some(path) => Some(Credentials::of_kubeconfig(path, &|file| {
            // The node's own kubeconfigs name files of the node.
            let beside = path.parent().unwrap_or(Path::new("/")).join(file);
            Ok(if file.starts_with('/') && !beside.exists() { root.place(file)? } else { beside })
        })?),
        None => Credentials::of_pod(&variable)?,
    };
    Ok(credentials.map(Api::new))
}
