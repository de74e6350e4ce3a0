//! Recorded objects of a Supervisor: releases, and the images of their nodes.

use std::sync::Arc;

use bundles::tanzu::{
    Components, DistributionVersion, ImageAddon, ImageReferences, LabelQuery, MachineImage, OsImage, RecordError,
    Standing, TanzuRelease,
};
use yaml::Node;

use crate::fleet::objects::FoundObject;
use domain::{Problem, ProblemCode};

/// The annotation by which a cluster chooses the operating system of its nodes.
const OS_IMAGE: &str = "run.tanzu.vmware.com/resolve-os-image";

/// What a Supervisor takes where nothing is chosen.
const DEFAULT_OS: &str = "os-name=photon";

/// What is recorded of a Supervisor.
#[derive(Default)]
pub(in crate::fleet) struct Records {
    /// Its releases; where none is recorded, those that images name.
    pub releases: Vec<TanzuRelease>,
    os_images: Vec<OsImage>,
    machine_images: Vec<MachineImage>,
    /// What could not be read.
    pub unread: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Release,
    OsImage,
    MachineImage,
}

fn kind(object: &FoundObject) -> Option<Kind> {
    match (object.group.as_str(), object.kind.as_str()) {
        ("run.tanzu.vmware.com", "TanzuKubernetesRelease") | ("kubernetes.vmware.com", "KubernetesRelease") => {
            Some(Kind::Release)
        }
        ("run.tanzu.vmware.com" | "kubernetes.vmware.com", "OSImage") => Some(Kind::OsImage),
        ("vmoperator.vmware.com", "VirtualMachineImage" | "ClusterVirtualMachineImage") => Some(Kind::MachineImage),
        _ => None,
    }
}

/// Whether an object is recorded of a Supervisor, which makes it itself: it is part of no cluster.
pub(in crate::fleet) fn is_record(object: &FoundObject) -> bool {
    kind(object).is_some()
}

/// What nodes of a release are made from, and what they bring.
pub(in crate::fleet) struct Material<'a> {
    /// The release.
    pub version: DistributionVersion,
    /// The name of its image.
    pub image: String,
    /// What its nodes run.
    pub components: Components,
    /// The add-ons that it brings.
    pub addons: &'a [ImageAddon],
    /// The release as a label of nodes has it.
    pub label: String,
}

impl Records {
    /// What is recorded among `objects`; what is not usable becomes a problem, and is kept in mind.
    pub fn read(objects: &[Arc<FoundObject>], problems: &mut Vec<Problem>) -> Self {
        let mut records = Self::default();
        for object in objects.iter().filter(|object| !object.is_local) {
            let Some(kind) = kind(object) else { continue };
            if let Err(error) = records.add(kind, &object.node) {
                let place = object.place_of(&error.field);
                let problem = Problem::new(ProblemCode::BadBundle, error.message.clone()).path(&place.path);
                records.unread.push(format!("{}: {}", place.path, error.message));
                problems.push(problem.at(place.line, place.column).hint(error.hint));
            }
        }
        if records.releases.is_empty() {
            let named = records.machine_images.iter().filter_map(|image| Some((image, image.distribution.clone()?)));
            let of_image = |(image, version): (&MachineImage, DistributionVersion)| TanzuRelease {
                version,
                standing: Standing::Offered,
                images: ImageReferences::MachineImage(image.name.clone()),
                components: Components::default(),
            };
            records.releases = named.map(of_image).collect();
        }
        records
    }

    fn add(&mut self, kind: Kind, node: &Node) -> Result<(), RecordError> {
        match kind {
            Kind::Release => {
                let release = TanzuRelease::read(node)?;
                // Older and newer Supervisors serve one release under two kinds.
                match self.releases.iter_mut().find(|known| known.version == release.version) {
                    Some(known) if known.standing == Standing::Offered => known.standing = release.standing,
                    Some(_) => {}
                    None => self.releases.push(release),
                }
            }
            Kind::OsImage => self.os_images.push(OsImage::read(node)?),
            Kind::MachineImage => self.machine_images.push(MachineImage::read(node)?),
        }
        Ok(())
    }

