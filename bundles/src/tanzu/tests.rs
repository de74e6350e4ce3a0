use super::*;
use yaml::{Limits, Node};

fn node(text: &str) -> Node {
    yaml::parse(text, &Limits::default()).unwrap().swap_remove(0).root
}

fn release(text: &str) -> TanzuRelease {
    TanzuRelease {
        version: text.parse().unwrap(),
        standing: Standing::Offered,
        images: ImageReferences::None,
        components: Components::default(),
    }
}

#[test]
fn every_form_of_a_version_is_one_version() {
    let version: DistributionVersion = "v1.23.8+vmware.3-tkg.1".parse().unwrap();
    for text in ["v1.23.8---vmware.3-tkg.1", "1.23.8+vmware.3-tkg.1", "1.23.8---vmware.3-tkg.1"] {
        assert_eq!(text.parse::<DistributionVersion>().unwrap(), version, "{text}");
    }
    assert_eq!((version.name().as_str(), version.kubernetes_build()), ("v1.23.8---vmware.3-tkg.1", "v1.23.8+vmware.3"));
    for text in
        ["", "v1.23", "v1.23.8", "latest", "v1.23.8+", "v1.23.8+vmware..3", "{{TKR}}", "v1.2.3+a b", "v1.2.3-4+a"]
    {
        assert!(text.parse::<DistributionVersion>().is_err(), "{text}");
    }
}

#[test]
fn releases_are_ordered_by_numbers_and_not_by_commits() {
    let order = |left: &str, right: &str| left.parse::<DistributionVersion>().unwrap().order(&right.parse().unwrap());
    for (older, newer) in [
        ("v1.9.4+vmware.1-tkg.1", "v1.10.1+vmware.1-tkg.1"),
        ("v1.27.11+vmware.9-fips.1-tkg.2", "v1.27.11+vmware.10-fips.1-tkg.1"),
        ("v1.27.11+vmware.1-fips.1-tkg.9", "v1.27.11+vmware.1-fips.1-tkg.10"),
        ("v1.17.4+vmware.1-tkg.1.ffffff1", "v1.17.4+vmware.1-tkg.2.0000001"),
    ] {
        assert_eq!((order(older, newer), order(newer, older)), (std::cmp::Ordering::Less, std::cmp::Ordering::Greater));
    }
    assert!(order("v1.17.4+vmware.1-tkg.1.ee25d55", "v1.17.4+vmware.1-tkg.1.60d2ffd").is_eq());
}

#[test]
fn a_hint_ends_where_a_part_of_the_version_ends() {
    let version: DistributionVersion = "v1.20.8+vmware.1-tkg.2".parse().unwrap();
    for (hint, expected) in [
        ("v1", true),
        ("v1.20", true),
        ("1.20.8", true),
        ("v1.20.8+vmware.1", true),
        ("v1.20.8---vmware", true),
        ("v1.20.8+vmware.1-tkg.2", true),
        ("v1.2", false),
        ("v1.20.8+vmware.1-tkg.20", false),
        ("v1.21", false),
    ] {
        assert_eq!(version.begins_with(&hint.parse().unwrap()), expected, "{hint}");
    }
    for text in ["", "v", "latest", "v1.", "v1 2", "${VERSION}"] {
        assert!(text.parse::<VersionHint>().is_err(), "{text}");
    }
}

