//! `stepgate upgrader build`: an image index for each EKS-D release, with an image for each architecture.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bundles::{Bundles, Digest, EksDVersion, EksdRelease, ImageReference, Manifest, VersionsBundle};
use clap::Args;
use fetch::{AllowList, FetchOptions, MirrorFolder, Registry};
use host::disk;
use in_place::image::{
    self, Architecture, Component, PROGRAM, ReleaseFile, downloads, missing_programs, why_not_program, why_not_static,
};
use serde::Serialize;

use super::layer::{Entry, layer};
use super::layout::{Image, Layout};
use super::source::{Sources, files_of_eksa_upgrader, files_of_part};
use crate::cli::bundle::read_bundles;
use crate::cli::common::output;
use crate::cli::{CommandError, Exit, Format, Report, Table};

/// Archives and programs of a release are smaller.
pub(super) const MAXIMUM_BYTES: u64 = 512 << 20;

/// Arguments of `stepgate upgrader build`.
#[derive(Debug, Args)]
pub struct BuildArguments {
    /// The EKS-D releases, such as `v1.36.4-eks-1-36-4`. May be given several times.
    #[arg(long = "release", required = true, num_args = 1.., value_name = "RELEASE")]
    releases: Vec<EksDVersion>,
    /// The Bundles manifest that names these releases, and containerd.
    #[arg(long, value_name = "FILE")]
    bundle: PathBuf,
    /// The program `stepgate-node` of an architecture, built statically; an image is made for each. Left out, it is the one beside this program.
    #[arg(long = "program", value_name = "FILE")]
    programs: Vec<PathBuf>,
    /// Take the programs of the release from EKS Anywhere's own upgrader image, an OCI layout (`skopeo copy docker://IMAGE oci:DIR`), instead of
    /// fetching archives.
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// A mirror folder to look in before the network. May be given several times: the first hit wins.
    #[arg(long = "mirror", env = "STEPGATE_MIRROR", value_delimiter = ':', value_name = "[NAME=]DIR")]
    mirrors: Vec<MirrorFolder>,
    /// A host, or `host/path`, to fetch archives from over HTTPS. May be given several times.
    #[arg(long = "allow", value_name = "HOST")]
    allow: Vec<String>,
    /// A host that may have a loopback, link-local or private address.
    #[arg(long = "private-host", env = "STEPGATE_PRIVATE_HOSTS", value_delimiter = ',', value_name = "HOST")]
    private_hosts: Vec<String>,
    /// Write an OCI layout into this folder, which has to be empty or not there.
    #[arg(long, value_name = "DIR", required_unless_present = "push")]
    to: Option<PathBuf>,
    /// Push to this repository of a registry, `HOST/PATH`, with the release as tag. Logins are those of the Docker configuration.
    #[arg(long, value_name = "REPOSITORY", value_parser = repository)]
    push: Option<String>,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// What was made.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct UpgraderImagesReport {
    /// Release by release.
    images: Vec<UpgraderImageReport>,
}

/// The image of one release.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct UpgraderImageReport {
    /// The EKS-D release.
    release: String,
    /// For which nodes.
    architectures: Vec<String>,
    /// Of the index.
    digest: String,
    /// The reference with its digest, where it was pushed.
    image: Option<String>,
}

fn repository(text: &str) -> Result<String, String> {
    let reference = text.parse::<ImageReference>().map_err(|error| error.to_string())?;
    if reference.tag().is_some() || reference.digest().is_some() || !text.contains('/') {
        return Err(String::from("name a repository as HOST/PATH: the tag is the release"));
    }
    Ok(text.to_owned())
}

