//! What has to be read, or done, before the versions that a cluster goes to: Stepgate's table of notes, and the team's.

use domain::RepoPath;
use overlays::{ClusterSpec, Fleet};
use policy::{NoteVersion, ReleaseNote};
use rollout::ComponentChange;
use rollout::check::ToldNote;

use crate::plan::{Facts, eksa_version};

/// The notes that Stepgate knows, with their sources.
const KNOWN: &str = include_str!("notes.yaml");

/// The notes that concern this rollout.
pub(crate) fn told(facts: &Facts<'_>) -> Vec<ToldNote> {
    let Some(deployed) = facts.deployed else { return Vec::new() };
    let kubernetes = Change::of("kubernetes", &deployed.kubernetes_version, &facts.cluster.kubernetes_version);
    let mut changes: Vec<Change> = facts.changes.values().flatten().filter_map(Change::of_component).collect();
    if !changes.iter().any(|change| change.component == "eksa")
        && let (Some(old), Some(new)) = (eksa_version(deployed), eksa_version(facts.cluster))
    {
        changes.extend(Change::of("eksa", old, new));
    }
    changes.extend(kubernetes);
    let concerned = |note: &ReleaseNote| Concerned::by(note, facts.fleet, deployed);
    let known = known();
    let notes = known.iter().chain(facts.befores.notes(facts.newest));
    notes.flat_map(|note| changes.iter().filter_map(move |change| change.told(note, &concerned(note)))).collect()
}

/// Stepgate's table.
fn known() -> Vec<ReleaseNote> {
    let Ok(path) = RepoPath::new("notes.yaml") else { return Vec::new() };
    policy::read_notes(&path, KNOWN.as_bytes()).0
}

/// How a component goes from one version to another.
struct Change {
    component: String,
    old: (String, NoteVersion),
    new: (String, NoteVersion),
}

impl Change {
    /// None where either is not a version of numbers, or both are one.
    fn of(component: &str, old: &str, new: &str) -> Option<Self> {
        let side = |text: &str| Some((text.to_owned(), NoteVersion::of(text)?));
        let (old, new) = (side(old)?, side(new)?);
        (old.1 != new.1).then(|| Self { component: component.to_owned(), old, new })
    }

    fn of_component(change: &ComponentChange) -> Option<Self> {
        Self::of(&change.component, change.old_version.as_deref()?, change.new_version.as_deref()?)
    }

    /// What is told of a note, where this change comes into the versions that it is about.
    fn told(&self, note: &ReleaseNote, concerned: &Concerned<'_>) -> Option<ToldNote> {
        let (old, new) = (self.old.1, self.new.1);
        let is_within = |version: NoteVersion| {
            note.from.is_none_or(|from| version >= from) && note.before.is_none_or(|before| version < before)
        };
        let comes_in = match note.from {
            Some(_) => is_within(new) && !is_within(old),
            None => is_within(new) && new.minor() > old.minor(),
        };
        let clusters = match concerned {
            Concerned::Nobody => return None,
            Concerned::This => String::new(),
            Concerned::These(names) => format!(" (concerned: {})", names.join(", ")),
        };
        let says = &note.says;
        (note.component == self.component && comes_in).then(|| ToldNote {
            name: note.name.clone(),
            message: format!("{} goes from {} to {}: {says}{clusters}", self.component, self.old.0, self.new.0),
            remedy: note.remedy.clone(),
            source: note.source.clone(),
            date: note.date,
            is_blocking: note.blocking,
        })
    }
}

/// Whose clusters a note concerns.
enum Concerned<'a> {
    Nobody,
    /// Whatever the cluster is.
    This,
    /// These, of the cluster and those that it manages.
    These(Vec<&'a str>),
}

impl<'a> Concerned<'a> {
    fn by(note: &ReleaseNote, fleet: &'a Fleet, deployed: &'a ClusterSpec) -> Self {
        if note.providers.is_empty() && note.kubernetes_before.is_none() {
            return Self::This;
        }
        let is_one = |cluster: &&ClusterSpec| {
            let provider = cluster.provider.bundle_component().unwrap_or_default();
            let is_of = note.providers.is_empty() || note.providers.iter().any(|known| known == provider);
            is_of && note.kubernetes_before.is_none_or(|before| oldest(cluster).is_some_and(|oldest| oldest < before))
        };
        // What a management cluster brings concerns those that it manages.
        let managed = fleet.managed_by(&deployed.name).filter(|other| other.name != deployed.name);
        let others = managed.filter(|_| note.component != "kubernetes");
        let names: Vec<&str> =
            std::iter::once(deployed).chain(others).filter(is_one).map(|cluster| cluster.name.as_str()).collect();
        if names.is_empty() { Self::Nobody } else { Self::These(names) }
    }
}

