//! `stepgate bundle fetch`: a mirror folder and a lock for a place without network.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use bundles::{Digest, KubernetesVersion, Lock};
use clap::Args;
use domain::RepoPath;
use overlays::{FetchError, Manifests};
use planning::wanted::{Wanted, wanted};
use policy::read_policy;
use serde::Serialize;

use super::hosts::Hosts;
use super::needed::Needed;
use super::{lock_beside, read_bundles, read_file, read_lock};
use crate::cli::common::output;
use crate::cli::terminal::progress::Step;
use crate::cli::{CommandError, Exit, Format, Report, Table};
use fetch::{AllowList, Chain, FetchOptions, Mirror, MirrorFolder, MirrorPath, Remote};

/// Arguments of `stepgate bundle fetch`.
#[derive(Debug, Args)]
pub struct FetchArguments {
    /// The Bundles manifests whose manifests are wanted.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The mirror folder to fill; made where it is missing. What lies there already is not fetched again.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// A mirror folder to look in before the network, whatever its name. May be given several times: the first hit wins.
    #[arg(long = "mirror", env = "STEPGATE_MIRROR", value_delimiter = ':', value_name = "[NAME=]DIR")]
    mirrors: Vec<MirrorFolder>,
    /// A host, or `host/path`, to fetch from over HTTPS, besides those under `fetch.allow` in the policy: hosts of manifests,
    /// registries of charts, and the hosts that these registries send on to for tokens and blobs.
    #[arg(long = "allow", value_name = "HOST")]
    allow: Vec<String>,
    /// A host that may have a loopback, link-local or private address.
    #[arg(long = "private-host", env = "STEPGATE_PRIVATE_HOSTS", value_delimiter = ',', value_name = "HOST")]
    private_hosts: Vec<String>,
    /// The policy whose `fetch.allow` counts.
    #[arg(long, value_name = "FILE", default_value = "stepgate.yaml")]
    policy: PathBuf,
    /// The lock to check against and to complete. Without it: `bundles.lock` beside the first FILE, or above its folder `bundles`.
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
    /// Fetch what every provider needs. Without it, what only providers need that no cluster of the fleet has is left out.
    #[arg(long)]
    all: bool,
    /// Fetch for this Kubernetes version alone. May be given several times.
    #[arg(long = "kubernetes-version", value_name = "VERSION")]
    kubernetes_versions: Vec<KubernetesVersion>,
    /// Take new content where the lock names another digest, and write its digest to the lock.
    #[arg(long)]
    update: bool,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// What was fetched.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct BundleFetchReport {
    /// By address.
    manifests: Vec<FetchedReport>,
    #[serde(skip)]
    notes: Vec<String>,
}

/// One manifest or chart.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct FetchedReport {
    /// Its address; a chart is `oci://repository:tag`.
    uri: String,
    /// Component and artifact that name it.
    used_by: String,
    /// `present`, `fetched`, `missing` or `refused`.
    state: &'static str,
    /// Its digest; null where there is no content.
    digest: Option<String>,
    /// Why it is missing or refused.
    message: Option<String>,
    /// The same for people, without the address.
    #[serde(skip)]
    reason: Option<String>,
}

