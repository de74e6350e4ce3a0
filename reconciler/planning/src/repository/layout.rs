//! Where objects go in the repository.

use std::collections::{BTreeMap, BTreeSet};

use domain::RepoPath;
use serde_json::{Value, json};
use yaml::{Limits, emit};

use super::object::{EKSA, Object};
use super::release::Release;
use super::{Live, Member, Proposal, Refusal, credentials, stripped};

/// EKS-D's group.
const EKS_D: &str = "distro.eks.amazonaws.com";

/// The labels by which Flux says which Kustomization applies an object.
const APPLIED_BY: [&str; 2] = ["kustomize.toolkit.fluxcd.io/namespace", "kustomize.toolkit.fluxcd.io/name"];

/// Fields by which a Kustomization applies something else than its files say.
const CHANGING: [&str; 10] = [
    "commonMetadata",
    "components",
    "decryption",
    "images",
    "kubeConfig",
    "namePrefix",
    "nameSuffix",
    "patches",
    "postBuild",
    "targetNamespace",
];

/// A Kustomization that applies a cluster, its source, and the folder that it applies.
#[derive(Clone, Debug)]
struct Applied<'a> {
    kustomization: Object<'a>,
    source: Object<'a>,
    folder: String,
}

struct Layout<'a> {
    proposal: Proposal,
    all: &'a [Object<'a>],
    controllers: BTreeSet<&'a str>,
}

pub(super) fn layout<'a>(
    live: &Live<'_>,
    all: &'a [Object<'a>],
    clusters: &[Object<'a>],
    members: &[(Object<'a>, Vec<Member<'a>>)],
    releases: &[Release<'a>],
) -> Result<Proposal, Refusal> {
    let controllers = stripped::controllers(all.iter().map(|object| object.value));
    let mut layout = Layout { proposal: Proposal::default(), all, controllers };
    layout.proposal.clusters = clusters.iter().map(|cluster| cluster.name.to_owned()).collect();
    layout.releases(releases)?;
    let mut users: BTreeMap<(&str, &str, &str, &str), usize> = BTreeMap::new();
    for member in members.iter().flat_map(|(_, members)| members) {
        *users.entry(key(&member.object)).or_default() += 1;
    }
    let mut source = None;
    for (cluster, members) in members {
        let (own, shared): (Vec<&Member<'_>>, Vec<&Member<'_>>) =
            members.iter().partition(|member| users.get(&key(&member.object)) == Some(&1));
        for member in shared {
            let Object { kind, name, namespace, .. } = member.object;
            let path = format!("shared/{namespace}/{}-{name}.yaml", kind.to_lowercase());
            layout.write(&path, &[&member.declared])?;
        }
        let applied = layout.applied(cluster);
        layout.cluster(cluster, &own, applied.as_ref())?;
        if let Some(applied) = applied {
            layout.flux(&applied)?;
            source.get_or_insert(applied.source);
        }
    }
    layout.policy(live, source.as_ref())?;
    layout.proposal.remarks.push(
        "Secrets and ConfigMaps are not read: those that these objects name stay where they are, or are added by you"
            .to_owned(),
    );
    Ok(layout.proposal)
}

fn key<'a>(object: &Object<'a>) -> (&'a str, &'a str, &'a str, &'a str) {
    (object.group, object.kind, object.namespace, object.name)
}

impl<'a> Layout<'a> {
    fn write(&mut self, path: &str, objects: &[&Value]) -> Result<(), Refusal> {
        let mut text = String::new();
        for object in objects {
            let documents = yaml::parse(&object.to_string(), &Limits::default())
                .map_err(|error| Refusal::new(format!("{path} cannot be written: {error}"), "report it"))?;
            for document in documents {
                if !text.is_empty() {
                    text.push_str("---\n");
                }
                text.push_str(&emit(&document.root));
            }
        }
        self.put(path, text)
    }

    fn put(&mut self, path: &str, text: String) -> Result<(), Refusal> {
        let path = RepoPath::new(path.to_owned())
            .map_err(|error| Refusal::new(format!("{path} cannot be written: {error}"), "rename the object"))?;
        self.proposal.files.insert(path, text);
        Ok(())
    }

    fn declared(&self, object: &Object<'_>, keeps_status: bool) -> Result<Value, Refusal> {
        let declared = stripped::declared(object.value, &self.controllers, keeps_status);
        match credentials::credential(&declared) {
            Some(field) => {
                let message =
                    format!("{} holds a credential in {field}, and a repository must hold none", object.place());
                Err(Refusal::new(message, "keep it in a Secret that the object refers to, and try again"))
            }
            None => Ok(declared),
        }
    }

    /// Bundles, the release that names them, and the releases of EKS-D that they name.
    fn releases(&mut self, releases: &[Release<'_>]) -> Result<(), Refusal> {
        for object in releases.iter().flat_map(|release| release.bundles.iter().chain(&release.release)) {
            let declared = self.declared(object, false)?;
            self.write(&format!("bundles/{}.yaml", object.name), &[&declared])?;
            let sections = object.value.pointer("/spec/versionsBundles").and_then(Value::as_array);
            let names = sections.into_iter().flatten().filter_map(|section| section.pointer("/eksD/name")?.as_str());
            for name in names {
                let is_it = |known: &&Object<'_>| {
                    known.is(EKS_D, "Release")
                        && known.name == name
                        && known.value.pointer("/status/components").is_some()
                };
                let Some(release) = self.all.iter().find(is_it).copied() else { continue };
                // What such a release consists of stands in its status.
                let declared = self.declared(&release, true)?;
                self.write(&format!("bundles/{name}.yaml"), &[&declared])?;
            }
        }
        Ok(())
    }

