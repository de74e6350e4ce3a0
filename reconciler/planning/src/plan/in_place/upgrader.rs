//! The upgrader's image of the version that machines go to: without one, nobody could upgrade a node that Cluster API waits for.

use bundles::{EksDReference, EksDVersion, ImageReference};
use in_place::order::{Release, releases};
use overlays::{BundleFile, ClusterSpec, Fleet, Management, UPGRADERS};
use rollout::ObjectReference;
use rollout::check::PlannedImage;
use yaml::Node;

use super::Contradiction;

/// With what nodes are upgraded.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Upgrader {
    /// Its image, and who has named it.
    pub(super) reason: Option<String>,
    /// What nodes pull.
    pub(super) image: Option<PlannedImage>,
    /// Why there is none that could be used.
    pub(super) missing: Option<Contradiction>,
}

/// Where one is looked for.
pub(super) struct Wanted<'a> {
    pub(super) namespace: &'a str,
    pub(super) version: &'a str,
    /// The objects of the stage.
    pub(super) objects: &'a [Node],
    pub(super) cluster: &'a ClusterSpec,
    pub(super) fleet: &'a Fleet,
}

/// Who has made the ConfigMap that counts.
enum Made {
    ByPeople,
    OfBundle(String),
}

pub(super) fn of(wanted: &Wanted<'_>) -> Upgrader {
    let Wanted { namespace, version, .. } = wanted;
    let place = format!("ConfigMap {UPGRADERS} of namespace {namespace}");
    let (made, found) = match wanted.by_people() {
        Some(own) => (Made::ByPeople, releases_of(&own).remove(*version)),
        None => match wanted.of_bundle() {
            Some((bundle, image)) => (Made::OfBundle(bundle), Some(Release { image, architectures: Vec::new() })),
            None => return Upgrader { missing: Some(wanted.nothing(&place)), ..Upgrader::default() },
        },
    };
    let Some(release) = found else {
        return Upgrader { missing: Some(wanted.nothing(&place)), ..Upgrader::default() };
    };
    let image = &release.image;
    if let Err(error) = image.parse::<ImageReference>() {
        let message = format!("{place}: {image:?} is not a valid image of the upgrader of {version}: {error}");
        return Upgrader { missing: Some(Contradiction::new(message, wanted.help())), ..Upgrader::default() };
    }
    let by = match made {
        Made::ByPeople => "that people have written".to_owned(),
        Made::OfBundle(bundle) => format!("made of {bundle}"),
    };
    let object = ObjectReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        namespace: Some((*namespace).to_owned()),
        name: UPGRADERS.to_owned(),
    };
    let planned = PlannedImage {
        image: image.clone(),
        object,
        mirror: None,
        architectures: Vec::new(),
        logins: std::collections::BTreeSet::new(),
    };
    Upgrader { reason: Some(format!("{image}, by {place}, {by}")), image: Some(planned), missing: None }
}

impl Wanted<'_> {
    /// The ConfigMap that people have written, in the stage or anywhere in the fleet.
    fn by_people(&self) -> Option<Node> {
        let text = |node: &Node, path: &[&str]| node.at(path).and_then(Node::as_str).unwrap_or_default().to_owned();
        let is_it = |node: &&Node| {
            text(node, &["kind"]) == "ConfigMap"
                && text(node, &["metadata", "name"]) == UPGRADERS
                && text(node, &["metadata", "namespace"]) == self.namespace
        };
        let own = self.objects.iter().find(is_it).cloned();
        own.or_else(|| overlays::written_upgraders(self.fleet, self.namespace).map(|(_, node)| node))
    }

    /// The cluster that the stage `bundle` is one of, and its bundle.
    fn bundle(&self) -> Option<(&ClusterSpec, &BundleFile)> {
        let manager = match &self.cluster.management {
            Management::ManagedBy(name) => self.fleet.cluster(name)?,
            Management::SelfManaged | Management::Undeclared => self.cluster,
        };
        let bundle = overlays::uses_bundle(self.fleet, manager).then(|| overlays::bundle_for(self.fleet, manager))?;
        Some((manager, bundle.ok()?))
    }

    fn of_bundle(&self) -> Option<(String, String)> {
        let (manager, bundle) = self.bundle()?;
        let made = overlays::made_upgraders(self.fleet, manager, bundle);
        Some((bundle.bundles.name.clone(), made.get(self.namespace)?.get(self.version)?.clone()))
    }

    fn nothing(&self, place: &str) -> Contradiction {
        let version = self.version;
        let message = match self.bundle().filter(|_| self.fleet.policy.upgraders.is_some()) {
            Some((_, bundle)) if self.by_people().is_none() && !names(bundle, version) => {
                format!("{} names no EKS-D release {version}, so that {place} gets no image of it", bundle.bundles.name)
            }
            _ => format!("{place}, in the directory of a cluster there, has no upgrader image of {version}"),
        };
        Contradiction::new(message, self.help())
    }

    /// What makes one.
    fn help(&self) -> String {
        let version = self.version;
        let (bundle, repository) = (self.bundle(), self.fleet.policy.upgraders.as_deref());
        let file = bundle.map_or_else(|| "BUNDLES-FILE".to_owned(), |(_, file)| file.path.to_string());
        let build = match version.parse::<EksDVersion>() {
            Ok(release) => {
                let to = repository.unwrap_or("REPOSITORY");
                format!("`stepgate upgrader build` with --release {release} --bundle {file} --push {to}")
            }
            Err(_) => "`stepgate upgrader build` where the version is an EKS-D release".to_owned(),
        };
        match repository {
            Some(repository) if self.by_people().is_some() => {
                format!(
                    "make it with {build}, and add {version}: {repository}:{version} to that ConfigMap, or take it out"
                )
            }
            Some(_) => format!("name a release of the bundle, or add one that has it; {build} makes the image"),
            None => format!(
                "make it with {build}; name it in that ConfigMap, or the repository as `upgraders` in stepgate.yaml for \
                 releases of a bundle"
            ),
        }
    }
}

fn names(bundle: &BundleFile, version: &str) -> bool {
    let sections = bundle.bundles.versions_bundles.iter();
    let mut releases = sections.filter_map(|section| section.eks_d.as_ref().and_then(EksDReference::version));
    releases.any(|release| release.to_string() == version)
}

fn releases_of(node: &Node) -> std::collections::BTreeMap<String, Release> {
    let data = node.get("data").and_then(Node::as_mapping).into_iter().flatten();
    releases(data.filter_map(|entry| Some((entry.key.as_str(), entry.value.as_str()?))))
}
