use super::*;

#[test]
fn every_spelling_parses_and_keeps_its_text() {
    let check = |text: &str, minor: (u64, u64), patch: Option<u64>| {
        let version: KubernetesVersion = text.parse().unwrap();
        assert_eq!((version.minor().major, version.minor().minor), minor, "{text}");
        assert_eq!(version.patch(), patch, "{text}");
        assert_eq!(version.to_string(), text);
    };
    check("1.30", (1, 30), None);
    check("v1.30", (1, 30), None);
    check("v1.30.14", (1, 30), Some(14));
    check("v1.30.14-eks-1-30-58", (1, 30), Some(14));
    check("v1.27.3+k3s1", (1, 27), Some(3));
}

#[test]
fn other_texts_are_refused() {
    for text in [
        "",
        "1",
        "v1",
        "1.",
        "1.x",
        "1.30.",
        "1.30.1.2",
        "latest",
        "1.-3",
        "+1.30",
        " 1.30",
        "1.30-eks",
        "99999999999999999999.1",
    ] {
        assert!(text.parse::<KubernetesVersion>().is_err(), "{text}");
    }
    assert!("1.30.1".parse::<KubernetesMinor>().is_err());
}

#[test]
fn order_is_by_number() {
    let version = |text: &str| text.parse::<KubernetesVersion>().unwrap();
    assert!(version("1.9") < version("1.10"));
    assert!(version("v1.30") < version("1.30.0"));
    assert_eq!(version("v1.30"), version("1.30"));
    let minor = |text: &str| text.parse::<KubernetesMinor>().unwrap();
    assert_eq!(minor("1.31").minors_above(minor("1.29")), Some(2));
    assert_eq!(minor("1.28").minors_above(minor("1.29")), Some(-1));
    assert_eq!(minor("2.0").minors_above(minor("1.29")), None);
    assert_eq!(minor("1.30").channel(), "1-30");
}

fn version(text: &str) -> KubernetesVersion {
    text.parse().unwrap()
}

#[test]
fn kubelets_are_compared_by_meaning() {
    for (expected, reported, met) in [
        ("v1.27.3-eks-1-27-4", "v1.27.3-eks-6f07bbc", true),
        ("v1.27.3-eks-1-27-4", "v1.27.3-eks-1-27-4", true),
        ("v1.27.3-eks-1-27-4", "v1.27.3-eks-1-27-9", false),
        ("v1.27.3-eks-1-27-4", "v1.27.3", true),
        ("v1.27.3-eks-1-27-4", "v1.27.1-eks-6f07bbc", false),
        ("1.27", "v1.27.3-eks-6f07bbc", true),
        ("1.27", "v1.28.0", false),
        ("v1.36.0", "v1.36.0-rc.1", false),
        ("v1.36.0-rc.1", "v1.36.0", false),
        ("v1.36.0", "v1.36.0+k3s1", true),
        ("v1.36.0+rke2r2", "v1.36.0+rke2r1", false),
        ("v1.36.0+rke2r2", "v1.36.0+k3s2", false),
        ("v1.31.1+k0s.0", "v1.31.1+k0s", true),
        ("v1.31.1-k0s.0", "v1.31.1+k0s", true),
        ("v1.28.8---vmware.1-fips.1-tkg.2", "v1.28.8+vmware.1-fips.1", true),
        ("v1.28.8---vmware.2-fips.1-tkg.2", "v1.28.8+vmware.1-fips.1", false),
        ("v1.28.8---vmware.1-tkg.2", "v1.28.8+vmware.1-fips.1", false),
        ("1.32.5-gke.1533000", "v1.32.5-gke.1533000", true),
        ("1.32.5-gke.1533000", "v1.32.5-gke.1500000", false),
        ("v1.36.0", "", false),
    ] {
        assert_eq!(version(expected).is_met_by_kubelet(reported), met, "{expected} {reported}");
    }
}

