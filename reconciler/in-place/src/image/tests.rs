use bundles::{Manifest, parse, parse_bundles};

use super::*;

const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn release(archives: &[(&str, &str)]) -> bundles::EksdRelease {
    let digest = DIGEST.trim_start_matches("sha256:");
    let assets = |component: &str| -> String {
        let of_component = archives.iter().filter(|(owner, _)| *owner == component);
        of_component
            .map(|(_, name)| {
                let architecture = if name.contains("arm64") { "arm64" } else { "amd64" };
                format!(
                    "    - {{name: {name}, type: Archive, os: linux, arch: [{architecture}], \
                     archive: {{uri: 'https://distro.example/{name}', sha256: {digest}}}}}\n"
                )
            })
            .collect()
    };
    let text = format!(
        "apiVersion: distro.eks.amazonaws.com/v1alpha1\nkind: Release\nmetadata: {{name: kubernetes-1-36-eks-4}}\n\
         spec: {{channel: 1-36, number: 4}}\nstatus:\n  components:\n  - name: kubernetes\n    gitTag: v1.36.4\n    assets:\n{}  \
         - name: cni-plugins\n    gitTag: v1.7.1\n    assets:\n{}",
        assets("kubernetes"),
        assets("cni-plugins")
    );
    match parse("release.yaml", text.as_bytes()).unwrap().remove(0) {
        Manifest::EksdRelease(release) => release,
        other => panic!("{other:?}"),
    }
}

fn versions(containerd: &str) -> bundles::VersionsBundle {
    let digest = DIGEST.trim_start_matches("sha256:");
    let text = format!(
        "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Bundles\nmetadata: {{name: bundles-1}}\nspec:\n  number: 1\n  \
         versionsBundles:\n  - kubeVersion: '1.36'\n    eksD: {{name: kubernetes-1-36-eks-4, containerd: {{uri: '{containerd}', \
         sha256: {digest}}}}}\n"
    );
    parse_bundles("bundles.yaml", text.as_bytes()).unwrap().versions_bundles.remove(0)
}

const CONTAINERD: &str = "https://anywhere.example/containerd-linux-amd64.tar.gz";

#[test]
fn everything_of_an_image_is_taken_from_manifests_with_digests() {
    let release = release(&[
        ("kubernetes", "bin/linux/arm64/kubelet"),
        ("kubernetes", "bin/linux/amd64/kubelet"),
        ("kubernetes", "bin/linux/amd64/kubeadm"),
        ("kubernetes", "bin/linux/amd64/kubectl"),
        ("cni-plugins", "cni-plugins-linux-arm64.tar.gz"),
        ("cni-plugins", "cni-plugins-linux-amd64.tar.gz"),
    ]);
    let found = downloads(&versions(CONTAINERD), &release, Architecture::Amd64).unwrap();
    let uris: Vec<&str> = found.iter().map(|one| one.uri.trim_start_matches("https://distro.example/")).collect();
    assert_eq!(
        uris,
        [
            "bin/linux/amd64/kubeadm",
            "bin/linux/amd64/kubelet",
            "bin/linux/amd64/kubectl",
            "cni-plugins-linux-amd64.tar.gz",
            CONTAINERD,
        ]
    );
    assert!(found.iter().all(|one| one.digest.to_string() == DIGEST));

    let problems = downloads(&versions(CONTAINERD), &release, Architecture::Arm64).unwrap_err();
    let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "kubernetes-1-36-eks-4 has no kubeadm for linux/arm64",
            "kubernetes-1-36-eks-4 has no kubectl for linux/arm64",
            "the Bundles section of 1.36 has no archive of containerd for linux/arm64",
        ]
    );
}

#[test]
fn files_of_archives_have_their_places_on_the_node() {
    for (part, name, path) in [
        (Part::Kubelet, "kubelet", Some("/usr/bin/kubelet")),
        (Part::CniPlugins, "./bridge", Some("/opt/cni/bin/bridge")),
        (Part::CniPlugins, "./LICENSE", None),
        (Part::CniPlugins, "./", None),
        (Part::Containerd, "./usr/local/sbin/runc", Some("/usr/local/sbin/runc")),
        (Part::Containerd, "bin/containerd", Some("/usr/local/bin/containerd")),
        (Part::Containerd, "etc/containerd/config.toml", None),
        (Part::Containerd, "usr/local/bin/../../../etc/passwd", None),
    ] {
        assert_eq!(place(part, name).map(|(_, path)| path).as_deref(), path, "{name}");
    }
}

#[test]
fn manifests_do_not_depend_on_the_order_of_archives() {
    let file =
        |component, path: &str| ReleaseFile { component, path: path.to_owned(), digest: DIGEST.parse().unwrap() };
    let files = [file(Component::Kubelet, "/usr/bin/kubelet"), file(Component::Kubeadm, "/usr/bin/kubeadm")];
    let version = "v1.36.4-eks-1-36-4".parse().unwrap();
    let first = manifest(&version, Architecture::Amd64, &files);
    let [second, other] = files;
    assert_eq!(first, manifest(&version, Architecture::Amd64, &[other.clone(), second]));
    assert_eq!(first["files"][0]["source"], "files/usr/bin/kubeadm");
    assert_eq!(missing_programs(&[other])[..2], ["kubelet", "kubectl"]);
}

/// As much of a program as its header is.
fn program(machine: u8, segment: u8) -> Vec<u8> {
    let mut content = vec![0; 64 + 56];
    content[..6].copy_from_slice(b"\x7fELF\x02\x01");
    content[18] = machine;
    content[32] = 64;
    content[54] = 56;
    content[56] = 1;
    content[64] = segment;
    content
}

#[test]
fn programs_of_other_machines_and_with_libraries_are_named() {
    assert_eq!(why_not_program(&program(62, 1), Architecture::Amd64), None);
    assert_eq!(why_not_program(b"#!/bin/sh\n", Architecture::Arm64), None);
    let why = |content: &[u8], architecture| why_not_program(content, architecture).unwrap();
    assert!(why(&program(183, 1), Architecture::Amd64).contains("is for arm64, and amd64 is wanted"));
    assert!(why(&program(62, 1), Architecture::Arm64).contains("is for amd64"));
    assert!(why(b"<html>", Architecture::Amd64).contains("neither a program nor a script"));
    assert!(why(b"\x7fELF\x01\x01", Architecture::Amd64).contains("64 bits"));
    assert_eq!(why_not_static(&program(62, 1)), None);
    assert!(why_not_static(&program(62, 3)).unwrap().contains("build it statically"));
    assert!(why_not_static(&program(62, 1)[..70]).is_none());
    assert!(why_not_static(&program(62, 1)[..60]).unwrap().contains("not a whole program"));
}