/// Fetches everything and writes mirror and lock; what is missing does not keep the rest away.
pub fn run(arguments: &FetchArguments) -> Result<Exit, CommandError> {
    let bundles = arguments.files.iter().map(|file| read_bundles(file)).collect::<Result<Vec<_>, _>>()?;
    let lock_path = arguments.lock.clone().unwrap_or_else(|| default_lock(&arguments.files));
    let mut lock = if lock_path.is_file() { read_lock(&lock_path)? } else { Lock::default() };
    let before = lock.clone();
    let sources = Sources::open(arguments)?;
    let needed = if arguments.all { Needed::default() } else { needed(arguments, &lock_path)? };
    let leaves_out = |section: &str| needed.leaves_out(section);
    let (wanted, left_out) = wanted(&bundles, &arguments.kubernetes_versions, &leaves_out);
    let (mut manifests, mut hosts) = (Vec::new(), Hosts::default());
    let step = Step::of("fetching", wanted.len());
    for (wanted, used_by) in wanted {
        step.at(&used_by);
        manifests.push(fetch(&wanted, used_by, &sources, &mut lock, arguments.update, &mut hosts)?);
        step.next();
    }
    drop(step);
    if lock != before {
        write(&lock_path, lock.to_text().as_bytes())?;
    }
    let failed = manifests.iter().filter(|it| it.message.is_some()).count();
    let had = manifests.len() - failed;
    let mut notes: Vec<String> = hosts.summary().into_iter().collect();
    if !left_out.is_empty() {
        let sections = left_out.into_iter().collect::<Vec<_>>().join(", ");
        notes.push(format!("no cluster of the fleet needs {sections}: left out; --all fetches these too"));
    }
    notes.push(format!(
        "{had} of {} in {}, {} digests in {}",
        manifests.len(),
        arguments.to.display(),
        lock.len(),
        lock_path.display()
    ));
    output::print(arguments.output, &BundleFetchReport { manifests, notes })?;
    Ok(if failed == 0 { Exit::Success } else { Exit::Error })
}

/// What the clusters need that lie where the policy does, or else the lock.
fn needed(arguments: &FetchArguments, lock: &Path) -> Result<Needed, CommandError> {
    // Without either of them nothing says that this is a fleet's folder.
    let Some(beside) = [arguments.policy.as_path(), lock].into_iter().find(|file| file.is_file()) else {
        return Ok(Needed::default());
    };
    let folder = beside.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mirrors: Vec<PathBuf> =
        arguments.mirrors.iter().map(|mirror| &mirror.path).chain([&arguments.to]).cloned().collect();
    Needed::of(folder, &mirrors)
}

fn default_lock(files: &[PathBuf]) -> PathBuf {
    let first = files.first().map(PathBuf::as_path).unwrap_or(Path::new("."));
    lock_beside(first).unwrap_or_else(|| {
        let folder = first.parent().unwrap_or(Path::new(""));
        let above = folder.parent().filter(|_| folder.file_name().is_some_and(|name| name == "bundles"));
        above.unwrap_or(folder).join("bundles.lock")
    })
}

/// Where things come from, and where they go.
struct Sources {
    to: PathBuf,
    /// The folder that is filled.
    own: Mirror,
    others: Chain,
    /// Whether any host may be asked.
    is_offline: bool,
}

impl Sources {
    fn open(arguments: &FetchArguments) -> Result<Self, CommandError> {
        std::fs::create_dir_all(&arguments.to).map_err(|error| {
            CommandError::from(error).context(format!("cannot make the mirror {}", arguments.to.display()))
        })?;
        let mut allow = arguments.allow.clone();
        allow.extend(allowed_by_policy(&arguments.policy)?);
        let mirrors = arguments.mirrors.iter().map(|mirror| mirror.path.clone());
        let mut others: Vec<Box<dyn Manifests>> = vec![Box::new(Mirror::open(mirrors)?)];
        let is_offline = allow.is_empty();
        if !is_offline {
            let private_hosts = arguments.private_hosts.clone();
            let options = FetchOptions { allow: AllowList::new(allow), private_hosts, ..FetchOptions::default() };
            others.push(Box::new(Remote::new(options)?));
        }
        let own = Mirror::open([arguments.to.clone()])?;
        Ok(Self { to: arguments.to.clone(), own, others: Chain::new(others), is_offline })
    }

    fn place(&self, wanted: &Wanted) -> Result<PathBuf, String> {
        let place = MirrorPath::of(&wanted.uri).map_err(|error| error.to_string())?;
        Ok(self.to.join(place.as_path()))
    }
}

fn allowed_by_policy(path: &Path) -> Result<Vec<String>, CommandError> {
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let name: RepoPath = "stepgate.yaml".parse()?;
    let (policy, problems) = read_policy(&name, &read_file(path)?);
    // A misread allow-list must not be used in part.
    match problems.iter().find(|problem| problem.is_error()) {
        Some(problem) => Err(CommandError::new(format!("{}: {problem}", path.display()))),
        None => Ok(policy.fetch_allow),
    }
}