#[test]
fn declared_versions_are_met_as_far_as_the_expectation_goes() {
    for (expected, declared, met) in [
        ("1.35", "v1.35.4", true),
        ("v1.35.0", "v1.35.0", true),
        ("v1.35.0", "v1.34.0", false),
        ("v1.35.0", "v1.35.1", false),
        ("v1.35.0", "v1.35", false),
        ("v1.35.0", "v1.35.0-eks-1-35-4", true),
        ("v1.35.0-eks-1-35-4", "v1.35.0-eks-1-35-10", false),
        ("v1.35.0-eks-1-35-4", "v1.35.0", false),
        ("v1.35.0", "v1.35.0-rc.0", false),
        ("v1.35.0", "latest", false),
        ("v1.34.1+rke2r2", "v1.34.1+rke2r1", false),
        ("v1.34.1+rke2r2", "v1.34.1+rke2r2", true),
        ("v1.34.1+k3s1", "v1.34.1", false),
        ("v1.31.1+k0s.0", "v1.31.1-k0s.0", true),
        ("v1.28.8---vmware.1-fips.1-tkg.2", "v1.28.8+vmware.1-fips.1", true),
        ("v1.28.8---vmware.1-fips.1-tkg.2", "v1.28.8+vmware.1-fips.1-tkg.2", true),
        ("v1.28.8---vmware.1-fips.1-tkg.3", "v1.28.8+vmware.1-fips.1-tkg.2", false),
        ("v1.26.5---vmware.3-fips.1-tkg.1", "v1.26.5---vmware.2-fips.1-tkg.1", false),
        ("v1.26.5---vmware.3-fips.1-tkg.1", "v1.26.5+vmware.2-fips.1", false),
        ("v1.17.4+vmware.1-tkg.1.0dba899", "v1.17.4+vmware.1-tkg.1.60d2ffd", false),
        ("v1.17.4+vmware.1-tkg.1.0dba899", "v1.17.4+vmware.1", true),
        ("v1.23.8+vmware.2-tkg.2-zshippable", "v1.23.8_vmware.2-tkg.2-zshippable", true),
    ] {
        assert_eq!(version(expected).is_met_by_declared(declared), met, "{expected} {declared}");
    }
}

#[test]
fn numbers_of_vendors_are_ordered_as_numbers() {
    for (left, right, order) in [
        ("v1.32.5-eks-1-32-9", "v1.32.5-eks-1-32-10", Ordering::Less),
        ("v1.32.5-eks-1-32-100", "v1.32.5-eks-1-32-99", Ordering::Greater),
        ("v1.9.0", "v1.10.0", Ordering::Less),
        ("1.35", "v1.35.9", Ordering::Equal),
        ("v1.35.0-rc.1", "v1.35.0", Ordering::Less),
        ("v1.35.0-rc.2", "v1.35.0-rc.10", Ordering::Less),
        ("v1.35.0-beta.2", "v1.35.0-rc.1", Ordering::Less),
        ("v1.34.1+rke2r9", "v1.34.1+rke2r10", Ordering::Less),
        ("v1.34.1-rc1+rke2r2", "v1.34.1+rke2r1", Ordering::Less),
        ("v1.34.1+k3s2", "v1.34.1+k3s1", Ordering::Greater),
        ("v1.34.1+k3s2", "v1.34.1+rke2r3", Ordering::Equal),
        ("v1.28.8---vmware.10-fips.1-tkg.1", "v1.28.8+vmware.9-fips.1-tkg.2", Ordering::Greater),
        ("v1.28.8---vmware.1-fips.1-tkg.10", "v1.28.8---vmware.1-fips.1-tkg.9", Ordering::Greater),
        ("v1.17.4+vmware.1-tkg.1.ee25d55", "v1.17.4+vmware.1-tkg.1.60d2ffd", Ordering::Equal),
        ("1.32.5-gke.1533000", "1.32.5-gke.999000", Ordering::Greater),
    ] {
        assert_eq!(version(left).order(&version(right)), order, "{left} {right}");
        assert_eq!(version(right).order(&version(left)), order.reverse(), "{right} {left}");
    }
}

#[test]
fn a_release_label_contradicts_another_release() {
    for (expected, label, contradicted) in [
        ("v1.28.8---vmware.1-fips.1-tkg.2", "v1.28.8---vmware.1-fips.1-tkg.2", false),
        ("v1.28.8---vmware.1-fips.1-tkg.2", "v1.28.8---vmware.1-fips.1-tkg.1", true),
        ("v1.28.8---vmware.1-fips.1-tkg.2", "v1.27.8---vmware.1-fips.1-tkg.2", true),
        ("v1.28.8+vmware.1-fips.1", "v1.28.8---vmware.1-fips.1-tkg.1", false),
        ("v1.28.8", "no release", false),
    ] {
        assert_eq!(version(expected).is_contradicted_by_release(label), contradicted, "{expected} {label}");
    }
}

#[test]
fn builds_of_one_version_are_not_equal() {
    assert_ne!(version("v1.34.1+rke2r1"), version("v1.34.1+rke2r2"));
    assert_eq!(version("v1.28.8+vmware.1-tkg.2"), version("1.28.8---vmware.1-tkg.2"));
    assert_ne!(version("v1.17.4+vmware.1-tkg.1.ee25d55"), version("v1.17.4+vmware.1-tkg.1.60d2ffd"));
}