/// What distribution.version and distribution.fullVersion mean together.
#[test]
fn hints_and_full_versions_are_resolved_as_a_supervisor_does() {
    let mut releases: Vec<TanzuRelease> = [
        "v1.19.7+vmware.1-tkg.1.fc82c41",
        "v1.20.8+vmware.1-tkg.2",
        "v1.20.12+vmware.1-tkg.1.b9a42f3",
        "v1.21.2+vmware.1-tkg.1.ee25d55",
        "v1.21.2+vmware.1-tkg.1.60d2ffd",
        "v1.22.9+vmware.1-tkg.1",
    ]
    .map(release)
    .to_vec();
    releases[5].standing = Standing::Excluded("label incompatible".to_owned());
    let mut newer = release("v1.20.15+vmware.1-tkg.1");
    newer.standing = Standing::Excluded("label deactivated".to_owned());
    releases.push(newer);
    for (hint, full, expected) in [
        ("v1.20", "", "v1.20.12+vmware.1-tkg.1.b9a42f3"),
        ("v1.20.8", "", "v1.20.8+vmware.1-tkg.2"),
        ("1.19", "", "v1.19.7+vmware.1-tkg.1.fc82c41"),
        ("", "v1.20.8+vmware.1-tkg.2", "v1.20.8+vmware.1-tkg.2"),
        ("v1.20", "1.20.8+vmware.1-tkg.2", "v1.20.8+vmware.1-tkg.2"),
        ("v1.20.8+vmware.1-tkg.2", "", "v1.20.8+vmware.1-tkg.2"),
        ("v1.21.2+vmware.1-tkg.1.60d2ffd", "v1.21.2---vmware.1-tkg.1.60d2ffd", "v1.21.2+vmware.1-tkg.1.60d2ffd"),
        ("", "v1.22.9+vmware.1-tkg.1", "v1.22.9+vmware.1-tkg.1"),
    ] {
        let request = Request::of_distribution(hint, full).unwrap().unwrap();
        assert_eq!(resolve(&request, &releases).unwrap().version.as_str(), expected, "{hint} {full}");
    }
    for (hint, full, expected) in [
        ("v1.19", "v1.20.8+vmware.1-tkg.2", "is not the beginning of full version"),
        ("v1.2", "", "no recorded release is v1.2; the newest are v1.22.9"),
        ("", "v1.20.9+vmware.1-tkg.1", "no recorded release is v1.20.9+vmware.1-tkg.1;"),
        ("v1.22", "", "no release of v1.22 is offered: v1.22.9+vmware.1-tkg.1 (label incompatible)"),
        ("v1.20.15+vmware.1-tkg.1", "", "is offered: v1.20.15+vmware.1-tkg.1 (label deactivated)"),
        ("v1.21", "", "may be any of v1.21.2+vmware.1-tkg.1.60d2ffd, v1.21.2+vmware.1-tkg.1.ee25d55"),
    ] {
        let request = Request::of_distribution(hint, full).unwrap().unwrap();
        let refusal = resolve(&request, &releases).unwrap_err().to_string();
        assert!(refusal.contains(expected), "{hint} {full}: {refusal}");
    }
    assert_eq!(Request::of_distribution("", ""), Ok(None));
    let hint = Request::of_distribution("v1.20", "").unwrap().unwrap();
    assert!(matches!(resolve(&hint, &[]), Err(Refusal::NothingRecorded { .. })));
}

#[test]
fn the_name_of_a_release_may_be_the_beginning_of_one() {
    let releases = ["v1.24.9+vmware.1-tkg.3", "v1.24.9+vmware.1-tkg.4"].map(release);
    for (name, expected) in
        [("v1.24.9---vmware.1", "v1.24.9+vmware.1-tkg.4"), ("v1.24.9---vmware.1-tkg.3", "v1.24.9+vmware.1-tkg.3")]
    {
        let request = Request::Name(name.parse().unwrap());
        assert_eq!(resolve(&request, &releases).unwrap().version.as_str(), expected);
    }
}