fn fetch(
    wanted: &Wanted,
    used_by: String,
    sources: &Sources,
    lock: &mut Lock,
    update: bool,
    hosts: &mut Hosts,
) -> Result<FetchedReport, CommandError> {
    let uri = wanted.uri.clone();
    let report = |state, digest: Option<Digest>, message: Option<String>, reason: Option<String>| FetchedReport {
        uri: uri.clone(),
        used_by,
        state,
        digest: digest.map(|digest| digest.to_string()),
        message,
        reason,
    };
    let place = match sources.place(wanted) {
        Ok(place) => place,
        Err(message) => return Ok(report("refused", None, Some(message.clone()), Some(message))),
    };
    let own = sources.own.get(&wanted.address).ok();
    // An update asks the sources first; without them, what lies in the mirror is what there is.
    let found = match own.clone().filter(|_| !update) {
        Some(bytes) => Ok(bytes),
        None => sources.others.get(&wanted.address).or_else(|error| own.clone().ok_or(error)),
    };
    let bytes = match found {
        Ok(bytes) => bytes,
        Err(error) => {
            let (state, hint) = match &error {
                FetchError::NotFound { .. } if sources.is_offline => {
                    ("missing", "; no host may be asked for it: name hosts by --allow")
                }
                FetchError::NotFound { .. } => ("missing", ""),
                _ => ("refused", ""),
            };
            let reason = match &error {
                FetchError::NotFound { .. } if sources.is_offline => hosts.add_address(&uri),
                FetchError::NotAllowed { .. } => hosts.add_address(&uri),
                FetchError::SentOn { host, .. } => hosts.add(host),
                FetchError::NotFound { searched, .. } => Some(searched.clone()),
                FetchError::Failed { message, .. } => Some(message.clone()),
            };
            return Ok(report(state, None, Some(format!("{error}{hint}")), reason));
        }
    };
    let digest = Digest::of(&bytes);
    if let Some(locked) = lock.get(&uri).filter(|locked| *locked != digest && !update) {
        let message = format!("its digest is not {locked}, which the lock names; --update takes the new content");
        return Ok(report("refused", Some(digest), Some(message.clone()), Some(message)));
    }
    let present = own.as_deref() == Some(&bytes);
    if !present {
        write(&place, &bytes)?;
    }
    lock.insert(uri.clone(), digest);
    Ok(report(if present { "present" } else { "fetched" }, Some(digest), None, None))
}

/// Writes a file whole or not at all.
fn write(path: &Path, bytes: &[u8]) -> Result<(), CommandError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || -> io::Result<()> {
        std::fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        set_readable(file.path())?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    write().map_err(|error| CommandError::from(error).context(format!("cannot write {}", path.display())))
}

/// Temporary files are for their owner alone; a mirror is served to others.
fn set_readable(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644))?;
    }
    Ok(())
}

impl Report for BundleFetchReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        let row = |it: &FetchedReport| vec![it.state.to_owned(), it.used_by.clone(), it.uri.clone()];
        let rows = self.manifests.iter().map(row).collect();
        // One line for all that one host is asked for in vain.
        let mut problems: BTreeMap<(&str, &str, &str), Vec<&str>> = BTreeMap::new();
        for it in &self.manifests {
            let Some(reason) = &it.reason else { continue };
            let rest = it.uri.split_once("://").map_or(it.uri.as_str(), |(_, rest)| rest);
            let host = rest.split('/').next().unwrap_or_default();
            problems.entry((it.state, host, reason)).or_default().push(&it.used_by);
        }
        let problem = |((state, host, reason), used_by): ((&str, &str, &str), Vec<&str>)| match used_by.as_slice() {
            [one] => format!("{state}: {one}: {reason}"),
            several => format!("{state}: {} addresses of {host}: {reason}", several.len()),
        };
        let notes = problems.into_iter().map(problem).chain(self.notes.iter().cloned()).collect();
        vec![(None, Table { headers: vec!["STATE", "USED BY", "ADDRESS"], rows, notes, width: None })]
    }
}