/// The oldest Kubernetes that a cluster runs by its specification.
fn oldest(cluster: &ClusterSpec) -> Option<NoteVersion> {
    let groups = cluster.worker_groups.iter().map(|group| &group.kubernetes_version);
    groups.chain([&cluster.kubernetes_version]).filter_map(|version| NoteVersion::of(version)).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(component: &str, from: Option<&str>, before: Option<&str>) -> ReleaseNote {
        let versions = [("from", from), ("before", before)];
        let versions: String =
            versions.iter().filter_map(|(name, version)| version.map(|it| format!(", {name}: '{it}'"))).collect();
        let text = format!("- {{name: n, component: {component}, says: s, remedy: r{versions}}}");
        let (mut notes, problems) = policy::read_notes(&RepoPath::new("n").unwrap(), text.as_bytes());
        assert_eq!(problems, []);
        notes.remove(0)
    }

    #[test]
    fn every_note_of_the_table_is_whole_and_names_its_source() {
        let (notes, problems) = policy::read_notes(&RepoPath::new("notes.yaml").unwrap(), KNOWN.as_bytes());
        assert_eq!(problems, []);
        assert_eq!(known(), notes);
        for note in notes {
            assert!(note.remedy.is_some() && note.date.is_some(), "{}", note.name);
            assert!(note.source.is_some_and(|source| source.starts_with("https://")), "{}", note.name);
        }
    }

    /// A management cluster in Docker, and what it manages: one on `CloudStack`, one with old workers.
    fn fleet() -> Fleet {
        let cluster = |name: &str, datacenter: &str, group: &str| {
            let text = format!(
                "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}}}\nspec:\n  \
                 controlPlaneConfiguration: {{count: 1}}\n  datacenterRef: {{kind: {datacenter}, name: {name}}}\n  \
                 kubernetesVersion: '1.31'\n  managementCluster: {{name: mgmt}}\n  workerNodeGroupConfigurations: \
                 [{{name: md, count: 1{group}}}]\n"
            );
            (format!("clusters/{name}/cluster.yaml").parse().unwrap(), text.into_bytes())
        };
        let clusters = [
            cluster("mgmt", "DockerDatacenterConfig", ""),
            cluster("cloud", "CloudStackDatacenterConfig", ""),
            cluster("old", "DockerDatacenterConfig", ", kubernetesVersion: '1.29'"),
        ];
        overlays::read_fleet(&clusters.into_iter().collect::<overlays::MemoryFiles>())
    }

    #[test]
    fn a_note_of_a_provider_or_an_old_kubernetes_names_the_clusters_that_it_concerns() {
        let fleet = fleet();
        let concerned = |note: &str, cluster: &str| {
            let notes = known();
            let note = notes.iter().find(|known| known.name == note).unwrap();
            match Concerned::by(note, &fleet, fleet.cluster(cluster).unwrap()) {
                Concerned::Nobody => "nobody".to_owned(),
                Concerned::This => "this".to_owned(),
                Concerned::These(names) => names.join(", "),
            }
        };
        for (note, cluster, expected) in [
            ("eksa-0.26-cloudstack", "mgmt", "cloud"),
            ("eksa-0.26-cloudstack", "cloud", "cloud"),
            ("eksa-0.26-cloudstack", "old", "nobody"),
            ("eksa-0.26-kubernetes-1.29", "mgmt", "old"),
            ("eksa-0.26-kubernetes-1.29", "cloud", "nobody"),
            ("eksa-0.26-snow", "mgmt", "nobody"),
            ("eksa-0.22-helm-proxy", "mgmt", "this"),
        ] {
            assert_eq!(concerned(note, cluster), expected, "{note} {cluster}");
        }
    }

    #[test]
    fn a_note_is_told_where_a_rollout_comes_into_its_versions() {
        let is_told = |note: &ReleaseNote, old: &str, new: &str| {
            let change = Change::of("eksa", old, new);
            change.and_then(|change| change.told(note, &Concerned::This)).is_some()
        };
        let from = note("eksa", Some("0.26"), None);
        let range = note("eksa", Some("0.22"), Some("0.22.3"));
        let minor = note("eksa", None, None);
        for (old, new, expected) in [
            ("v0.25.3", "v0.26.0", [true, false, true]),
            ("v0.25.3+abc", "v0.27.1+def", [true, false, true]),
            ("v0.26.0", "v0.26.1", [false, false, false]),
            ("v0.26.0+a", "v0.26.0+b", [false, false, false]),
            ("v0.21.5", "v0.22.2", [false, true, true]),
            ("v0.21.5", "v0.22.3", [false, false, true]),
            ("v0.22.3", "v0.22.1", [false, true, false]),
            ("v0.26.0", "v0.25.9", [false, false, false]),
            ("a-hash", "v0.26.0", [false, false, false]),
        ] {
            let told = [&from, &range, &minor].map(|note| is_told(note, old, new));
            assert_eq!(told, expected, "{old} to {new}");
        }
        assert!(!is_told(&note("cilium", Some("0.26"), None), "v0.25.3", "v0.26.0"));
    }
}