#[test]
fn releases_of_every_version_of_the_interface_are_read() {
    let legacy = node(
        "{metadata: {name: v1.20.8---vmware.1-tkg.2, labels: {v1: ''}}, spec: {version: 1.20.8+vmware.1-tkg.2, nodeImageRef: \
         {kind: VirtualMachineImage, name: ob-1}}, status: {conditions: [{type: Compatible, status: 'False', reason: Old}]}}",
    );
    let read = TanzuRelease::read(&legacy).unwrap();
    assert_eq!(read.images, ImageReferences::MachineImage("ob-1".to_owned()));
    assert_eq!(read.standing, Standing::Excluded("condition Compatible is False: Old".to_owned()));
    let unified = node(
        "{metadata: {name: v1.27.11---vmware.1-fips.1-tkg.2}, spec: {version: v1.27.11+vmware.1-fips.1-tkg.2, osImages: \
         [{name: a}, {name: b}]}, status: {conditions: [{type: Ready, status: 'True'}]}}",
    );
    let read = TanzuRelease::read(&unified).unwrap();
    assert_eq!(
        (read.standing, read.images),
        (Standing::Offered, ImageReferences::OsImages(vec!["a".to_owned(), "b".to_owned()]))
    );
    for (text, part) in [
        ("{metadata: {name: latest}}", "is not a valid Tanzu Kubernetes release"),
        (
            "{metadata: {name: v1.20.8---vmware.1-tkg.2}, spec: {version: v1.20.9+vmware.1-tkg.2}}",
            "says that it is v1.20.9",
        ),
    ] {
        assert!(TanzuRelease::read(&node(text)).unwrap_err().message.contains(part), "{text}");
    }
}

#[test]
fn images_say_their_release_in_annotations_or_in_their_status() {
    let key = "vmware-system.guest.kubernetes.distribution.image.version";
    let json = r#"{"distribution": {"version": "1.20.8+vmware.1-tkg.2"}, "compatibility-7.0.0.10100": {"isCompatible": "true"}}"#;
    for text in [
        format!("{{metadata: {{name: i, annotations: {{{key}: '{json}'}}}}}}"),
        format!(
            "{{metadata: {{name: i}}, status: {{vmwareSystemProperties: [{{key: a, value: b}}, {{key: {key}, value: '{json}'}}]}}}}"
        ),
    ] {
        let image = MachineImage::read(&node(&text)).unwrap();
        assert_eq!(image.distribution.unwrap().as_str(), "v1.20.8+vmware.1-tkg.2", "{text}");
    }
    assert_eq!(MachineImage::read(&node("{metadata: {name: i}}")).unwrap().distribution, None);
    let large = format!("{{metadata: {{name: i, annotations: {{a: {}}}}}}}", "x".repeat(20_000_000));
    for (text, part) in [
        (format!("{{metadata: {{name: i, annotations: {{{key}: '{{'}}}}}}"), "is not valid JSON"),
        (format!("{{metadata: {{name: i, annotations: {{{key}: '{{}}'}}}}}}"), "names no distribution.version"),
        (large, "has 20000000 bytes of properties"),
    ] {
        let error = MachineImage::read(&node(&text)).unwrap_err();
        assert!(error.message.contains(part), "{}", error.message);
    }
}

#[test]
fn operating_systems_are_chosen_by_labels() {
    let image = OsImage::read(&node(
        "{metadata: {name: i, labels: {gpu: ''}}, spec: {os: {name: ubuntu, version: '20.04', arch: amd64, type: linux}, image: \
         {type: vmop, ref: {name: vmi-1}}}}",
    ))
    .unwrap();
    assert_eq!(image.machine_image.as_deref(), Some("vmi-1"));
    for (query, expected) in [
        ("", true),
        ("os-name=ubuntu", true),
        ("os-name==ubuntu, os-version=20.04", true),
        ("os-arch in (amd64, arm64),gpu", true),
        ("os-name=photon", false),
        ("os-name!=ubuntu", false),
        ("os-name notin (ubuntu)", false),
        ("!gpu", false),
        ("!other", true),
    ] {
        assert_eq!(query.parse::<LabelQuery>().unwrap().is_met_by(&image), expected, "{query}");
    }
    for query in ["=a", "os-name within (a)", "a b", ",", "(a)"] {
        assert!(query.parse::<LabelQuery>().is_err(), "{query}");
    }
}
