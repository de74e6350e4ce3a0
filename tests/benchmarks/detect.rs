//! P4: between two commits with 2,000 changed files, which clusters changed, and from which version to which.

use std::fmt::Write as _;
use std::time::Duration;

use domain::CommitId;
use git::{ChangedFile, Difference, Repository};
use yaml::{Limits, Node, parse};

use crate::measure::{go_peer, ours, peer, quoted};
use crate::report::{Report, median};
use crate::{Environment, corpus};

pub fn run(environment: &Environment) -> anyhow::Result<Report> {
    let folder = environment.scratch.path().join("detect.git");
    let (repository, commits) = corpus::repository(&folder, &[1, 2])?;
    let [old, new] = commits.as_slice() else { anyhow::bail!("two commits were made") };
    let mut report = Report {
        work: "list changed clusters and each component's versions over 2,000 changed files".to_owned(),
        ..Report::default()
    };
    let python = format!(
        "python3 {} . {old} {new}",
        quoted(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("benchmarks/peers/detect.py"))
    );
    let mut peers = vec![("git and PyYAML (C loader)", python)];
    match go_peer(&environment.peers, "detect") {
        Ok(program) => {
            peers.insert(0, ("git and sigs.k8s.io/yaml (Go)", format!("{} . {old} {new}", quoted(&program))));
        }
        Err(reason) => report.notes.push(format!("no Go peer: {reason}")),
    }
    let expected = detect(&repository, old, new)?;
    let lines = expected.lines().count();
    let mut measured: Vec<(&str, Vec<_>)> = Vec::new();
    for (name, script) in &peers {
        match peer(&folder, script) {
            Ok((_, output)) => {
                report.compare(format!("{lines} lines against {name}"), output == expected);
                measured.push((name, Vec::new()));
            }
            Err(error) => report.notes.push(format!("no peer {name}: {error:#}")),
        }
    }
    let mut mine = Vec::new();
    for _ in 0..environment.rounds {
        mine.push(ours(|| detect(&repository, old, new))?.0);
        for (name, samples) in &mut measured {
            if let Some((_, script)) = peers.iter().find(|(known, _)| known == name) {
                samples.push(peer(&folder, script)?.0);
            }
        }
    }
    let cpu = median(&mine, |sample| sample.cpu);
    report.row("stepgate: trees, blobs and YAML in one process", mine);
    report.at_most("processor time", cpu, Duration::from_millis(20));
    for (name, samples) in measured {
        report.ratio(&format!("over {name}"), cpu, median(&samples, |sample| sample.cpu), 8.0);
        report.row(name, samples);
    }
    Ok(report)
}

/// One line for each version that differs: cluster, what, old, new.
fn detect(repository: &Repository, old: &CommitId, new: &CommitId) -> anyhow::Result<String> {
    let (before, after) = (repository.snapshot_of(old)?, repository.snapshot_of(new)?);
    let difference = Difference::between(&before, &after)?;
    let side = |id: fn(&ChangedFile) -> Option<domain::ObjectId>| {
        let wanted = difference.changed.iter().filter_map(|file| Some((id(file)?, file.path.as_str())));
        after.read_objects(wanted)
    };
    let (olds, news) = (side(|file| file.before)?, side(|file| file.after)?);
    let (mut olds, mut news) = (olds.iter(), news.iter());
    let mut lines = String::new();
    for file in &difference.changed {
        let old = file.before.and_then(|_| olds.next());
        let new = file.after.and_then(|_| news.next());
        let Some(cluster) = file.path.segments().nth(1) else { continue };
        let (old, new) = (versions(old.map_or(&[], |bytes| bytes))?, versions(new.map_or(&[], |bytes| bytes))?);
        for (what, new) in &new {
            let old = old.iter().find(|(name, _)| name == what).map_or("-", |(_, version)| version.as_str());
            if old != new {
                let _ = writeln!(lines, "{cluster} {what} {old} {new}");
            }
        }
    }
    Ok(lines)
}

/// What a file says about versions: the tags of a kustomization, or the versions of a cluster.
fn versions(bytes: &[u8]) -> anyhow::Result<Vec<(String, String)>> {
    let text = yaml::decode(bytes)?;
    let mut versions = Vec::new();
    for document in parse(&text, &Limits::default())? {
        let root = &document.root;
        for image in root.get("images").and_then(Node::as_sequence).into_iter().flatten() {
            if let (Some(name), Some(tag)) = (image.get("name"), image.get("newTag")) {
                versions.push((name.text(&text).to_owned(), tag.text(&text).to_owned()));
            }
        }
        for field in ["kubernetesVersion", "eksaVersion"] {
            if let Some(version) = root.at(&["spec", field]) {
                versions.push((field.to_owned(), version.as_str().unwrap_or_default().to_owned()));
            }
        }
    }
    Ok(versions)
}