/// Makes them, one release after the other.
pub fn run(arguments: &BuildArguments) -> Result<Exit, CommandError> {
    let bundles = read_bundles(&arguments.bundle)?;
    let programs = programs(&arguments.programs)?;
    let sources = Sources::open(&arguments.mirrors, &arguments.allow, &arguments.private_hosts)?;
    let scratch = tempfile::tempdir()?;
    let mut layout = Layout::create(arguments.to.as_deref().unwrap_or(scratch.path()))?;
    let mut images = Vec::new();
    for version in &arguments.releases {
        let versions = section(&bundles, *version, &arguments.bundle)?;
        let mut made = Vec::new();
        for (architecture, program) in &programs {
            let files = match &arguments.from {
                Some(folder) => files_of_eksa_upgrader(folder, *architecture)?,
                None => files_of_release(versions, *version, *architecture, &sources)?,
            };
            made.push(image(&mut layout, *version, *architecture, program, files)?);
        }
        let index = layout.index(&version.to_string(), made)?;
        images.push(UpgraderImageReport {
            release: version.to_string(),
            architectures: programs.keys().map(ToString::to_string).collect(),
            digest: index.digest.to_string(),
            image: match &arguments.push {
                Some(repository) => Some(push(arguments, repository, *version, &layout, &index)?),
                None => None,
            },
        });
    }
    layout.finish()?;
    output::print(arguments.output, &UpgraderImagesReport { images })?;
    Ok(Exit::Success)
}

/// The programs by architecture.
fn programs(named: &[PathBuf]) -> Result<BTreeMap<Architecture, Vec<u8>>, CommandError> {
    let beside = std::env::current_exe()?.with_file_name(PROGRAM);
    let paths = if named.is_empty() { std::slice::from_ref(&beside) } else { named };
    let mut programs = BTreeMap::new();
    for path in paths {
        let hint = "name one by --program FILE: `cargo build --release --package stepgate-node --target …` builds it";
        let content = read(path).map_err(|error| error.hint(hint))?;
        let is_for = |architecture: &Architecture| why_not_program(&content, *architecture).is_none();
        let architecture = Architecture::ALL.into_iter().find(is_for).filter(|_| !content.starts_with(b"#!"));
        let Some(architecture) = architecture else {
            return Err(CommandError::new(format!("{} is not a program for amd64 or arm64", path.display())).hint(hint));
        };
        if let Some(why) = why_not_static(&content) {
            return Err(CommandError::new(format!("{} {why}", path.display())).hint(hint));
        }
        if programs.insert(architecture, content).is_some() {
            return Err(CommandError::new(format!("{} is the second program for {architecture}", path.display())));
        }
    }
    Ok(programs)
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, CommandError> {
    disk::read(path, MAXIMUM_BYTES)
        .map_err(|error| CommandError::from(error).context(format!("cannot read {}", path.display())))
}

fn section<'a>(bundles: &'a Bundles, version: EksDVersion, file: &Path) -> Result<&'a VersionsBundle, CommandError> {
    let release =
        |versions: &&VersionsBundle| versions.eks_d.as_ref().and_then(|eks_d| eks_d.version()) == Some(version);
    bundles.versions_bundles.iter().find(release).ok_or_else(|| {
        let named = bundles.versions_bundles.iter().filter_map(|versions| versions.eks_d.as_ref()?.version());
        let named: Vec<String> = named.map(|version| version.to_string()).collect();
        CommandError::new(format!("{} does not name the EKS-D release {version}", file.display()))
            .hint(format!("it names {}", named.join(", ")))
    })
}

fn files_of_release(
    versions: &VersionsBundle,
    version: EksDVersion,
    architecture: Architecture,
    sources: &Sources,
) -> Result<Vec<(ReleaseFile, Vec<u8>)>, CommandError> {
    let release = eksd_release(versions, version, sources)?;
    let downloads = downloads(versions, &release, architecture).map_err(|problems| {
        let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
        CommandError::new(told.join("; ")).hint("name a program of an architecture that the release has, by --program")
    })?;
    let mut files = Vec::new();
    for download in downloads {
        let content = sources.get(&download.uri)?;
        let found = Digest::of(&content);
        if found != download.digest {
            let (uri, wanted) = (&download.uri, download.digest);
            let error = CommandError::new(format!("{uri} has digest {found}, and its manifest names {wanted}"));
            return Err(error.hint("take it anew from where it is published"));
        }
        files.extend(files_of_part(download.part, &download.uri, &content)?);
    }
    Ok(files)
}