    /// What nodes of a release are made from.
    ///
    /// # Errors
    /// What is in the way, and what helps: without a Supervisor, nobody else looks for an image.
    pub fn material(&self, version: &DistributionVersion, cluster: &Node) -> Result<Material<'_>, (String, String)> {
        if let Some(refusal) = self.problem_of_image(version, cluster) {
            return Err(refusal);
        }
        let missing = || {
            let message = format!(
                "no image of release {version} is recorded, and without a Supervisor its nodes are made from it"
            );
            let hint = "commit what `kubectl get tanzukubernetesreleases,osimages,virtualmachineimages -A -o yaml` prints of \
                        the Supervisor that has it";
            (message, hint.to_owned())
        };
        let release = self.releases.iter().find(|release| release.version == *version).ok_or_else(missing)?;
        let (name, is_unified) = match &release.images {
            ImageReferences::None => (None, false),
            ImageReferences::MachineImage(name) => (Some(name.clone()), false),
            ImageReferences::OsImages(names) => {
                let image = self.os_image(version, names, cluster)?;
                (Some(image.machine_image.clone().unwrap_or_else(|| image.name.clone())), true)
            }
        };
        let image = match &name {
            Some(name) => self.machine_images.iter().find(|image| image.is_named(name)),
            None => self.machine_images.iter().find(|image| image.distribution.as_ref() == Some(version)),
        };
        let name = image.map(|image| image.name.clone()).or_else(|| name.filter(|_| is_unified)).ok_or_else(missing)?;
        let own = &release.components;
        let of_image = image.map(|image| image.components.clone()).unwrap_or_default();
        Ok(Material {
            version: version.clone(),
            image: name,
            components: Components {
                kubernetes: own.kubernetes.clone().or(of_image.kubernetes),
                etcd: own.etcd.clone().or(of_image.etcd),
                coredns: own.coredns.clone().or(of_image.coredns),
            },
            addons: image.map(|image| image.addons.as_slice()).unwrap_or_default(),
            label: if is_unified { version.name() } else { version.as_str().replacen('+', "_", 1) },
        })
    }

    /// Why nodes of a release cannot be made by what is recorded of its images, and what helps. Nothing is said where no image is
    /// recorded.
    pub fn problem_of_image(&self, version: &DistributionVersion, cluster: &Node) -> Option<(String, String)> {
        let release = self.releases.iter().find(|release| release.version == *version)?;
        match &release.images {
            ImageReferences::None => self.twins(version),
            ImageReferences::MachineImage(name) => self.machine_image(version, name),
            ImageReferences::OsImages(_) if self.os_images.is_empty() => None,
            ImageReferences::OsImages(names) => match self.os_image(version, names, cluster) {
                Ok(image) => self.machine_image(version, image.machine_image.as_deref()?),
                Err(refusal) => Some(refusal),
            },
        }
    }

    fn machine_image(&self, version: &DistributionVersion, name: &str) -> Option<(String, String)> {
        if self.machine_images.is_empty() {
            return None;
        }
        let Some(image) = self.machine_images.iter().find(|image| image.is_named(name)) else {
            let message = format!("image {name:?} of release {version} is not among the recorded ones");
            return Some((message, "synchronize the content library, and record its images anew".to_owned()));
        };
        match &image.distribution {
            None => {
                let message = format!("image {name:?} of release {version} does not say its distribution");
                Some((message, "record the image with its annotations or status, as the Supervisor has it".to_owned()))
            }
            Some(own) if own != version => {
                let message = format!("image {name:?} of release {version} says that it is of {own}");
                Some((message, "record releases and images of one Supervisor, at one time".to_owned()))
            }
            Some(_) => self.twins(version),
        }
    }

    /// Two images of one version: which one counts depends on the order of a list.
    fn twins(&self, version: &DistributionVersion) -> Option<(String, String)> {
        let is_unified = self.os_images.iter().any(|image| image.machine_image.is_some());
        let of_version = self.machine_images.iter().filter(|image| image.distribution.as_ref() == Some(version));
        let names: Vec<&str> = of_version.map(|image| image.name.as_str()).collect();
        if names.len() < 2 || is_unified {
            return None;
        }
        let message =
            format!("images {} are all of release {version}, and a Supervisor takes any of them", names.join(", "));
        Some((message, "take all but one out of the content library, and record its images anew".to_owned()))
    }

    /// The one image of a release that a cluster chooses.
    fn os_image(
        &self,
        version: &DistributionVersion,
        names: &[String],
        cluster: &Node,
    ) -> Result<&OsImage, (String, String)> {
        let of_release: Vec<&OsImage> = self.os_images.iter().filter(|image| names.contains(&image.name)).collect();
        let annotations = cluster.at(&["metadata", "annotations"]);
        let written = annotations.and_then(|annotations| annotations.get(OS_IMAGE)).and_then(Node::as_str);
        let text = written.unwrap_or(if of_release.len() == 1 { "" } else { DEFAULT_OS });
        let hint = format!("write {OS_IMAGE}: os-name=NAME into its annotations, so that one image is left");
        let query: LabelQuery = text.parse().map_err(|error| (format!("{OS_IMAGE}: {error}"), hint.clone()))?;
        let mut chosen = of_release.iter().copied().filter(|image| query.is_met_by(image));
        match (chosen.next(), chosen.next()) {
            (Some(image), None) => Ok(image),
            (None, _) => {
                let names: Vec<&str> = of_release.iter().map(|image| image.name.as_str()).collect();
                let message = format!("no image of release {version} is {text}; recorded of it: {}", names.join(", "));
                Err((message, hint))
            }
            (Some(one), Some(two)) => {
                let message = format!("images {} and {} of release {version} are both {text}", one.name, two.name);
                Err((message, hint))
            }
        }
    }
}
