use std::cmp::Ordering;

use proptest::prelude::*;

use super::*;

/// Core, prerelease and packaging revision of a semantic version.
type Semantic<'a> = ((u64, u64, u64), &'a str, Option<u64>);

fn check(text: &str, expect: Option<Semantic<'_>>, build: Option<&str>) {
    let version = Version::new(text);
    assert_eq!(version.as_str(), text);
    assert_eq!(version.build_metadata(), build, "{text}");
    match (version.form(), expect) {
        (VersionForm::Semantic(semantic), Some((core, prerelease, revision))) => {
            assert_eq!((semantic.major, semantic.minor, semantic.patch), core, "{text}");
            assert_eq!(semantic.prerelease.as_str(), prerelease, "{text}");
            assert_eq!(semantic.revision, revision, "{text}");
        }
        (VersionForm::Opaque, None) => {}
        (form, expect) => panic!("{text}: {form:?}, expected {expect:?}"),
    }
}

#[test]
fn forms_of_real_history() {
    check("v1.18.2+9b355a2", Some(((1, 18, 2), "", None)), Some("9b355a2"));
    check("v1.1.1+5075479", Some(((1, 1, 1), "", None)), Some("5075479"));
    check("v1.1.1+0540b04", Some(((1, 1, 1), "", None)), Some("0540b04"));
    check("v1.0.0-rc9+41abe54", Some(((1, 0, 0), "rc9", None)), Some("41abe54"));
    check("v0.4.3-RC1+e3b0c44", Some(((0, 4, 3), "RC1", None)), Some("e3b0c44"));
    check("v0.25.0-dev+build.17+c76980a", Some(((0, 25, 0), "dev", None)), Some("build.17+c76980a"));
    check(
        "v0.0.0-dev-v1beta1-experimental+build.65+ad79849",
        Some(((0, 0, 0), "dev-v1beta1-experimental", None)),
        Some("build.65+ad79849"),
    );
    check("9e9c2a397288908f73a4f499ac00aaf96d15deb6+abcdef1", None, Some("abcdef1"));
    check("v1.19.4-1", Some(((1, 19, 4), "", Some(1))), None);
    check("v1.17.8-0", Some(((1, 17, 8), "", Some(0))), None);
    check("v1.15.16-eksa.1", Some(((1, 15, 16), "", Some(1))), None);
    check("v0.1.0-beta-3.3", Some(((0, 1, 0), "beta-3.3", None)), None);
    check("v1.16.0-rc.1-eksa.2", Some(((1, 16, 0), "rc.1", Some(2))), None);
    check("v0.4.2+build-2", Some(((0, 4, 2), "", None)), Some("build-2"));
    check("0.4.16", Some(((0, 4, 16), "", None)), None);
}

#[test]
fn what_has_no_order_is_opaque() {
    let texts = [
        "deprecated",
        "<placeholder>",
        "",
        " ",
        "v",
        "v1",
        "v1.2",
        "1.2.3.4",
        "v1.2.x",
        "v1.2.3-",
        "v1.2.3-\u{e9}",
        "v1.2.3-a..b",
        "v-1.2.3",
        " v1.2.3",
        "v99999999999999999999.0.0",
        "9e9c2a397288908f73a4f499ac00aaf96d15deb6",
    ];
    for text in texts {
        check(text, None, None);
        assert_eq!(Version::new(text).compare(&Version::new("v1.0.0")), None, "{text}");
    }
}

#[test]
fn eks_d_versions_order_by_kubernetes_then_release_number() {
    let version = Version::new("v1.30.14-eks-1-30-58");
    let VersionForm::EksD(eks_d) = version.form() else { panic!("{:?}", version.form()) };
    assert_eq!((eks_d.kubernetes(), eks_d.channel(), eks_d.number()), ((1, 30, 14), "1-30".to_owned(), 58));
    let compare = |left: &str, right: &str| Version::new(left).compare(&Version::new(right)).unwrap();
    assert_eq!(compare("v1.30.14-eks-1-30-9", "v1.30.14-eks-1-30-58"), Ordering::Less);
    assert_eq!(compare("v1.30.14-eks-1-30-58", "v1.30.9-eks-1-30-60"), Ordering::Greater);
}

#[test]
fn order_knows_revisions_and_ignores_build_metadata() {
    let check = |left: &str, right: &str, expect: Ordering| {
        assert_eq!(Version::new(left).compare(&Version::new(right)), Some(expect), "{left} {right}");
        assert_eq!(Version::new(right).compare(&Version::new(left)), Some(expect.reverse()), "{right} {left}");
    };
    check("v1.17.8-0", "v1.17.8-1", Ordering::Less);
    check("v1.17.8-9", "v1.17.8-10", Ordering::Less);
    check("v1.17.8", "v1.17.8-0", Ordering::Equal);
    check("v1.15.16-eksa.2", "v1.15.16-eksa.1", Ordering::Greater);
    check("v1.0.5-rc4+a1b2d1e", "v1.0.5+4f4a848", Ordering::Less);
    check("v1.0.0-rc9", "v1.0.0-rc.10", Ordering::Greater);
    check("v1.1.1+5075479", "v1.1.1+ffffff0", Ordering::Equal);
    check("v1.9.4", "v1.10.0", Ordering::Less);
}

proptest! {
    #[test]
    fn any_text_is_a_version_and_comes_back_verbatim(text in "\\PC*") {
        let version = Version::new(text.as_str());
        prop_assert_eq!(version.as_str(), text.as_str());
        prop_assert_eq!(version.to_string(), text.as_str());
        prop_assert_eq!(&version, &Version::new(text));
    }

    #[test]
    fn version_like_texts_never_panic(text in "v?[0-9]{0,21}(\\.[0-9]{0,3}){0,3}(-[0-9a-z.-]{0,8})?(\\+[0-9a-z.+-]{0,8})?") {
        let version = Version::new(text.as_str());
        prop_assert_eq!(version.as_str(), text.as_str());
        prop_assert_eq!(version.is_opaque(), version.precedence().is_none());
    }

    #[test]
    fn order_is_total_on_what_is_ordered(
        left in "v[0-9]{1,2}\\.[0-9]\\.[0-9](-(rc[0-9]|[0-9]|eksa\\.[0-9]))?",
        right in "v[0-9]{1,2}\\.[0-9]\\.[0-9](-(rc[0-9]|[0-9]|eksa\\.[0-9]))?",
    ) {
        let (left, right) = (Version::new(left), Version::new(right));
        prop_assert_eq!(left.compare(&right).unwrap(), right.compare(&left).unwrap().reverse());
        prop_assert_eq!(left.compare(&left), Some(Ordering::Equal));
    }
}