fn eksd_release(
    versions: &VersionsBundle,
    version: EksDVersion,
    sources: &Sources,
) -> Result<EksdRelease, CommandError> {
    let url = versions.eks_d.as_ref().and_then(|eks_d| eks_d.manifest_url.as_deref());
    let url =
        url.ok_or_else(|| CommandError::new(format!("the bundle has no address of the manifest of {version}")))?;
    let manifests = bundles::parse(url, &sources.get(url)?).map_err(|error| {
        CommandError::new(format!("{}:{}:{}: {}", error.path, error.line, error.column, error.message)).hint(error.hint)
    })?;
    let release = manifests.into_iter().find_map(|manifest| match manifest {
        Manifest::EksdRelease(release) => Some(release),
        Manifest::Bundles(_) | Manifest::EksaRelease(_) => None,
    });
    match release {
        Some(release) if release.version() == Some(version) => Ok(release),
        Some(release) => {
            Err(CommandError::new(format!("{url} is the manifest of {}, and not of {version}", release.name)))
        }
        None => Err(CommandError::new(format!("{url} is not the manifest of an EKS-D release"))),
    }
}

/// One image: our program, a layer for each component, and the manifest that says what is where.
fn image(
    layout: &mut Layout,
    version: EksDVersion,
    architecture: Architecture,
    program: &[u8],
    mut files: Vec<(ReleaseFile, Vec<u8>)>,
) -> Result<Image, CommandError> {
    files.sort_by(|(first, _), (second, _)| first.cmp(second));
    let names: Vec<ReleaseFile> = files.iter().map(|(file, _)| file.clone()).collect();
    let missing = missing_programs(&names);
    if !missing.is_empty() {
        let missing = missing.join(", ");
        return Err(CommandError::new(format!("{version} for linux/{architecture} has no program {missing}"))
            .hint("an image without it would leave nodes without it; take the archives anew"));
    }
    for (file, content) in &files {
        if let Some(why) = why_not_program(content, architecture) {
            return Err(CommandError::new(format!("{} of {version} {why}", file.path)));
        }
    }
    let mut image = Image::new(architecture);
    let mut add = |entries: &[Entry<'_>]| layout.add_layer(&mut image, &layer(entries)?);
    add(&[Entry { path: PROGRAM.to_owned(), content: program, mode: 0o755 }])?;
    for component in Component::ALL {
        let of_component = files.iter().filter(|(file, _)| file.component == component);
        let entries: Vec<Entry<'_>> =
            of_component.map(|(file, content)| Entry { path: file.source(), content, mode: 0o755 }).collect();
        if !entries.is_empty() {
            add(&entries)?;
        }
    }
    let manifest = serde_json::to_vec_pretty(&image::manifest(&version, architecture, &names))?;
    add(&[Entry { path: format!("{}/manifest.json", image::RELEASE), content: &manifest, mode: 0o644 }])?;
    Ok(image)
}

fn push(
    arguments: &BuildArguments,
    repository: &str,
    version: EksDVersion,
    layout: &Layout,
    index: &super::layout::Index,
) -> Result<String, CommandError> {
    let options = FetchOptions {
        allow: AllowList::new([repository.split('/').next().unwrap_or_default().to_owned()]),
        private_hosts: arguments.private_hosts.clone(),
        maximum_bytes: MAXIMUM_BYTES,
        timeout: std::time::Duration::from_secs(1800),
    };
    let uri = format!("oci://{repository}:{version}");
    let pushed = Registry::new(options)?.push_image(&uri, &layout.pushed(index));
    pushed.map_err(|error| CommandError::from(error).hint("log in with `docker login` or `skopeo login`"))?;
    Ok(format!("{repository}:{version}@{}", index.digest))
}

impl Report for UpgraderImagesReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        let row = |it: &UpgraderImageReport| {
            let place = it.image.clone().unwrap_or_else(|| it.digest.clone());
            vec![it.release.clone(), it.architectures.join(", "), place]
        };
        let rows = self.images.iter().map(row).collect();
        vec![(None, Table { headers: vec!["RELEASE", "ARCHITECTURES", "IMAGE"], rows, ..Table::default() })]
    }
}
