//! Whose signatures are missing or do not fit, as far as the policies that count ask for them.

use bundles::{Bundles, EksdSignatureVerdict, SignatureVerdict, VersionsBundle};
use domain::{Problem, ProblemCode};
use overlays::{ClusterSpec, Fleet};
use policy::{Policy, Signatures};
use rollout::check::UnprovenManifest;
use rollout::{Block, ObjectReference};

use crate::policies::Befores;

/// What helps where a signature is missing or does not fit.
const HELP: &str =
    "take the file anew from its release, as it is published: `stepgate bundle verify` says what it is signed for";

/// What is not proven of the bundle that a cluster goes to; nothing where nobody asks.
#[must_use]
pub fn unproven(fleet: &Fleet, cluster: &ClusterSpec, befores: &Befores, newest: &Policy) -> Vec<UnprovenManifest> {
    let asked = befores.signatures(newest);
    if asked == Signatures::Off || !overlays::uses_bundle(fleet, cluster) {
        return Vec::new();
    }
    // A bundle that is missing blocks by itself.
    let Ok(file) = overlays::bundle_for(fleet, cluster) else { return Vec::new() };
    let versions: Vec<&str> = std::iter::once(&cluster.kubernetes_version)
        .chain(cluster.worker_groups.iter().map(|group| &group.kubernetes_version))
        .map(String::as_str)
        .collect();
    of_bundles(&file.bundles, &versions, asked == Signatures::Require)
}

/// What a repository whose policy requires signatures lacks, by cluster: their next rollout is blocked.
#[must_use]
pub fn problems(fleet: &Fleet) -> Vec<Problem> {
    let befores = Befores::default();
    let of = |cluster: &ClusterSpec| {
        let required = unproven(fleet, cluster, &befores, &fleet.policy).into_iter().filter(|known| known.is_required);
        let place = cluster.places.bundle_reference.as_ref().unwrap_or(&cluster.places.name).clone();
        let name = cluster.name.clone();
        let problem = move |known: UnprovenManifest| {
            let message = format!(
                "{} has no signature that fits, which `signatures: require` asks for: {}",
                known.object, known.message
            );
            let problem = Problem::new(ProblemCode::Signature, message).cluster(&name).path(&place.path);
            problem.at(place.line, place.column).hint(HELP)
        };
        required.map(problem).collect::<Vec<_>>()
    };
    fleet.clusters.iter().flat_map(of).collect()
}

fn of_bundles(bundles: &Bundles, versions: &[&str], is_required: bool) -> Vec<UnprovenManifest> {
    let unproven = |api_version: &str, kind: &str, name: &str, message: String| UnprovenManifest {
        object: ObjectReference {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: None,
            name: name.to_owned(),
        },
        message,
        is_required,
    };
    let mut found = Vec::new();
    let verdict = bundles::verify_signature(bundles);
    match &verdict {
        SignatureVerdict::Valid { .. } => {}
        SignatureVerdict::Missing | SignatureVerdict::Invalid { .. } => {
            found.push(unproven("anywhere.eks.amazonaws.com/v1alpha1", "Bundles", &bundles.name, verdict.statement()));
        }
    }
    let is_used = |section: &&VersionsBundle| {
        let minor = section.kubernetes_version.to_string();
        versions.iter().any(|version| rollout::check::minor_of(version) == rollout::check::minor_of(&minor))
    };
    for reference in bundles.versions_bundles.iter().filter(is_used).filter_map(|section| section.eks_d.as_ref()) {
        let verdict = bundles::verify_eksd_reference(bundles, reference);
        match &verdict {
            EksdSignatureVerdict::Valid => {}
            EksdSignatureVerdict::Missing | EksdSignatureVerdict::Invalid { .. } => {
                let name = reference.name.as_deref().unwrap_or("without a name");
                let known = unproven("distro.eks.amazonaws.com/v1alpha1", "Release", name, verdict.statement());
                if !found.contains(&known) {
                    found.push(known);
                }
            }
        }
    }
    found
}

/// What forbids the rollout. No waiver counts here: whoever can push could write one.
pub(crate) fn blocks(unproven: &[UnprovenManifest]) -> Vec<Block> {
    let required = unproven.iter().filter(|known| known.is_required);
    let block = |known: &UnprovenManifest| Block {
        code: "signature".to_owned(),
        stage: None,
        message: format!(
            "{} has no signature that fits, which `signatures: require` asks for: {}",
            known.object, known.message
        ),
        help: HELP.to_owned(),
    };
    required.map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUNDLE: &str = "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Bundles\nmetadata: {name: bundles-1}\nspec:\n  \
                          number: 1\n  versionsBundles:\n  - kubeVersion: '1.34'\n    eksD: {name: kubernetes-1-34-eks-5, channel: 1-34, kubeVersion: v1.34.1}\n  \
                          - kubeVersion: '1.35'\n    eksD: {name: kubernetes-1-35-eks-1, channel: 1-35, kubeVersion: v1.35.0}\n";

    fn told(is_required: bool) -> Vec<UnprovenManifest> {
        let bundles = bundles::parse_bundles("bundles.yaml", BUNDLE.as_bytes()).unwrap();
        of_bundles(&bundles, &["1.34"], is_required)
    }

    #[test]
    fn bundles_and_the_releases_that_are_used_have_to_be_signed() {
        let told: Vec<String> = told(true).iter().map(|known| format!("{}: {}", known.object, known.message)).collect();
        let expected = [
            "Bundles bundles-1: the Bundles object is not signed",
            "Release kubernetes-1-34-eks-5: the bundle carries no signature for it",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn only_what_is_required_forbids_a_rollout() {
        assert_eq!(blocks(&told(false)), []);
        let blocks = blocks(&told(true));
        assert_eq!(blocks.len(), 2);
        assert!(blocks.iter().all(|block| block.message.contains("`signatures: require`")), "{blocks:?}");
    }
}
