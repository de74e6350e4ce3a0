//! Recomputing the build metadata of a version from what it was made of.
//!
//! EKS Anywhere appends the first 7 hexadecimal digits of a SHA-256 to the version of a component: over the digests of
//! its images, as text, one behind the other, and over its manifests. For components of images alone the inputs are in
//! the bundle, so a digest that was edited without its version is found. Source: `aws/eks-anywhere`,
//! `release/cli/pkg/version/version.go`.

use sha2::{Digest as _, Sha256};

use super::{Version, VersionForm};
use crate::component::Component;

/// What recomputing gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildMetadataVerdict {
    /// The build metadata belongs to the digests of the component.
    Verified,
    /// It does not: a digest, or the version, was changed without the other.
    Mismatch {
        /// The build metadata that the version has.
        found: String,
        /// What the digests give, in the order of today's releases.
        computed: String,
    },
    /// The inputs are not at hand, or there is nothing to compare with.
    NotComputable {
        /// Why.
        reason: &'static str,
    },
}

/// A component made of images alone.
struct Recipe {
    component: &'static str,
    /// The images in the order of today's releases.
    images: [&'static str; 4],
    /// Versions below this one were hashed over inputs that are not in the bundle.
    since: &'static str,
}

const RECIPES: [Recipe; 2] = [
    Recipe {
        component: "flux",
        images: ["helmController", "kustomizeController", "notificationController", "sourceController"],
        since: "v0.23.0",
    },
    Recipe {
        component: "packageController",
        images: ["packageController", "tokenRefresher", "credentialProviderPackage", "helmChart"],
        since: "v0.3.0",
    },
];

/// What a dry run of the release writes in place of a hash.
const DRY_RUN: &str = "abcdef1";

/// Recomputes the build metadata of `component`.
#[must_use]
pub fn recompute_build_metadata(component: &Component) -> BuildMetadataVerdict {
    let not_computable = |reason| BuildMetadataVerdict::NotComputable { reason };
    let Some(recipe) = RECIPES.iter().find(|recipe| recipe.component == component.name) else {
        return not_computable("its hash is also made over manifests, which are not in the bundle");
    };
    let Some((version, found)) = component.version.as_ref().and_then(|it| Some((it, it.build_metadata()?))) else {
        return not_computable("its version has no build metadata");
    };
    if found == DRY_RUN {
        return not_computable("its build metadata is the constant of a dry run");
    }
    if !matches!(version.form(), VersionForm::Semantic(_))
        || version.precedence() < Version::new(recipe.since).precedence()
    {
        return not_computable("versions as old as this one were hashed over other inputs");
    }
    let digest = |name: &&str| component.artifact(name)?.digest.map(|digest| digest.to_string());
    let Some(digests) = recipe.images.iter().map(digest).collect::<Option<Vec<_>>>() else {
        return not_computable("an image has no digest");
    };
    if orders(&digests).any(|order| hash(&order) == found) {
        return BuildMetadataVerdict::Verified;
    }
    let today: Vec<&str> = digests.iter().map(String::as_str).collect();
    BuildMetadataVerdict::Mismatch { found: found.to_owned(), computed: hash(&today) }
}

fn hash(digests: &[&str]) -> String {
    let mut sha256 = Sha256::new();
    for digest in digests {
        sha256.update(digest);
    }
    let bytes: [u8; 32] = sha256.finalize().into();
    let mut hex: String = bytes.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    hex.truncate(7);
    hex
}

/// Every order of the digests, today's first. Releases before 2022 did not sort: the same images gave one of 24 hashes.
fn orders(digests: &[String]) -> impl Iterator<Item = Vec<&str>> {
    let count: usize = (1..=digests.len()).product();
    (0..count).map(move |mut index| {
        let mut rest: Vec<&str> = digests.iter().map(String::as_str).collect();
        let mut order = Vec::with_capacity(rest.len());
        while !rest.is_empty() {
            let left = rest.len();
            order.push(rest.remove(index % left));
            index /= left;
        }
        order
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::parse_bundles;

    /// A flux section whose four images have the digests 1111…, 2222…, 3333… and 4444….
    fn verdict(version: &str, change: (&str, &str)) -> BuildMetadataVerdict {
        let images: String = ["helmController", "kustomizeController", "notificationController", "sourceController"]
            .iter()
            .zip(["1", "2", "3", "4"])
            .map(|(name, digit)| {
                format!("      {name}: {{uri: 'r/{name}:1', imageDigest: 'sha256:{}'}}\n", digit.repeat(64))
            })
            .collect();
        let text = format!(
            "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Bundles\nmetadata: {{name: b}}\nspec:\n  number: 1\n  \
             versionsBundles:\n  - kubeVersion: '1.30'\n    flux:\n      version: {version}\n{images}"
        );
        let bundles = parse_bundles("b.yaml", text.replace(change.0, change.1).as_bytes()).unwrap();
        recompute_build_metadata(&bundles.versions_bundles[0].components[0])
    }

    /// The hashes are those that `sha256sum` gives for the digests as text, one behind the other.
    #[test]
    fn a_hash_belongs_to_the_digests_it_was_made_of() {
        let same = ("flux", "flux");
        assert_eq!(verdict("v2.7.0+449c1f6", same), BuildMetadataVerdict::Verified);
        assert_eq!(verdict("v0.24.0+3da7994", same), BuildMetadataVerdict::Verified, "in another order");
        let mismatch = BuildMetadataVerdict::Mismatch { found: "449c1f7".to_owned(), computed: "449c1f6".to_owned() };
        assert_eq!(verdict("v2.7.0+449c1f7", same), mismatch);
        let edited = verdict("v2.7.0+449c1f6", (&"3".repeat(64), &"5".repeat(64)));
        assert!(matches!(edited, BuildMetadataVerdict::Mismatch { .. }), "{edited:?}");
    }

    #[test]
    fn what_cannot_be_computed_says_why() {
        for (version, change, part) in [
            ("v2.7.0", ("flux", "flux"), "no build metadata"),
            ("v2.7.0+abcdef1", ("flux", "flux"), "dry run"),
            ("v0.22.0+449c1f6", ("flux", "flux"), "as old as this one"),
            ("v2.7.0+449c1f6", ("flux", "certManager"), "over manifests"),
            ("v2.7.0+449c1f6", ("imageDigest", "other"), "an image has no digest"),
        ] {
            let verdict = verdict(version, change);
            let BuildMetadataVerdict::NotComputable { reason } = verdict else { panic!("{version}: {verdict:?}") };
            assert!(reason.contains(part), "{version}: {reason}");
        }
    }
}
