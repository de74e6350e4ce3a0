use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};

use super::*;
use crate::manifest::{Manifest, parse, parse_bundles};

const RELEASE: &str = "apiVersion: distro.eks.amazonaws.com/v1alpha1
kind: Release
metadata:
  creationTimestamp: null
  name: kubernetes-1-31-eks-34
  namespace: eksa-system
spec:
  channel: 1-31
  number: 34
status:
  components:
  - {name: etcd, gitTag: v3.5.9, assets: [{name: etcd-image, type: Image, image: {uri: 'r/etcd:1'}}]}
";

fn release(text: &str) -> EksdRelease {
    match parse("release.yaml", text.as_bytes()).unwrap().remove(0) {
        Manifest::EksdRelease(release) => release,
        other => panic!("{other:?}"),
    }
}

fn bundles(name: &str, signature: &str) -> Bundles {
    let text = format!(
        "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Bundles\nmetadata:\n  name: bundles-1\n  annotations: \
         {{distro.eks.amazonaws.com/signature-1-31: '{signature}'}}\nspec:\n  number: 1\n  versionsBundles:\n  - kubeVersion: \
         '1.31'\n    eksD: {{name: {name}, channel: 1-31, kubeVersion: v1.31.13}}\n"
    );
    parse_bundles("bundles.yaml", text.as_bytes()).unwrap()
}

fn reference(bundles: &Bundles) -> &EksDReference {
    bundles.versions_bundles[0].eks_d.as_ref().unwrap()
}

/// A signature over `RELEASE`, and the key that made it.
fn signed() -> (String, Vec<u8>) {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, document.as_ref(), &random).unwrap();
    let signature = key.sign(&random, signed_form(&release(RELEASE).node).as_bytes()).unwrap();
    (STANDARD.encode(signature), key.public_key().as_ref().to_vec())
}

#[test]
fn name_channel_and_number_are_signed() {
    let expect = r#"{"apiVersion":"distro.eks.amazonaws.com/v1alpha1","kind":"Release","metadata":{"name":"kubernetes-1-31-eks-34"},"spec":{"channel":"1-31","number":34}}"#;
    assert_eq!(signed_form(&release(RELEASE).node), expect);
    let bundles = bundles("kubernetes-1-31-eks-34", "");
    assert_eq!(signed_form(&named(reference(&bundles)).unwrap().1), expect);
}

#[test]
fn another_release_does_not_fit_and_another_image_does() {
    let (signature, key) = signed();
    let bundles = bundles("kubernetes-1-31-eks-34", &signature);
    let verify = |text: &str| verify_with(&bundles, "1-31", &release(text).node, &key);
    assert_eq!(verify(RELEASE), EksdSignatureVerdict::Valid);
    assert_eq!(verify(&RELEASE.replace("r/etcd:1", "evil/etcd:1")), EksdSignatureVerdict::Valid);
    for (from, to) in [("eks-34", "eks-35"), ("number: 34", "number: 35"), ("kind: Release", "kind: Release\nextra: 1")]
    {
        assert!(RELEASE.contains(from));
        let verdict = verify(&RELEASE.replace(from, to));
        assert!(matches!(verdict, EksdSignatureVerdict::Invalid { .. }), "{from} -> {to}: {verdict:?}");
    }
    let (_, named) = named(reference(&bundles)).unwrap();
    assert_eq!(verify_with(&bundles, "1-31", &named, &key), EksdSignatureVerdict::Valid);
    assert!(EksdSignatureVerdict::Valid.statement().contains("none of its images"));
}

#[test]
fn missing_and_broken_signatures_are_told_apart() {
    let missing = bundles("kubernetes-1-31-eks-34", "");
    assert_eq!(verify_eksd_release(&missing, &release(RELEASE)), EksdSignatureVerdict::Missing);
    let of_other_channel = release(&RELEASE.replace("1-31", "1-32"));
    let (signature, _) = signed();
    let invalid = |verdict: &EksdSignatureVerdict| matches!(verdict, EksdSignatureVerdict::Invalid { .. });
    let of_another_key = bundles("kubernetes-1-31-eks-34", &signature);
    assert_eq!(verify_eksd_release(&of_another_key, &of_other_channel), EksdSignatureVerdict::Missing);
    assert!(invalid(&verify_eksd_release(&of_another_key, &release(RELEASE))));
    assert!(invalid(&verify_eksd_release(&bundles("x", "no base64!"), &release(RELEASE))));
    let unnamed = bundles("release", &signature);
    assert!(invalid(&verify_eksd_reference(&unnamed, reference(&unnamed))));
}
