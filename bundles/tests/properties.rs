//! Properties of reading and comparing, over invented bundles.

use bundles::{ChangeClass, Locks, compare, parse, parse_bundles};
use proptest::prelude::*;

/// One artifact: name, address, digest.
type Artifact = (String, String, Option<u8>);
/// One component: name, version, artifacts.
type Component = (String, Option<String>, Vec<Artifact>);

fn version() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        Just(None),
        "v[0-2]\\.[0-3]\\.[0-2](-(rc1|0|1|eksa\\.2))?(\\+[0-9a-f]{1,3})?".prop_map(Some),
        "(deprecated|[0-9a-f]{8}|)".prop_map(Some),
    ]
}

fn component() -> impl Strategy<Value = Component> {
    let artifact = ("[a-c]", "r/[a-c]:[0-9]", proptest::option::of(0u8..3));
    ("[a-f]", version(), proptest::collection::vec(artifact, 0..3))
}

fn write(versions: &[(u8, Vec<Component>)], reverse: bool) -> String {
    let mut text =
        "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Bundles\nspec:\n  versionsBundles:\n".to_owned();
    let mut versions = versions.to_vec();
    if reverse {
        versions.reverse();
    }
    for (minor, mut components) in versions {
        text += &format!("  - kubeVersion: '1.{minor}'\n");
        components.sort();
        components.dedup_by(|left, right| left.0 == right.0);
        if reverse {
            components.reverse();
        }
        for (name, version, mut artifacts) in components {
            text += &format!("    {name}:\n      kept: true\n");
            if let Some(version) = version {
                text += &format!("      version: '{version}'\n");
            }
            artifacts.sort();
            artifacts.dedup_by(|left, right| left.0 == right.0);
            if reverse {
                artifacts.reverse();
            }
            for (name, uri, digest) in artifacts {
                text += &format!("      {name}: {{uri: '{uri}', os: linux");
                if let Some(digest) = digest {
                    text += &format!(", imageDigest: 'sha256:{}'", digest.to_string().repeat(64));
                }
                text += "}\n";
            }
        }
    }
    text
}

fn versions() -> impl Strategy<Value = Vec<(u8, Vec<Component>)>> {
    proptest::collection::btree_map(20u8..24, proptest::collection::vec(component(), 0..5), 1..4)
        .prop_map(|versions| versions.into_iter().collect())
}

proptest! {
    #[test]
    fn nothing_changes_between_a_bundle_and_itself_in_another_order(versions in versions()) {
        let one = parse_bundles("one", write(&versions, false).as_bytes()).unwrap();
        let other = parse_bundles("other", write(&versions, true).as_bytes()).unwrap();
        prop_assert!(compare(&one, &one, Locks::default()).is_empty());
        prop_assert!(compare(&one, &other, Locks::default()).is_empty());
    }

    #[test]
    fn every_component_of_either_side_is_reported_once(old in versions(), new in versions()) {
        let [old, new] = [old, new].map(|it| parse_bundles("bundles", write(&it, false).as_bytes()).unwrap());
        let changes = compare(&old, &new, Locks::default());
        let mut keys: Vec<_> = changes.changes.iter().map(|it| (it.kubernetes_version.clone(), it.component.clone())).collect();
        let reported = keys.clone();
        keys.sort();
        keys.dedup();
        prop_assert_eq!(&reported, &keys);
        for side in [&old, &new] {
            for versions_bundle in &side.versions_bundles {
                for component in &versions_bundle.components {
                    prop_assert!(changes.get(&versions_bundle.kubernetes_version, &component.name).is_some());
                }
            }
        }
    }

    #[test]
    fn a_class_turns_around(old in versions(), new in versions()) {
        use ChangeClass::*;
        let [old, new] = [old, new].map(|it| parse_bundles("bundles", write(&it, false).as_bytes()).unwrap());
        let back = compare(&new, &old, Locks::default());
        for change in compare(&old, &new, Locks::default()).changes {
            let back = back.get(&change.kubernetes_version, &change.component).unwrap().class;
            let fits = match change.class {
                Unchanged | Retag | Opaque | DigestDrift => back == change.class,
                Added => back == Removed,
                Removed => back == Added,
                Patch | Minor | Major | SkipMinor => back == Downgrade,
                Rebuild => matches!(back, Rebuild | Downgrade),
                Downgrade => matches!(back, Patch | Minor | Major | SkipMinor | Rebuild),
            };
            prop_assert!(fits, "{:?} {:?}", change, back);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Err(error) = parse("bundles", &bytes) {
            prop_assert!(error.line > 0 && !error.message.is_empty());
        }
    }

    #[test]
    fn a_truncated_bundle_is_read_or_refused(versions in versions(), share in 0usize..100) {
        let text = write(&versions, false);
        let _ = parse_bundles("bundles", &text.as_bytes()[..text.len() * share / 100]);
    }
}