    /// The Kustomization that applies a cluster, where that applies its files as they are.
    fn applied(&mut self, cluster: &Object<'_>) -> Option<Applied<'a>> {
        let [namespace, name] = APPLIED_BY.map(|label| cluster.label(label));
        let (namespace, name) = (namespace?, name?);
        let all = self.all;
        let named = |kind: &str, group: &str, namespace: &str, name: &str| {
            let is_it =
                |known: &&Object<'_>| known.is(group, kind) && known.namespace == namespace && known.name == name;
            all.iter().find(is_it).copied()
        };
        let Some(kustomization) = named("Kustomization", "kustomize.toolkit.fluxcd.io", namespace, name) else {
            self.remark(format!(
                "Kustomization {namespace}/{name} is said to apply {}, and is not there",
                cluster.place()
            ));
            return None;
        };
        let path = kustomization.text("/spec/path").unwrap_or_default().trim_matches('/');
        if name == format!("{}-cluster", cluster.name) && path.ends_with(&format!("clusters/{}/cluster", cluster.name))
        {
            self.remark(format!(
                "{} is one that Stepgate writes: {} is recorded already, and described by the repository of that record",
                kustomization.place(),
                cluster.place()
            ));
            return None;
        }
        let changed = CHANGING.iter().find(|field| kustomization.value.pointer(&format!("/spec/{field}")).is_some());
        if let Some(field) = changed {
            let place = kustomization.place();
            self.remark(format!(
                "{place} changes what it applies ({field}), and is not written: these files are what it has made of {}",
                cluster.place()
            ));
            return None;
        }
        let of = |path: &str| kustomization.text(path);
        let (kind, source) = (of("/spec/sourceRef/kind")?, of("/spec/sourceRef/name")?);
        let of_source = of("/spec/sourceRef/namespace").unwrap_or(kustomization.namespace);
        let Some(source) = named(kind, "source.toolkit.fluxcd.io", of_source, source) else {
            self.remark(format!("{kind} {of_source}/{source} of {} is not there", kustomization.place()));
            return None;
        };
        let folder = of("/spec/path").unwrap_or_default().trim_start_matches("./").trim_matches('/').to_owned();
        let folder = if folder == "." { String::new() } else { folder };
        let (place, url) = (kustomization.place(), source.text("/spec/url").unwrap_or_default());
        self.remark(format!(
            "{place} applies {} from {url} already: compare with what that holds before you push there, since a Kustomization that \
             prunes deletes what its folder holds no more",
            cluster.place()
        ));
        Some(Applied { kustomization, source, folder })
    }

    fn remark(&mut self, remark: String) {
        if !self.proposal.remarks.contains(&remark) {
            self.proposal.remarks.push(remark);
        }
    }

    /// In a file of its own, or where EKS Anywhere would have it in the folder that Flux applies.
    fn cluster(
        &mut self,
        cluster: &Object<'_>,
        members: &[&Member<'_>],
        applied: Option<&Applied<'_>>,
    ) -> Result<(), Refusal> {
        let objects: Vec<&Value> = members.iter().map(|member| &member.declared).collect();
        let name = cluster.name;
        let Some(applied) = applied else { return self.write(&format!("clusters/{name}/cluster.yaml"), &objects) };
        let folder = below(&applied.folder, name);
        if cluster.group != EKSA {
            return self.write(&format!("{folder}/cluster.yaml"), &objects);
        }
        self.write(&format!("{folder}/eksa-system/eksa-cluster.yaml"), &objects)?;
        self.write(&format!("{folder}/eksa-system/kustomization.yaml"), &[&kustomization(&["eksa-cluster.yaml"])])
    }

    /// Flux' objects as they were found.
    fn flux(&mut self, applied: &Applied<'_>) -> Result<(), Refusal> {
        let folder = below(&applied.folder, "flux-system");
        let (source, kustomized) =
            (self.declared(&applied.source, false)?, self.declared(&applied.kustomization, false)?);
        self.write(&format!("{folder}/gotk-sync.yaml"), &[&source, &kustomized])?;
        self.write(&format!("{folder}/kustomization.yaml"), &[&kustomization(&["gotk-sync.yaml"])])
    }

    fn policy(&mut self, live: &Live<'_>, source: Option<&Object<'_>>) -> Result<(), Refusal> {
        let mut text = String::from(
            "# `stepgate init --stdout` prints every field with its meaning.\n\
             apiVersion: stepgate.dev/v1alpha1\nkind: Policy\ndeploy:\n  branch: deploy\n",
        );
        if !live.serves_flux {
            text.push_str("# There was no Flux in the cluster.\napply: direct\n");
            self.remark(
                "there is no Flux: stepgate.yaml lets Stepgate apply the deploy branch itself (apply: direct)"
                    .to_owned(),
            );
        }
        if let Some(source) = source.filter(|source| (source.namespace, source.name) != ("flux-system", "flux-system"))
        {
            let Object { namespace, kind, name, .. } = source;
            text.push_str(&format!("flux:\n  namespace: {namespace}\n  source:\n    kind: {kind}\n    name: {name}\n"));
        }
        self.put("stepgate.yaml", text)
    }
}

fn below(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

fn kustomization(resources: &[&str]) -> Value {
    json!({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources})
}
